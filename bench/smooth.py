"""SmoothCASO beside the paper's algorithm: the same noisy copies, the same eight values of lambda1, one process.

    python -m bench.smooth [--model resnet50] [--n 50] [--no-paper] [--json FILE]

Ours: one call, certifying the chosen map or every one of the eight. The paper's: ten power iterations and ten FISTA
iterations for each value, each product by Pearlmutter's double backward, averaged over the copies in batches of the
same size; no machine keeps fifty graphs, so each product builds them anew, as ours does. The paper's algorithm takes
hours for fifty copies. What it has done so far is printed and written after each value of lambda1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import secondsight as ss
from bench import record
from bench.measure import REPEATS, console, loss_gradient, timed, timing
from bench.photographs import model as load
from bench.photographs import photographs
from bench.row import Figures
from secondsight.operators.noise import Noise, deviation_of, fitting_batch_size
from secondsight.paper.algorithm import backtracking_fista, power_iterations
from secondsight.presets import LAMBDA1_VALUES


class Averaged:
    """Gradient and Hessian products of the loss, averaged over noisy copies, by double backward."""

    def __init__(self, model: ss.Classifier, x: Tensor, target: int, noise: Noise) -> None:
        self.model, self.x, self.target, self.noise = model, x, target, noise
        self.products = 0

    def gradient(self) -> Tensor:
        return self._average(lambda slope, copies: slope)

    def product(self, v: Tensor) -> Tensor:
        self.products += 1
        rows = v.reshape(self.x.shape).to(self.x.dtype)
        return self._average(lambda slope, copies: torch.autograd.grad(slope, copies, rows.expand_as(slope))[0])

    def _average(self, part: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        total = torch.zeros(self.x.numel(), dtype=torch.float64)
        for copies in self.noise.copies(self.x):
            copies.requires_grad_()
            labels = torch.full((len(copies),), self.target)
            loss = torch.nn.functional.cross_entropy(self.model.logits(copies), labels, reduction="sum")
            (slope,) = torch.autograd.grad(loss, copies, create_graph=True)
            total += part(slope, copies).detach().flatten(1).double().sum(0)
        return total / self.noise.n


class Comparison:
    """Our two calls and the paper's algorithm on one photograph."""

    def __init__(self, network: str, n: int, file: Path | None) -> None:
        self.network, self.n, self.file = network, n, file
        self.model = load(network)
        self.x = self.model.tensor(photographs(1)[0])
        self.found: dict[str, Figures] = {}
        # The first call on a network pays for its checks.
        ss.explain(self.model, self.x)

    def add(self, name: str, figures: Figures) -> None:
        """Print and write what was measured of one of the three."""
        self.found[name] = figures
        console.print(f"{name}: " + ", ".join(f"{what} {value:.3g}" for what, value in figures.items()))
        record.write(self.file, "smooth", {self.network: {f"n{self.n}": self.found}})

    def ours(self, certify: str) -> ss.SecondOrderExplanation:
        """Eight maps in one call."""
        method = ss.SmoothCASO(lambda1=LAMBDA1_VALUES, certify=certify, n=self.n)
        measured = timing(self.model, self.x, lambda: ss.explain(self.model, self.x, method))
        e = measured.result
        gap = max(point.relative_gap or 0.0 for point in e.path)
        self.add(certify, {"ge": measured.cost, "seconds": measured.seconds, "products": e.products, "gap": gap})
        return e

    def paper(self, e: ss.SecondOrderExplanation) -> None:
        """The paper's algorithm, one value of lambda1 after the other."""
        model, x, method = self.model, self.x, e.method
        assert isinstance(method, ss.SmoothCASO)
        size = method.batch_size or fitting_batch_size(model, x, self.n)
        averaged = Averaged(model, x, e.target, Noise(self.n, deviation_of(x, method), e.seed, size))
        gradient = loss_gradient(model, x[None])
        unit = statistics.median(timed(gradient) for _ in range(2 * REPEATS))
        start = time.perf_counter()
        with model.ready():
            g = averaged.gradient()
            lambda2 = power_iterations(averaged.product, len(g)) / 2 + 10
            for values, lambda1 in enumerate(LAMBDA1_VALUES, 1):
                backtracking_fista(g, averaged.product, lambda1, lambda2)
                seconds = time.perf_counter() - start
                ratios = {f"over_{name}": seconds / self.found[name]["seconds"] for name in ("chosen", "path")}
                done = {"ge": seconds / unit, "seconds": seconds, "products": averaged.products, "values": values}
                self.add("paper", done | ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--no-paper", action="store_true")
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    comparison = Comparison(arguments.model, arguments.n, arguments.json)
    console.print(f"{comparison.model.name}, n = {arguments.n}, {torch.get_num_threads()} threads")
    e = comparison.ours("chosen")
    comparison.ours("path")
    if not arguments.no_paper:
        comparison.paper(e)


if __name__ == "__main__":
    main()
