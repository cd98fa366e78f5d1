"""The paper's algorithm on one photograph, with Pearlmutter products, and how far its maps are from the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import secondsight as ss
from secondsight.operators.hessian_choice import hessian_at
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.penalties import L1
from secondsight.optim.problem import Problem
from secondsight.paper.algorithm import backtracking_fista, power_iterations
from secondsight.presets import LAMBDA1_VALUES


class Pearlmutter:
    """Gradient and Hessian products of the loss by double backward, on one kept graph. Use inside `model.ready()`."""

    def __init__(self, model: ss.Classifier, x: Tensor) -> None:
        self.leaf = x[None].clone().requires_grad_()
        logits = model.logits(self.leaf)
        loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1))
        (self.slope,) = torch.autograd.grad(loss, self.leaf, create_graph=True)
        self.gradient = self.slope.detach().flatten().double()
        self.products = 0

    def product(self, v: Tensor) -> Tensor:
        self.products += 1
        rows = v.reshape(self.slope.shape).to(self.slope.dtype)
        (hv,) = torch.autograd.grad(self.slope, self.leaf, rows, retain_graph=True)
        return hv.flatten().double()


@dataclass(frozen=True)
class PaperMaps:
    """Its maps by lambda1, flat, the lambda2 they share, and the products they took."""

    maps: dict[float, Tensor]
    lambda2: float
    products: int


def paper_maps(model: ss.Classifier, x: Tensor) -> PaperMaps:
    """Ten power iterations, then ten FISTA iterations for each of the eight values of its tables."""
    with model.ready():
        hessian = Pearlmutter(model, x)
        lambda2 = power_iterations(hessian.product, len(hessian.gradient)) / 2 + 10
        maps = {
            lambda1: backtracking_fista(hessian.gradient, hessian.product, lambda1, lambda2)
            for lambda1 in LAMBDA1_VALUES
        }
        return PaperMaps(maps, lambda2, hessian.products)


def worst_gaps(model: ss.Classifier, x: Tensor, paper: PaperMaps) -> tuple[float, float]:
    """The largest certified relative gap along the paper's eight values: its maps, and ours at the same penalties.

    Both by exact products and the same mu, from a largest eigenvalue that is settled by eight products or more.
    """
    theirs, ours = [0.0], [0.0]
    with model.ready():
        hessian, _ = hessian_at(model, x, choice="gauss-newton")
        lambda1_max = float(hessian.gradient.abs().max())
        for lambda1, delta in paper.maps.items():
            if lambda1 >= lambda1_max:
                continue
            e = ss.explain(model, x, ss.CASO(lambda1=lambda1, lambda2=max(paper.lambda2, 1.0)))
            problem = Problem(hessian.gradient, L1(), paper.lambda2, e.certificate.top_eigenvalue_bound)
            theirs.append(duality_gap(problem, delta, hessian @ delta, lambda1).relative_gap)
            ours.append(e.certificate.relative_gap)
    return max(theirs), max(ours)
