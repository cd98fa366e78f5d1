"""The command `secondsight`: a thin layer over `secondsight.explain`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Table

import secondsight as ss
from secondsight import zoo
from secondsight.console import Record, Watch, complain, output, report, show_json

USAGE_ERROR, INTERRUPTED = 2, 130

app = typer.Typer(add_completion=False, epilog="Example: secondsight explain cat.jpg dog.jpg --out maps")


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 2 for anything that was asked wrongly, 130 for Ctrl-C."""
    try:
        code = typer.main.get_command(app).main(args, prog_name="secondsight", standalone_mode=False)
    except typer.TyperException as error:
        complain(error.format_message())
        return USAGE_ERROR
    except ss.SecondsightError as error:
        complain(error)
        return USAGE_ERROR
    if code == INTERRUPTED:
        sys.stderr.write("secondsight: interrupted\n")
    return int(code or 0)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"secondsight {ss.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _secondsight(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which pixels an image classifier's decision hangs on: sparse maps, of first order (CAFO) or second order (CASO),
    each with a proof of how near it is to the best one.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog="Example: secondsight explain cat.jpg --target 'tiger cat' --lambda1 0.05 --out maps")
def explain(
    photographs: Annotated[
        list[Path], typer.Argument(metavar="PHOTO", help="Photographs in any format that Pillow reads.")
    ],
    method: Annotated[
        Literal["caso", "cafo"],
        typer.Option(help="caso takes the curvature of the loss into account; cafo only its gradient, and is faster."),
    ] = "caso",
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME|INDEX", help="Explain this class instead of the predicted one."),
    ] = None,
    lambda1: Annotated[
        str,
        typer.Option(
            metavar="auto|paper|NUMBER",
            help="How few pixels the map keeps: the larger, the fewer; 0 keeps all. auto stops where more pixels add "
            "little; paper follows section 4.1 of the paper.",
        ),
    ] = "auto",
    c1: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="How far the penalty on large changes lies above the least for which there is one best map. A large "
            "value drowns the curvature: caso then looks like cafo.",
        ),
    ] = 10.0,
    lambda2: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="The penalty on large changes itself, instead of half the Hessian's largest eigenvalue plus c1 "
            "(cafo: instead of c1).",
        ),
    ] = None,
    curvature: Annotated[
        Literal["auto", "gauss-newton", "exact"],
        typer.Option(
            help="The curvature that caso sees: exact is the true Hessian; gauss-newton leaves out how the network "
            "itself bends; auto is exact, computed as gauss-newton where both are equal."
        ),
    ] = "auto",
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="A map counts as certified when the best objective is proven to be no further off than this share.",
        ),
    ] = 1e-4,
    certify: Annotated[
        Literal["chosen", "path"],
        typer.Option(help="Prove the map that is shown, or every map of the strip below it."),
    ] = "chosen",
    bound: Annotated[
        Literal["estimated", "proven"],
        typer.Option(
            help="What the proof takes as the Hessian's largest eigenvalue: an estimate, or a proven bound, which "
            "takes one backward pass per class."
        ),
    ] = "estimated",
    max_products: Annotated[
        int, typer.Option(metavar="N", help="Give up on the proof after so many products with the Hessian.")
    ] = 100,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the random start of the eigenvalue estimate."),
    ] = 0,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="The classifier; `secondsight models` lists them.")
    ] = zoo.DEFAULT,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where figures go, one PNG for each photograph.")] = Path(
        "out"
    ),
    save_npz: Annotated[
        bool, typer.Option("--save-npz", help="Also write the arrays beside each figure, for Explanation.load.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per photograph instead of the table.")
    ] = False,
) -> None:
    """Explain photographs: write a figure for each and print a table."""
    _require_folder(out)
    asked = {
        "method": method,
        "target": target,
        "lambda1": _number_or_word(lambda1),
        "c1": c1,
        "lambda2": lambda2,
        "curvature": curvature,
        "tolerance": tolerance,
        "certify": certify,
        "bound": bound,
        "max_products": max_products,
        "seed": seed,
    }
    records = []
    failed = False
    with Watch(len(photographs), hidden=as_json and sys.stdout.isatty()) as watch:
        classifier = _checked_model(model, asked)
        figures = _figure_names(photographs, out)
        for number, (photograph, figure) in enumerate(zip(photographs, figures, strict=True)):
            watch.photograph(number, photograph.name)
            files = [figure, figure.with_suffix(".npz")] if save_npz else [figure]
            try:
                record = _record(classifier, photograph, asked, files, watch)
            except ss.SecondsightError as error:
                complain(error if str(photograph) in str(error) else f"{photograph}: {error}")
                failed = True
                continue
            if as_json:
                show_json(record)
            else:
                records.append(record)
    report(records)
    if failed:
        raise typer.Exit(USAGE_ERROR)


