"""CAFO in closed form: D = S(g, lambda1) / (2 lambda2). Exact, so its certificate is a gap of zero."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from secondsight.solve.certificate import Certificate, Problem, Support
from secondsight.solve.penalty import Penalty
from secondsight.solve.select import Choice, Point, Rule


def cafo_path(
    gradient: Tensor,
    penalty: Penalty,
    lambda2: float,
    rule: Rule,
    sparsity: Callable[[Tensor], float],
    dtype: torch.dtype,
) -> Choice:
    problem = Problem(gradient, penalty, lambda2, mu=2 * lambda2)

    def solve(lambda1: float) -> Point:
        delta = penalty.threshold(gradient, lambda1).div_(2 * lambda2).to(dtype)
        nonzero = delta.bool()
        return Point(
            lambda1,
            delta,
            problem.objective(delta.double(), 0.0, lambda1),
            sparsity(delta),
            certificate=Certificate(0.0, 0.0, Support(nonzero=nonzero, zero=~nonzero)),
        )

    return rule.choose(solve, penalty.lambda1_max(gradient))
