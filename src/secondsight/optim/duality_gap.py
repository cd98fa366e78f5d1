"""The proof of how far a map is from the optimum of its objective.

With a = 2 lambda2, Q = aI - H >= mu I, w = g - QD and any v in the dual ball of radius lambda1,

    gap(D) <= |w - v|^2 / (2 mu) + sum_i (lambda1 |D_i| - v_i D_i)      and      |D - D*| <= sqrt(2 gap / mu).

Only the exact product HD enters, never an approximation of H, and no term can be negative. If g + HD is only known up
to an error e, |w - v| + |e| takes the place of |w - v|: the bound holds for every v.
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
        rounding: the relative gap that rounding alone would leave.
    """

    gap: float
    relative_gap: float
    support: Support
    rounding: float = 0.0


def duality_gap(problem: Problem, delta: Tensor, product: Tensor, lambda1: float, error: float = 0.0) -> DualityGap:
    """Bound the gap of a map by its exact product HD.

    Args:
        problem: g, the penalty, lambda2 and the bounds of the spectrum.
        delta: the map D.
        product: HD.
        lambda1: the weight of the penalty.
        error: how long the rounding error of g + HD may be.
    """
    if problem.mu <= 0 or not math.isfinite(error):
        nothing = torch.zeros_like(delta, dtype=torch.bool)
        return DualityGap(math.inf, math.inf, Support(nothing, nothing))
    a = 2 * problem.lambda2
    w = problem.gradient - a * delta + product
    v = problem.penalty.project(w + problem.mu * delta, lambda1)
    distance, slack = float((w - v).norm()), problem.penalty.slack(delta, v, lambda1)
    gap = (distance + error) ** 2 / (2 * problem.mu) + slack
    value = problem.objective(delta, float(delta @ product), lambda1).value
    # The zero map has no objective to compare with: it is optimal up to rounding, or it is not.
    relative = 0.0 if distance == slack == value == 0 else _relative(gap, value)
    rounding = min(relative, _relative(error**2 / (2 * problem.mu), value))
    return DualityGap(gap, relative, _support(problem, delta, v, gap, lambda1), rounding)


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
