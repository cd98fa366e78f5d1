"""SmoothCASO beside the paper's algorithm: the same noisy copies, the same eight values of lambda1, one process.

    python -m bench.smooth [--model resnet50] [--n 50] [--no-paper]

Ours: one call, certifying the chosen map or every one of the eight. The paper's: ten power iterations and ten FISTA
iterations for each value, each product by Pearlmutter's double backward, averaged over the copies in batches of the
same size; no machine keeps fifty graphs, so each product builds them anew, as ours does.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

import secondsight as ss
from bench.measure import console, in_gradient_equivalents
from bench.memory import peak_bytes
from bench.photographs import model as load
from bench.photographs import photographs
from secondsight.operators.noise import Noise, deviation_of
from secondsight.optim.lambda_choice import LAMBDA1_VALUES
from secondsight.paper.algorithm import backtracking_fista, power_iterations


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

    def _average(self, part: object) -> Tensor:
        total = torch.zeros(self.x.numel(), dtype=torch.float64)
        for copies in self.noise.copies(self.x):
            copies.requires_grad_()
            labels = torch.full((len(copies),), self.target)
            loss = torch.nn.functional.cross_entropy(self.model.logits(copies), labels, reduction="sum")
            (slope,) = torch.autograd.grad(loss, copies, create_graph=True)
            total += part(slope, copies).detach().flatten(1).double().sum(0)  # type: ignore[operator]
        return total / self.noise.n


def paper(model: ss.Classifier, x: Tensor, e: ss.Explanation, ours: float) -> int:
    """The paper's algorithm for all eight values; how many products it took. It takes hours, so it says where it is."""
    start = time.perf_counter()
    noise = Noise(e.settings["n"], deviation_of(x, e.settings["sigma"]), e.settings["seed"], e.settings["batch_size"])
    averaged = Averaged(model, x, e.target, noise)
    with model.ready():
        g = averaged.gradient()
        lambda2 = power_iterations(averaged.product, len(g)) / 2 + 10
        for lambda1 in LAMBDA1_VALUES:
            backtracking_fista(g, averaged.product, lambda1, lambda2)
            ratio = (time.perf_counter() - start) / ours
            console.print(
                f"  up to lambda1 = {lambda1:g}: {averaged.products} products, {ratio:.1f} times our time so far"
            )
    return averaged.products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--no-paper", action="store_true")
    arguments = parser.parse_args()
    model = load(arguments.model)
    (file,) = photographs(1)
    x = model.tensor(file)
    console.print(f"{model.name}, {file.name}, n = {arguments.n}, {torch.get_num_threads()} threads")
    costs: dict[str, tuple[float, float]] = {}
    for certify in ("chosen", "path"):
        found: list[ss.Explanation] = []
        options = {"lambda1": LAMBDA1_VALUES, "certify": certify, "n": arguments.n}

        def ours(found: list[ss.Explanation] = found, options: dict[str, object] = options) -> None:
            found.append(ss.explain(model, x, "smooth-caso", **options))

        costs[certify] = in_gradient_equivalents(model, x, ours)
        e = found[0]
        worst = max(point.relative_gap or 0.0 for point in e.path)
        console.print(
            f"smooth-caso, eight maps, certified: {certify}: {costs[certify][0]:.0f} g.e., {costs[certify][1]:.0f} s, "
            f"{e.products} averaged products, largest relative gap {worst:.0e}"
        )
    if not arguments.no_paper:
        counts: list[int] = []
        theirs, seconds = in_gradient_equivalents(
            model, x, lambda: counts.append(paper(model, x, e, costs["chosen"][1]))
        )
        console.print(f"the paper's algorithm: {theirs:.0f} g.e., {seconds:.0f} s, {counts[0]} averaged products")
        for certify, (cost, _) in costs.items():
            console.print(f"ratio, certified {certify}: {theirs / cost:.0f}")
    peak = peak_bytes(arguments.model, "smooth-caso", file)
    console.print(f"peak memory of smooth-caso (n = 50) above the network: {peak / 2**30:.2f} GB")


if __name__ == "__main__":
    main()
