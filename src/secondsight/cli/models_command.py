"""The command `secondsight models`: the names that --model takes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

import secondsight as ss
from secondsight import zoo
from secondsight.cli.console import output, printable, warnings_caught
from secondsight.cli.progress_bar import ProgressBar


def models(
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead, explain the photograph that comes with secondsight by this classifier. Say how its Hessian "
            "is computed (on a tape, or by autograd and why) and what a map costs.",
        ),
    ] = None,
) -> None:
    """List the classifiers that --model takes, or check one."""
    if check is not None:
        _check(check)
        return
    from secondsight.zoo.catalogue import MODELS, spelled

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("description")
    for entry in MODELS:
        mark = " (default)" if entry.name == zoo.DEFAULT else ""
        table.add_row(spelled(entry) + mark, entry.description)
    output().print(table)


def _check(name: str) -> None:
    """Explain one photograph, and print what became known of the network."""
    from secondsight.comparison import gradient_seconds

    with ProgressBar(1) as bar, warnings_caught():
        bar.start_photograph(0, name)
        model = ss.load_model(name)
        x = model.tensor(ss.example_photograph())
        # The first map also pays for the checks of a new network.
        ss.explain(model, x)
        e = ss.explain(model, x, progress=bar.show_products)
        cost = e.seconds / gradient_seconds(model, x)
    facts, unknown = model.facts, model.facts.unknown_operation.removeprefix("aten.")
    if facts.leaves_tapes:
        way = "on a tape: a product runs no network"
    elif unknown:
        way = f"by autograd, because {unknown} has no rule of the tape"
    else:
        way = "by autograd, because the tape did not agree with it"
    curved = {"exact": "exact: the network is curved", "gauss-newton": "Gauss-Newton"}
    proof = f"certified ({e.certificate.basis})" if e.certificate.holds else "not certified"
    lines = {
        "network": f"{model.name}, input {' x '.join(map(str, x.shape))}",
        "products": way,
        "Hessian": curved[e.curvature],
        "one map": f"{e.products} products, {cost:.1f} gradients, {proof}",
        **{f"note {i}": note for i, note in enumerate(e.notes, 1)},
    }
    for title, words in lines.items():
        output().print(f"{title}: {printable(words)}", soft_wrap=True)
