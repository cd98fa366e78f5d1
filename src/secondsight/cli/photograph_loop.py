"""The loop that `explain`, `compare` and `sweep` share: one figure per photograph, then the table of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

import secondsight as ss
from secondsight.cli.console import Record, complain, report, show_json, warnings_caught
from secondsight.cli.exit_codes import USAGE_ERROR
from secondsight.cli.progress_bar import ProgressBar

LONGEST_NAME = 255
"""Bytes of a file name that the usual file systems allow."""


def for_each_photograph(
    photographs: Sequence[Path],
    out: Path,
    work: Callable[[int, Path, ProgressBar], list[Record]],
    columns: Sequence[str],
    as_json: bool,
    suffix: str = "",
    sheet: Path | None = None,
    finish: Callable[[], None] = lambda: None,
    endings: Sequence[str] = (".png",),
    overwrite: bool = False,
) -> None:
    """Work on each photograph and print the results. A photograph that fails does not stop the others.

    Args:
        photographs: the files to work on.
        out: the folder of the figures.
        work: called with the number of a photograph, the file for its figure and the progress bar. It writes the
            figure and returns one record for each map.
        columns: the columns of the table.
        as_json: print each record as a line of JSON when its photograph is done, instead of the table at the end.
        suffix: goes between a photograph's name and ".png" in the name of its figure.
        sheet: the file of the one figure of all photographs; None: each has its own.
        finish: called when all photographs are done, before the table is printed. It writes the sheet.
        endings: of the files that are written for each photograph.
        overwrite: whether files that exist may be written over.

    Raises:
        SecondsightError: before any work, if a file exists and `overwrite` is not set.
        typer.Exit: at the end, if a photograph failed.
    """
    records: list[Record] = []
    failed = False
    figures = _figure_names(photographs, out, suffix)
    if not overwrite:
        _refuse_existing([sheet] if sheet else [one.with_suffix(ending) for one in figures for ending in endings])
    with ProgressBar(len(photographs), hidden=as_json and sys.stdout.isatty()) as bar:
        for number, (photograph, figure) in enumerate(zip(photographs, figures, strict=True)):
            bar.start_photograph(number, photograph.name)
            try:
                with warnings_caught() as warned:
                    done = work(number, figure, bar)
            except ss.SecondsightError as error:
                complain(error if str(photograph) in str(error) else f"{photograph}: {error}")
                failed = True
                continue
            for record in done:
                notes = list(dict.fromkeys([*record["notes"], *(str(warning.message) for warning in warned)]))
                record |= {"notes": notes, "photograph": str(photograph)}
                record |= _written(sheet or figure, endings)
                if as_json:
                    show_json(record)
            records += done
        finish()
    if not as_json:
        report(records, columns)
    if failed:
        raise typer.Exit(USAGE_ERROR)


def _refuse_existing(files: Sequence[Path]) -> None:
    """Raise an error that names the first of these files that exists, if any does."""
    existing = [file for file in files if os.path.lexists(file)]
    if existing:
        others = f" and {len(existing) - 1} more exist" if len(existing) > 1 else " exists"
        raise ss.SecondsightError(f"{existing[0]}{others}: --overwrite writes over files, --out names another folder")


def _written(figure: Path, endings: Sequence[str]) -> Record:
    """List the files of a photograph: its figure (None: there is none), and page and arrays if they were asked for."""
    others = {"page": ".html", "arrays": ".npz"}
    written = {name: str(figure.with_suffix(ending)) for name, ending in others.items() if ending in endings}
    return {"figure": str(figure) if ".png" in endings else None} | written


def _figure_names(photographs: Sequence[Path], out: Path, suffix: str) -> list[Path]:
    """Name the figures OUT/STEM+SUFFIX.png, numbered if another figure or one of the photographs has that name.

    Names that differ only in case count as equal, because some file systems do not tell them apart.
    """
    taken = {str(photograph.absolute()).casefold() for photograph in photographs}
    names = []
    for photograph in photographs:
        count, name = 1, out / _named(photograph.stem, f"{suffix}.png")
        while str(name.absolute()).casefold() in taken:
            count += 1
            name = out / _named(photograph.stem, f"{suffix}-{count}.png")
        taken.add(str(name.absolute()).casefold())
        names.append(name)
    return names


def _named(stem: str, ending: str) -> str:
    """Put a stem and an ending together, and leave out the end of a stem that is too long."""
    while len(os.fsencode(stem + ending)) > LONGEST_NAME:
        stem = stem[:-1]
    return stem + ending
