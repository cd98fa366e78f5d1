"""The command `secondsight`: a thin layer over `secondsight.explain`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.table import Table

import secondsight as ss
from secondsight import options, zoo
from secondsight.comparison import COLUMNS, check_methods
from secondsight.console import (
    COMPARE_COLUMNS,
    EXPLAIN_COLUMNS,
    SWEEP_COLUMNS,
    Record,
    Watch,
    complain,
    output,
    report,
    require_folder,
    show_json,
    warnings_caught,
)
from secondsight.explanation import demo_figure, save_figure
from secondsight.paper_cli import paper_app
from secondsight.presets import preset as options_of

USAGE_ERROR, INTERRUPTED = 2, 130

app = typer.Typer(add_completion=False, epilog="Example: secondsight explain cat.jpg dog.jpg --out maps")
app.add_typer(paper_app, name="paper")


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
    context: typer.Context,
    photographs: options.Photographs,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="caso takes the curvature of the loss into account; cafo only its gradient, and is faster; "
            "smooth-caso and smooth-cafo average over noisy copies. For comparison: gradient, smoothgrad, "
            "integrated-gradients.",
        ),
    ] = "caso",
    target: options.Target = None,
    lambda1: options.Lambda1 = "auto",
    c1: options.C1 = 10.0,
    lambda2: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="The penalty on large changes itself, instead of half the Hessian's largest eigenvalue plus c1 "
            "(cafo: instead of c1).",
        ),
    ] = None,
    curvature: options.Curvature = "auto",
    groups: options.Groups = "none",
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
    n: options.Samples = 50,
    sigma: options.Sigma = 0.15,
    batch_size: options.BatchSize = None,
    score: options.Score = "logit",
    times_input: Annotated[
        bool | None,
        typer.Option(
            "--times-input/--no-times-input",
            help="Multiply the map by the input. By default only for integrated-gradients. The paper argues against it "
            "(appendix D): dark pixels cannot show then, whatever they do to the decision.",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    save_npz: Annotated[
        bool, typer.Option("--save-npz", help="Also write the arrays beside each figure, for Explanation.load.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Explain photographs: write a figure for each and print a table."""
    require_folder(out)
    asked: Record = {
        "method": method,
        "target": target,
        "lambda1": _number_or_word(lambda1),
        "c1": c1,
        "lambda2": lambda2,
        "curvature": curvature,
        "groups": _groups(groups),
        "tolerance": tolerance,
        "certify": certify,
        "bound": bound,
        "max_products": max_products,
        "n": n,
        "sigma": sigma,
        "batch_size": batch_size,
        "score": score,
        "times_input": times_input,
        "seed": seed,
    } | _of_preset(context, preset)
    classifier = _checked_model(model, asked)

    def work(photograph: Path, figure: Path, watch: Watch) -> list[Record]:
        explanation: ss.Explanation = ss.explain(classifier, photograph, **asked, progress=watch.products)
        explanation.save(figure)
        if save_npz:
            explanation.save(figure.with_suffix(".npz"))
        return [explanation.summary()]

    _each(photographs, out, work, EXPLAIN_COLUMNS, as_json)


@app.command(epilog="Example: secondsight compare cat.jpg dog.jpg --methods caso,smooth-caso,smoothgrad --out maps")
def compare(
    context: typer.Context,
    photographs: options.Photographs,
    methods: Annotated[
        str,
        typer.Option(
            metavar="all|NAME,NAME",
            help=f"The columns of the figure: {', '.join(COLUMNS)}. clipped-gradient keeps the gradient's largest "
            "pixels, as many as caso keeps.",
        ),
    ] = "all",
    models: Annotated[
        str,
        typer.Option(metavar="NAME,NAME", help="The classifiers, a row of the figure for each."),
    ] = zoo.DEFAULT,
    target: options.Target = None,
    lambda1: options.Lambda1 = "auto",
    c1: options.C1 = 10.0,
    curvature: options.Curvature = "auto",
    groups: options.Groups = "none",
    n: options.Samples = 50,
    sigma: options.Sigma = 0.15,
    batch_size: options.BatchSize = None,
    score: options.Score = "logit",
    times_input: Annotated[
        bool,
        typer.Option(
            "--times-input",
            help="Also show each map multiplied by the input, in a second row. The paper argues against it (appendix "
            "D): dark pixels cannot show then, whatever they do to the decision.",
        ),
    ] = False,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    out: options.Out = Path("out"),
    as_json: options.Json = False,
) -> None:
    """Compare methods: for each photograph one figure, a column for each method, and a table of what each cost.

    The cost of a map is in g.e., gradient equivalents: its time over that of one gradient of the loss.
    """
    require_folder(out)
    chosen = check_methods(methods)
    asked: Record = {
        "target": target,
        "lambda1": _number_or_word(lambda1),
        "c1": c1,
        "curvature": curvature,
        "groups": _groups(groups),
        "n": n,
        "sigma": sigma,
        "batch_size": batch_size,
        "score": score,
        "seed": seed,
    } | _of_preset(context, preset)
    classifiers = [_checked_model(name.strip(), asked) for name in models.split(",")]

    def work(photograph: Path, figure: Path, watch: Watch) -> list[Record]:
        result = ss.compare(
            classifiers,
            photograph,
            chosen,
            times_input=times_input,
            **asked,
            progress=watch.products,
            started=watch.method,
        )
        result.save(figure)
        return result.summaries()

    _each(photographs, out, work, COMPARE_COLUMNS, as_json, "-compared")


