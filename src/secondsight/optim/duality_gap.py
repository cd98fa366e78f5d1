"""The proof of how far a map is from the optimum of its objective. Each penalty has its own proof."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.optim.problem import Problem
from secondsight.optim.proof import Evidence, Origin, Support


@dataclass(frozen=True)
class DualityGap:
    """An upper bound of optimum minus objective at one map, and what follows from it.

    Attributes:
        gap: the bound.
        relative_gap: the bound over |objective|.
        support: what the gap proves of the optimum's zeros.
        rounding: the relative gap that rounding alone would leave.
    """

    gap: float
    relative_gap: float
    support: Support
    rounding: float = 0.0


def duality_gap(
    problem: Problem,
    delta: Tensor,
    product: Tensor,
    lambda1: float,
    error: float = 0.0,
    origin: Origin | None = None,
) -> DualityGap:
    """Prove how far a map is from the optimum.

    Args:
        problem: g, the penalty, lambda2 and the bounds of the spectrum.
        delta: the map D.
        product: HD.
        lambda1: the weight of the penalty.
        error: how long the rounding error of g + HD may be.
        origin: where the map comes from, where the penalty has overlapping blocks.
    """
    if problem.mu <= 0 or not math.isfinite(error):
        nothing = torch.zeros_like(delta, dtype=torch.bool)
        return DualityGap(math.inf, math.inf, Support(nothing, nothing))
    evidence = Evidence(
        delta,
        problem.gradient + product,
        lambda1,
        problem.lambda2,
        problem.mu,
        problem.negative,
        error,
        problem.shift,
        origin,
        problem.diagonal,
    )
    proof = problem.penalty.prove(evidence)
    value = problem.objective(delta, float(delta @ product), lambda1, origin).value
    # The zero map has no objective to compare with: it is optimal up to rounding, or it is not.
    relative = 0.0 if proof.gap_without_rounding == value == 0 else _relative(proof.gap, value)
    rounding = min(relative, _relative(error**2 / (2 * problem.mu), value))
    return DualityGap(proof.gap, relative, proof.support, rounding)


def _relative(gap: float, value: float) -> float:
    if gap == 0:
        return 0.0
    return gap / abs(value) if value != 0 else math.inf