@app.command(epilog="Example: secondsight demo --out cat.png")
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="Where the figure goes.")] = Path("out/demo.png"),
) -> None:
    """Explain the photograph that comes with secondsight by CAFO and by CASO."""
    if out.suffix.lower() != ".png" or out.is_dir():
        raise ss.InputError("--out", "the name of a .png file", repr(str(out)))
    _require_folder(out.parent)
    photograph = ss.example_photograph()
    with Watch(2) as watch:
        classifier = ss.load_model()
        records = []
        for number, method in enumerate(("cafo", "caso")):
            watch.photograph(number, method)
            files = [out] if method == "caso" else []
            record = _record(classifier, photograph, {"method": method}, files, watch)
            records.append(record | {"photograph": photograph.name})
    report(records)


@app.command(epilog="Example: secondsight explain cat.jpg --model resnet50-v1@weights.safetensors")
def models() -> None:
    """List the classifiers that --model takes."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("description")
    for entry in zoo.MODELS:
        mark = " (default)" if entry.name == zoo.DEFAULT else ""
        table.add_row(zoo.spelled(entry) + mark, entry.description)
    output().print(table)


def _record(model: ss.Classifier, photograph: Path, asked: Record, files: Sequence[Path], watch: Watch) -> Record:
    """Explain one photograph and write its files. Warnings of any library become notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        explanation: ss.Explanation = ss.explain(model, photograph, **asked, progress=watch.products)
        for file in files:
            explanation.save(file)
    notes = dict.fromkeys([*explanation.notes, *(str(warning.message) for warning in caught)])
    figure = str(files[0]) if files else None
    return explanation.summary() | {"notes": list(notes), "photograph": str(photograph), "figure": figure}


def _checked_model(name: str, asked: Record) -> ss.Classifier:
    """The model, once everything that is wrong for every photograph has been refused."""
    model = ss.load_model(name)
    ss.explain(model, [], **asked)
    if asked["target"] is not None and model.labels is not None:
        model.target_index(asked["target"], len(model.labels))
    return model


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _figure_names(photographs: Sequence[Path], out: Path) -> list[Path]:
    """DIR/STEM.png for each, numbered where that is taken by another one or is one of the photographs."""
    taken = {str(photograph.absolute()).casefold() for photograph in photographs}
    names = []
    for photograph in photographs:
        count, name = 1, out / f"{photograph.stem}.png"
        while str(name.absolute()).casefold() in taken:
            count += 1
            name = out / f"{photograph.stem}-{count}.png"
        taken.add(str(name.absolute()).casefold())
        names.append(name)
    return names


def _require_folder(folder: Path) -> None:
    """Refuse, before any work, a folder that cannot be made or written to."""
    try:
        nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    except OSError as error:
        raise ss.SecondsightError(f"--out {folder} cannot be used: {error.strerror}") from None
    if not nearest.is_dir():
        raise ss.InputError("--out", "a folder" if nearest == folder else "inside a folder", f"the file {nearest}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ss.SecondsightError(f"--out {folder} cannot be used: {nearest} cannot be written to")
