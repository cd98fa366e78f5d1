"""The command `secondsight models`: the names that --model takes."""

from __future__ import annotations

from rich import box
from rich.table import Table

from secondsight import zoo
from secondsight.cli.console import output


def models() -> None:
    """List the classifiers that --model takes."""
    from secondsight.zoo.catalogue import MODELS, spelled

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("description")
    for entry in MODELS:
        mark = " (default)" if entry.name == zoo.DEFAULT else ""
        table.add_row(spelled(entry) + mark, entry.description)
    output().print(table)
