"""The command `secondsight batch`: a whole dataset into a folder, resumed where it was cut short."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, require_folder
from secondsight.cli.console import complain, output, printable, warnings_caught
from secondsight.cli.exit_codes import ITEMS_FAILED
from secondsight.cli.method_options import ALL, asked_method, takes_options_of
from secondsight.cli.run_progress import RunProgress

if TYPE_CHECKING:
    from secondsight.runs.stored_run import StoredRun

SHOWN_ERRORS = 5
"""How many errors are printed at the end. All of them are in the run."""


@takes_options_of(*ALL)
def batch(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A folder with photographs, also in folders below it; a quoted glob; a list of photographs (.txt, or "
            ".csv, .tsv, .parquet with a column path and perhaps a column target); or a WebDataset .tar.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder of the run: new, or one to go on with.")],
    method: options.MethodName = "caso",
    target: options.Target = None,
    use_labels: Annotated[
        bool, typer.Option("--use-labels", help="Explain the class beside each photograph of a .tar (NAME.cls).")
    ] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N items.")] = None,
    path: Annotated[
        bool,
        typer.Option("--path", help="Also store the maps along lambda1 and the gradient: some twenty times the space."),
    ] = False,
    dense: Annotated[
        str | None, typer.Option(metavar="zarr", help="Also write all maps into one Zarr array, RUN/dense.zarr.")
    ] = None,
    retry_errors: Annotated[
        bool,
        typer.Option(
            "--retry-errors",
            help="Also do those chunks again in which an item has an error, if that item can be opened now.",
        ),
    ] = False,
    chunk: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Items in a chunk, which is a file of the run. A run that is cut short loses the chunk it was at.",
            show_default="128",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="local|ray", help="local: this process. ray: processes of Ray, on this machine or on a cluster."
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Processes of Ray.", show_default="one for each GPU, or each core without GPUs"
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="auto|HOST:PORT",
            help="A cluster of Ray whose nodes all see RUN and the photographs.",
            show_default="one is started for the run",
        ),
    ] = None,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    model: options.Model = zoo.DEFAULT,
    max_pixels: options.MaxPixels = None,
    value_range: options.ValueRange = None,
    **asked: Any,
) -> None:
    """Explain a whole dataset: every map goes into the folder RUN, as Parquet files.

    A run that was cut short goes on with the same command. An item that cannot be read or explained has its error in
    the run, and the exit code is then 1.
    """
    require_folder(out)
    config = asked_method(method, preset, asked)
    classifier = checked_model(model, target, max_pixels, value_range)
    # Not at the top of the file, because it needs torch.
    from secondsight.runs.dataset_run import IN_A_FILE

    try:
        with RunProgress() as progress, warnings_caught() as warned:
            run = ss.run(
                classifier,
                source,
                config,
                target,
                out=out,
                seed=seed,
                use_labels=use_labels,
                limit=limit,
                store_path=path,
                dense=cast("Any", dense),
                retry_errors=retry_errors,
                chunk=chunk or IN_A_FILE,
                engine=cast("Any", engine),
                workers=workers,
                address=address,
                progress=progress,
            )
    except KeyboardInterrupt:
        complain(f"what is done is in {out}: the same command goes on", "note")
        raise
    for note in dict.fromkeys(str(warning.message) for warning in warned):
        complain(note, "note")
    raise typer.Exit(_report(run))


def _report(run: StoredRun) -> int:
    """Print what is in a run, and return the exit code."""
    errors = run.errors
    for one in errors.slice(0, SHOWN_ERRORS).to_pylist():
        named = one["id"] in one["error"] or (one["path"] or one["id"]) in one["error"]
        complain(one["error"] if named else f"{one['id']}: {one['error']}")
    if len(errors) > SHOWN_ERRORS:
        complain(
            f"errors of further items: {len(errors) - SHOWN_ERRORS:,}; all are in open_run({str(run.path)!r}).errors"
        )
    output().print(printable(f"{run.path}: maps {len(run):,}, errors {len(errors):,}"), soft_wrap=True)
    return ITEMS_FAILED if len(errors) else 0