@app.command(epilog="Example: secondsight sweep cat.jpg --out maps")
def sweep(
    photographs: options.Photographs,
    target: options.Target = None,
    c1: options.C1 = 10.0,
    curvature: options.Curvature = "auto",
    groups: options.Groups = "none",
    seed: options.Seed = 0,
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    as_json: options.Json = False,
) -> None:
    """Show what lambda1 does: CAFO, CASO and the clipped gradient at the paper's eight values and along the automatic
    path, the share of zeros (eta) below each map, the chosen ones framed.
    """
    require_folder(out)
    asked: Record = {"target": target, "c1": c1, "curvature": curvature, "groups": _groups(groups), "seed": seed}
    classifier = _checked_model(model, asked)

    def work(photograph: Path, figure: Path, watch: Watch) -> list[Record]:
        result = ss.sweep(classifier, photograph, **asked, progress=watch.products)
        result.save(figure)
        return result.summaries()

    _each(photographs, out, work, SWEEP_COLUMNS, as_json, "-sweep")


@app.command(epilog="Example: secondsight demo --out cat.png")
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="Where the figure goes.")] = Path("out/demo.png"),
) -> None:
    """Explain the photograph that comes with secondsight by CAFO, CASO and their smooth versions."""
    if out.suffix.lower() != ".png" or out.is_dir():
        raise ss.InputError("--out", "the name of a .png file", repr(str(out)))
    require_folder(out.parent)
    photograph = ss.example_photograph()
    with Watch(4) as watch, warnings_caught():
        classifier = ss.load_model()
        explanations: dict[str, ss.Explanation] = {}
        for number, method in enumerate(("cafo", "caso", "smooth-cafo", "smooth-caso")):
            watch.photograph(number, method)
            explanations[method] = ss.explain(classifier, photograph, method, progress=watch.products)
        save_figure(demo_figure(explanations["smooth-caso"], explanations["caso"]), out)
    names = {"photograph": photograph.name, "figure": str(out)}
    report([e.summary() | names for e in explanations.values()], EXPLAIN_COLUMNS)


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


def _each(
    photographs: Sequence[Path],
    out: Path,
    work: Callable[[Path, Path, Watch], list[Record]],
    columns: Sequence[str],
    as_json: bool,
    suffix: str = "",
) -> None:
    """Work on each photograph, go on where one fails, and print what came out."""
    records: list[Record] = []
    failed = False
    figures = _figure_names(photographs, out, suffix)
    with Watch(len(photographs), hidden=as_json and sys.stdout.isatty()) as watch:
        for number, (photograph, figure) in enumerate(zip(photographs, figures, strict=True)):
            watch.photograph(number, photograph.name)
            try:
                with warnings_caught() as warned:
                    done = work(photograph, figure, watch)
            except ss.SecondsightError as error:
                complain(error if str(photograph) in str(error) else f"{photograph}: {error}")
                failed = True
                continue
            for record in done:
                notes = list(dict.fromkeys([*record["notes"], *(str(warning.message) for warning in warned)]))
                record |= {"notes": notes, "photograph": str(photograph), "figure": str(figure)}
                if as_json:
                    show_json(record)
            records += done
    if not as_json:
        report(records, columns)
    if failed:
        raise typer.Exit(USAGE_ERROR)


def _checked_model(name: str, asked: Record) -> ss.Classifier:
    """The model, once everything that is wrong for every photograph has been refused."""
    model = ss.load_model(name)
    ss.explain(model, [], **asked)
    if asked["target"] is not None and model.labels is not None:
        model.target_index(asked["target"], len(model.labels))
    return model


def _of_preset(context: typer.Context, preset: str) -> Record:
    """The preset's values for what the user has not given."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    return {name: value for name, value in options_of(preset).items() if name not in given}


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _groups(text: str) -> str | NDArray[np.integer]:
    """The word, or the array of a file."""
    if not text.endswith(".npy"):
        return text
    try:
        labels: NDArray[np.integer] = np.load(text, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ss.SecondsightError(f"--groups {text} cannot be read as an array: {error}") from None
    return labels


def _figure_names(photographs: Sequence[Path], out: Path, suffix: str) -> list[Path]:
    """DIR/STEM.png for each, numbered where that is taken by another one or is one of the photographs."""
    taken = {str(photograph.absolute()).casefold() for photograph in photographs}
    names = []
    for photograph in photographs:
        count, name = 1, out / f"{photograph.stem}{suffix}.png"
        while str(name.absolute()).casefold() in taken:
            count += 1
            name = out / f"{photograph.stem}{suffix}-{count}.png"
        taken.add(str(name.absolute()).casefold())
        names.append(name)
    return names
