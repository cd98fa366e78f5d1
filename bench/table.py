"""The table of one network on the terminal, each row also as a line of its own, because a run may be cut short."""

from __future__ import annotations

from rich.table import Table

from bench.row import COLUMNS, LIMITS, Figures, Row, cells, limits

TITLES = ("method", *(title for title, _ in COLUMNS.values()), "limits")


def shown(row: Row, gradient_peak: int | None) -> list[str]:
    """What the table shows of a row, in the order of TITLES."""
    figures = row.figures(gradient_peak)
    return [row.name, *cells(figures), limits_text(figures)]


def limits_text(figures: Figures) -> str:
    """The limits of a row in words."""
    return ", ".join(f"{LIMITS[name]} {limit:g}" for name, limit in limits(figures).items())


def line(row: Row, gradient_peak: int | None) -> str:
    """The same in one line of text."""
    name, *rest = shown(row, gradient_peak)
    return f"{name}: " + "; ".join(f"{title} {cell}" for title, cell in zip(TITLES[1:], rest, strict=True) if cell)


def table(title: str, rows: list[Row], gradient_peak: int | None) -> Table:
    caption = "\n".join(row.note for row in rows if row.note)
    result = Table(title=title, caption=caption, caption_justify="left")
    for column in TITLES:
        is_text = column in (TITLES[0], TITLES[-1])
        result.add_column(column, justify="left" if is_text else "right", no_wrap=column == TITLES[0])
    for row in rows:
        result.add_row(*shown(row, gradient_peak))
    return result
