"""The command `secondsight report`: one page about a run of `secondsight batch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import secondsight as ss
from secondsight.cli import options
from secondsight.cli.arguments import require_folder
from secondsight.cli.console import output, printable
from secondsight.cli.progress_bar import ProgressBar


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as `secondsight batch` wrote it.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page.", show_default="RUN/report.html")
    ] = None,
    gallery: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Photographs in the gallery, evenly spread over the run. A thousand take some 30 MB; the numbers are "
            "of all.",
        ),
    ] = 1000,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a page about a run: what was certified, histograms, failures, and a gallery that opens in the viewer."""
    file = run / "report.html" if out is None else out
    if file.suffix.lower() != ".html" or file.is_dir():
        raise ss.InputError("--out", "the name of an .html file", repr(str(file)))
    require_folder(file.parent)
    opened = ss.open_run(run)
    if file.exists() and not overwrite:
        raise ss.SecondsightError(f"{file} exists: --overwrite writes over it, --out names another file")
    # Not at the top of the file, because it needs torch.
    from secondsight.runs.run_report import save_report

    with ProgressBar(min(len(opened), gallery)) as bar:
        save_report(opened, file, gallery, lambda done, total: bar.start_photograph(done, "report"))
    output().print(printable(f"{file}: {file.stat().st_size / 1e6:.1f} MB"), soft_wrap=True)
