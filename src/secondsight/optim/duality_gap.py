"""The proof of how far a map is from the optimum of its objective.

With a = 2 lambda2, Q = aI - H >= mu I, w = g - QD and any v in the dual ball of radius lambda1,

    gap(D) <= |w - v|^2 / (2 mu) + sum_i (lambda1 |D_i| - v_i D_i)      and      |D - D*| <= sqrt(2 gap / mu).

Only the exact product HD enters, never an approximation of H, and no term can be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.optim.problem import Problem

DUAL_ROUNDING = 1e-12
"""Float64 rounding may leave a block of v this share inside the dual ball although it lies on the edge."""


@dataclass(frozen=True)
class Support:
    """What the certificate proves of the optimum's zeros: two masks of the input's shape, which never overlap.

    Entries in neither mask are undecided, because the gap is too large to tell.

    Attributes:
        nonzero: entries that are not zero in the optimal map.
        zero: entries that are zero in the optimal map.
    """

    nonzero: Tensor
    zero: Tensor

    @property
    def undecided(self) -> Tensor:
        """Entries of which nothing is proven."""
        return ~(self.nonzero | self.zero)


@dataclass(frozen=True)
class DualityGap:
    """An upper bound of optimum minus objective at one map, and what follows from it.

    Attributes:
        gap: the bound.
        relative_gap: the bound over |objective|.
        support: what it proves of the optimum's zeros.
    """

    gap: float
    relative_gap: float
    support: Support


def duality_gap(problem: Problem, delta: Tensor, product: Tensor, lambda1: float) -> DualityGap:
    """Bound the gap of a map by its exact product HD."""
    if problem.mu <= 0:
        nothing = torch.zeros_like(delta, dtype=torch.bool)
        return DualityGap(math.inf, math.inf, Support(nothing, nothing))
    a = 2 * problem.lambda2
    w = problem.gradient - a * delta + product
    v = problem.penalty.project(w + problem.mu * delta, lambda1)
    gap = float((w - v).square().sum()) / (2 * problem.mu) + problem.penalty.slack(delta, v, lambda1)
    value = problem.objective(delta, float(delta @ product), lambda1).value
    return DualityGap(gap, _relative(gap, value), _support(problem, delta, v, gap, lambda1))


def _support(problem: Problem, delta: Tensor, v: Tensor, gap: float, lambda1: float) -> Support:
    primal_radius = math.sqrt(2 * gap / problem.mu)
    dual_radius = math.sqrt(2 * (2 * problem.lambda2 + problem.negative) * gap)
    penalty = problem.penalty
    return Support(
        nonzero=penalty.norms(delta) > primal_radius,
        zero=penalty.norms(v) + dual_radius < lambda1 * penalty.weights * (1 - DUAL_ROUNDING),
    )


def _relative(gap: float, value: float) -> float:
    if gap == 0:
        return 0.0
    return gap / abs(value) if value != 0 else math.inf
