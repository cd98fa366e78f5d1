"""The command `secondsight explain`: a figure for each photograph, and a table of all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, groups_of, number_or_word, preset_options, require_folder
from secondsight.cli.console import EXPLAIN_COLUMNS, Record
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar


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
            "takes one backward pass per class, or one product for each number of a small input."
        ),
    ] = "estimated",
    max_products: Annotated[
        int, typer.Option(metavar="N", help="Give up on the proof after this many products with the Hessian.")
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
        "lambda1": number_or_word(lambda1),
        "c1": c1,
        "lambda2": lambda2,
        "curvature": curvature,
        "groups": groups_of(groups),
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
    } | preset_options(context, preset)
    classifier = checked_model(model, asked)

    def work(photograph: Path, figure: Path, bar: ProgressBar) -> list[Record]:
        explanation: ss.Explanation = ss.explain(classifier, photograph, **asked, progress=bar.show_products)
        explanation.save(figure)
        if save_npz:
            explanation.save(figure.with_suffix(".npz"))
        return [explanation.summary()]

    for_each_photograph(photographs, out, work, EXPLAIN_COLUMNS, as_json)
