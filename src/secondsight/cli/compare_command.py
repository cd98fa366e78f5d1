"""The command `secondsight compare`: for each photograph a figure with a column for each method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, groups_of, number_or_word, preset_options, require_folder
from secondsight.cli.console import COMPARE_COLUMNS, Record
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar
from secondsight.comparison import COLUMNS, check_methods


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
        "lambda1": number_or_word(lambda1),
        "c1": c1,
        "curvature": curvature,
        "groups": groups_of(groups),
        "n": n,
        "sigma": sigma,
        "batch_size": batch_size,
        "score": score,
        "seed": seed,
    } | preset_options(context, preset)
    classifiers = [checked_model(name.strip(), asked) for name in models.split(",")]

    def work(photograph: Path, figure: Path, bar: ProgressBar) -> list[Record]:
        result = ss.compare(
            classifiers,
            photograph,
            chosen,
            times_input=times_input,
            **asked,
            progress=bar.show_products,
            started=bar.start_method,
        )
        result.save(figure)
        return result.summaries()

    for_each_photograph(photographs, out, work, COMPARE_COLUMNS, as_json, "-compared")
