"""What the command prints: the table of explanations, the lines below it, and the one line of an error."""

from __future__ import annotations

import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from secondsight.errors import SecondsightWarning

Record = dict[str, Any]
"""An explanation's summary, with its photograph and the files that were written."""

EXPLAIN_COLUMNS = (
    "photograph",
    "class",
    "probability",
    "method",
    "lambda1",
    "lambda2",
    "sparsity",
    "relative gap",
    "certified",
    "H-products",
    "seconds",
)
"""The table of `explain`, by headings in CELLS: what was explained, what was chosen, what is proven at what cost."""

COMPARE_COLUMNS = ("photograph", "model", "class", "method", "g.e.", "seconds", "sparsity", "relative gap", "certified")
"""The table of `compare`: the cost comes first, because the figure shows the maps."""

SWEEP_COLUMNS = ("photograph", "method", "values", "lambda1", "sparsity", "relative gap", "H-products", "seconds")
"""The table of `sweep`: one row for each grid of lambda1."""

WORDS = ("photograph", "model", "class", "method", "values", "certified")
"""Columns of words, which are aligned to the left; numbers are aligned to the right."""

NOTHING = "-"
"""What the table shows if a method has no such number."""

UNWRAPPED = 1000
"""Width of output that goes to no terminal: larger than any table, so that nothing is broken into lines or cut."""


def printable(text: object) -> str:
    """Spell out control characters and undecodable bytes: text stays on one line and cannot steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def complain(what: object, kind: str = "error") -> None:
    """Print one line on stderr.

    Args:
        what: the message.
        kind: "error", or "note" for something that does not stop the work.
    """
    sys.stderr.write(f"secondsight: {kind}: {printable(what)}\n")


def output() -> Console:
    """Return the console of standard output. It prints text as it is: brackets in a file name are no markup."""
    width = None if sys.stdout.isatty() else UNWRAPPED
    return Console(width=width, markup=False, emoji=False, highlight=False)


def report(records: Sequence[Record], columns: Sequence[str]) -> None:
    """Print the table, then for each photograph its second-order sentence, its notes and where its figure is.

    Args:
        records: one for each map; the maps of a photograph follow each other.
        columns: keys of CELLS.
    """
    console = output()
    if records:
        console.print(table(records, columns, console))
    for (photograph, _), group in itertools.groupby(records, lambda record: (record["photograph"], record["figure"])):
        some = list(group)
        common = set.intersection(*(set(record["notes"]) for record in some))
        lines = [record["second_order"] for record in some if "second_order" in record]
        for record in some:
            whose = f"{record['method']}: "
            lines += [f"note: {'' if note in common else whose}{note}" for note in record["notes"]]
        lines += [f"{kind}: {some[0][kind]}" for kind in ("figure", "page", "arrays") if some[0].get(kind) is not None]
        for line in [photograph, *(f"  {line}" for line in dict.fromkeys(lines))]:
            console.print(printable(line), soft_wrap=True)


def show_json(record: Record) -> None:
    """Print a record as one line of strict JSON, in which numbers that are not finite are null."""
    finite = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in record.items()}
    sys.stdout.write(json.dumps(finite, allow_nan=False) + "\n")
    sys.stdout.flush()


def table(records: Iterable[Record], columns: Sequence[str], console: Console) -> Table:
    """Lay out one row per map; if that is wider than the terminal, one section per map.

    Args:
        records: one for each map.
        columns: keys of CELLS.
        console: the terminal, which has a width.
    """
    rows = [[CELLS[name](record) for name in columns] for record in records]
    wide = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        wide.add_column(name, justify="left" if name in WORDS else "right")
    for row in rows:
        wide.add_row(*row)
    if console.measure(wide, options=console.options.update(width=UNWRAPPED)).maximum <= console.width:
        return wide
    tall = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            tall.add_row(name, cell, end_section=name == columns[-1])
    return tall


def _number(key: str, form: str) -> Callable[[Record], str]:
    return lambda record: NOTHING if record.get(key) is None else format(record[key], form)


def _gap(record: Record) -> str:
    if "relative_gap" not in record:
        return NOTHING
    gap = record["relative_gap"]
    return "none" if gap is None else f"{gap:.1e}" if gap else "0"


def _certified(record: Record) -> str:
    if "certified" not in record:
        return NOTHING
    return f"yes, {record['basis']}" if record["certified"] else "no"


CELLS: dict[str, Callable[[Record], str]] = {
    "photograph": lambda record: printable(record["photograph"]),
    "model": lambda record: printable(record["model"]),
    "class": lambda record: printable(record["label"]),
    "probability": _number("probability", ".3g"),
    "method": lambda record: str(record["method"]),
    "values": lambda record: str(record["values"]),
    "lambda1": _number("lambda1", ".3g"),
    "lambda2": _number("lambda2", ".4g"),
    "sparsity": _number("sparsity", ".1%"),
    "relative gap": _gap,
    "certified": _certified,
    "H-products": _number("products", "d"),
    "g.e.": _number("gradient_equivalents", ".1f"),
    "seconds": _number("seconds", ".1f"),
}
"""How a record is written in each column, by the heading of the column."""


@contextmanager
def warnings_caught() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the UserWarnings of any library, to be shown as notes. Warnings for developers are dropped."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # The warnings of secondsight are among the notes of each result.
        warnings.simplefilter("ignore", SecondsightWarning)
        yield caught
