"""The command `secondsight export`: the maps of a run as NPZ files, as figures, or for FiftyOne."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import secondsight as ss
from secondsight.cli import options
from secondsight.cli.arguments import require_folder
from secondsight.cli.console import complain, output, printable
from secondsight.cli.progress_bar import ProgressBar


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or not.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="npz|png|fiftyone",
            help="npz: all arrays, for Explanation.load. png: figures. fiftyone: a dataset of pictures and heatmaps, "
            "for fiftyone.Dataset.from_dir with the type FiftyOneDataset.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the files.")],
    overwrite: options.Overwrite = False,
) -> None:
    """Write the maps of a run as other files."""
    require_folder(out)
    from secondsight.runs.exports import export as write

    opened = ss.open_run(run)
    with ProgressBar(len(opened)) as bar:
        left_out = write(opened, to, out, overwrite, bar.start_photograph)
    for name in left_out:
        complain(f"{name} is left out: its input cannot be read again", "note")
    output().print(printable(f"{out}: maps {len(opened) - len(left_out):,}"), soft_wrap=True)
