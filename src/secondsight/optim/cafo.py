"""CAFO in closed form: D = S(g, lambda1) / (2 lambda2). Exact, so its certificate is a gap of zero."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from secondsight.optim.duality_gap import DualityGap
from secondsight.optim.kept_map import KeptMap
from secondsight.optim.path import Point, Solve
from secondsight.optim.penalties import Penalty
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin, Support


def cafo_solver(
    gradient: Tensor, penalty: Penalty, lambda2: float, sparsity: Callable[[Tensor], float], dtype: torch.dtype
) -> Solve:
    """Make the function from lambda1 to CAFO's map, for a rule to choose with.

    Args:
        gradient: g, flat, float64.
        penalty: what lambda1 multiplies.
        lambda2: the weight of |D|^2. It only scales the map.
        sparsity: how the user counts zeros.
        dtype: the precision that maps are returned in.
    """
    problem = Problem(gradient, penalty, lambda2)

    def solve(lambda1: float) -> Point:
        delta = penalty.threshold(gradient, lambda1).div_(2 * lambda2).to(dtype)
        nonzero = delta.bool()
        origin = Origin(gradient, lambda1, 2 * lambda2) if penalty.overlapping else None
        return Point(
            lambda1,
            KeptMap(delta, None, len(delta)),
            problem.objective(delta.double(), 0.0, lambda1, origin),
            sparsity(delta) if origin is None else penalty.zero_share(origin),
            origin=origin,
            gap=DualityGap(0.0, 0.0, Support(nonzero=nonzero, zero=~nonzero)),
        )

    return solve
