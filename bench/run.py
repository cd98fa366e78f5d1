"""Cost of a certified map in gradient equivalents, beside the paper's algorithm, all in one process.

    make bench        (or: python -m bench.run [--photographs 20] [--baseline 3] [--models resnet50,lite0])

A gradient equivalent (g.e.) is the wall time of one loss gradient on the same model, photograph and threads, taken
right before and after what it is compared with.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import secondsight as ss
from bench.memory import peak_bytes
from bench.photographs import model as load
from bench.photographs import photographs
from secondsight.curvature.hessian import GaussNewton
from secondsight.curvature.linearisation import Linearisation
from secondsight.paper.algorithm import backtracking_fista, power_iterations
from secondsight.solve.certificate import Problem
from secondsight.solve.penalty import L1
from secondsight.solve.select import LAMBDA1_VALUES

REPEATS = 5
console = Console(width=150)


@dataclass
class Column:
    """What is measured for one method over the photographs."""

    costs: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    products: list[int] = field(default_factory=list)


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def loss_gradient(model: ss.Classifier, x: Tensor) -> Callable[[], object]:
    leaf = x[None].clone().requires_grad_()

    def gradient() -> Tensor:
        with model.ready():
            logits = model.logits(leaf)
            loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1))
            return torch.autograd.grad(loss, leaf)[0]

    return gradient


def in_gradient_equivalents(model: ss.Classifier, x: Tensor, function: Callable[[], object]) -> tuple[float, float]:
    """(g.e., seconds) of one call."""
    gradient = loss_gradient(model, x)
    before = [timed(gradient) for _ in range(REPEATS)]
    seconds = timed(function)
    after = [timed(gradient) for _ in range(REPEATS)]
    return seconds / statistics.median(before + after), seconds


def measure_ours(model: ss.Classifier, files: list[Path], **options: object) -> Column:
    column = Column()
    ss.explain(model, files[0], **options)
    for file in track(files, description=f"{model.name} {options['method']}", console=console, transient=True):
        x = model.tensor(file)
        found: list[ss.Explanation] = []
        cost, seconds = in_gradient_equivalents(
            model, x, lambda x=x, f=found: f.append(ss.explain(model, x, **options))
        )
        column.costs.append(cost)
        column.seconds.append(seconds)
        column.gaps.append(found[0].relative_gap)
        column.products.append(found[0].products)
    return column


def measure_paper(model: ss.Classifier, files: list[Path]) -> tuple[Column, list[float]]:
    """The paper's algorithm with Pearlmutter products, and our certified gaps at the same penalties, for comparison."""
    column, ours = Column(), []
    for file in track(files, description=f"{model.name} paper", console=console, transient=True):
        x = model.tensor(file)
        results: list[tuple[float, float, Tensor]] = []
        count = 0

        def run(x: Tensor = x, results: list[tuple[float, float, Tensor]] = results) -> None:
            nonlocal count
            with model.ready():
                leaf = x[None].clone().requires_grad_()
                logits = model.logits(leaf)
                loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1))
                (slope,) = torch.autograd.grad(loss, leaf, create_graph=True)

                def product(v: Tensor) -> Tensor:
                    nonlocal count
                    count += 1
                    rows = v.reshape(slope.shape).to(slope.dtype)
                    (hv,) = torch.autograd.grad(slope, leaf, rows, retain_graph=True)
                    return hv.flatten().double()

                g = slope.detach().flatten().double()
                lambda2 = power_iterations(product, len(g)) / 2 + 10
                for lambda1 in LAMBDA1_VALUES:
                    results.append((lambda1, lambda2, backtracking_fista(g, product, lambda1, lambda2)))

        cost, seconds = in_gradient_equivalents(model, x, run)
        column.costs.append(cost)
        column.seconds.append(seconds)
        column.products.append(count)
        theirs, us = worst_gaps(model, x, results)
        column.gaps.append(theirs)
        ours.append(us)
    return column, ours


def worst_gaps(model: ss.Classifier, x: Tensor, results: list[tuple[float, float, Tensor]]) -> tuple[float, float]:
    """The largest certified relative gap along the paper's eight values: its maps, and ours at the same penalties.

    Both by exact products and the same mu, from a largest eigenvalue that is settled by eight products or more.
    """
    with model.ready():
        curvature = GaussNewton(Linearisation(model, x[None]))
        lambda1_max = float(curvature.gradient.abs().max())
        theirs, ours = [0.0], [0.0]
        for lambda1, lambda2, delta in results:
            if lambda1 >= lambda1_max:
                continue
            e = ss.explain(model, x, lambda1=lambda1, lambda2=max(lambda2, 1.0))
            mu = 2 * lambda2 - float(e.top_eigenvalue_bound)
            problem = Problem(curvature.gradient, L1(), lambda2, mu)
            theirs.append(problem.certify(delta, curvature.product(delta[None])[0], lambda1).relative_gap)
            ours.append(e.relative_gap)
    return max(theirs), max(ours)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(table: Table, name: str, column: Column, memory: float | None) -> None:
    table.add_row(
        name,
        f"{statistics.median(column.costs):.1f}",
        f"{quantile(column.costs, 0.95):.1f}",
        f"{statistics.median(column.seconds):.2f}",
        f"{statistics.median(column.products):.0f}",
        f"{max(column.gaps):.0e}" if column.gaps else "",
        "" if memory is None else f"{memory:.2f}",
    )


def bench(name: str, count: int, baseline: int) -> None:
    model = load(name)
    files = photographs(count)
    caso = measure_ours(model, files, method="caso")
    cafo = measure_ours(model, files, method="cafo")
    gradient_peak = peak_bytes(name, "gradient", files[0])
    memory = {method: peak_bytes(name, method, files[0]) / gradient_peak for method in ("caso", "cafo")}
    table = Table(title=f"{model.name}, {count} photographs, {torch.get_num_threads()} threads")
    for heading in (
        "method",
        "g.e., median",
        "g.e., 95 %",
        "seconds",
        "H-products",
        "worst relative gap",
        "peak memory / gradient's",
    ):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    row(table, "caso: certified map, path of 16", caso, memory["caso"])
    row(table, "cafo: exact map, path of 16", cafo, memory["cafo"])
    if baseline:
        paper, ours = measure_paper(model, files[:: max(1, count // baseline)][:baseline])
        row(table, f"the paper's algorithm, 8 values ({baseline} photographs)", paper, None)
        ratio = statistics.median(paper.costs) / statistics.median(caso.costs)
        table.caption = (
            f"The paper's algorithm costs {ratio:.0f} times as much as caso. Worst gap along its eight values at equal "
            f"penalties: its maps {max(paper.gaps):.0e}, ours {max(ours):.0e}."
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=int, default=20)
    parser.add_argument("--baseline", type=int, default=3, help="photographs for the paper's algorithm")
    parser.add_argument("--models", default="resnet50,lite0")
    arguments = parser.parse_args()
    for name in arguments.models.split(","):
        bench(name, arguments.photographs, arguments.baseline)


if __name__ == "__main__":
    main()
