"""One table per network, each row also as a line of its own, for a run may be cut short."""

from __future__ import annotations

import statistics

from rich.table import Table

from bench.measure import Row, quantile

COLUMNS = (
    "method",
    "photos",
    "g.e. median",
    "g.e. 95 %",
    "seconds",
    "products",
    "worst gap",
    "peak GB",
    "peak / gradient",
    "target, g.e.",
)


def cells(row: Row, gradient_peak: int | None) -> list[str]:
    """What the table shows of a row, in the order of COLUMNS."""
    peak = "" if row.peak is None else f"{row.peak / 1e9:.2f}"
    ratio = f"{row.peak / gradient_peak:.2f}" if row.peak is not None and gradient_peak else ""
    return [
        row.name,
        str(len(row.costs)),
        f"{statistics.median(row.costs):.1f}",
        f"{quantile(row.costs, 0.95):.1f}",
        f"{statistics.median(row.seconds):.2f}",
        f"{statistics.median(row.products):g}" if row.products else "",
        f"{max(row.gaps):.0e}" if row.gaps else "",
        peak,
        ratio,
        row.target,
    ]


def line(row: Row, gradient_peak: int | None) -> str:
    """The same in one line of text."""
    name, *rest = cells(row, gradient_peak)
    pairs = zip(COLUMNS[1:], rest, strict=True)
    return f"{name.strip()}: " + "; ".join(f"{column} {cell}" for column, cell in pairs if cell)


def table(title: str, rows: list[Row], gradient_peak: int | None) -> Table:
    caption = "\n".join(row.note for row in rows if row.note)
    result = Table(title=title, caption=caption, caption_justify="left")
    for i, column in enumerate(COLUMNS):
        is_text = i in (0, len(COLUMNS) - 1)
        result.add_column(column, justify="left" if is_text else "right", no_wrap=is_text)
    for row in rows:
        result.add_row(*cells(row, gradient_peak))
    return result
