"""The problem with H replaced by what the basis knows of it: solved exactly, in milliseconds, at any lambda1."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from secondsight.solve.basis import Basis
from secondsight.solve.certificate import Problem
from secondsight.solve.newton import semismooth_newton


class LowRankModel:
    """The minorant of the objective that agrees with it on the basis.

    With G = H + shift I >= 0 and its Nystrom factor U'U <= G, the model's Hessian is U'U - shift I <= H, and its Q is
    (2 lambda2 + shift) I - U'U. Solving it never overshoots, and is exact once the optimum lies in the basis.
    """

    def __init__(self, problem: Problem, basis: Basis) -> None:
        self.problem = problem
        self.shift = problem.negative
        self.a = 2 * problem.lambda2 + self.shift
        self.factor = basis.factor(self.shift)
        self._solved: list[tuple[float, Tensor]] = [(math.inf, self.factor.new_zeros(len(self.factor)))]

    def solve(self, lambda1: float) -> Tensor:
        """The model's optimal map, warm-started from the nearest larger lambda1 that was solved before."""
        _, start = min((s for s in self._solved if s[0] >= lambda1), key=lambda s: s[0])
        z, delta = semismooth_newton(self.problem.gradient, self.factor, self.a, lambda1, start, self.problem.penalty)
        self._solved.append((lambda1, z))
        return delta

    def quadratic(self, delta: Tensor) -> float:
        """D'HD of the model: a lower bound of the true one."""
        return float((self.factor @ delta).square().sum()) - self.shift * float(delta @ delta)


def angle_without_penalty(problem: Problem, basis: Basis) -> tuple[float, float]:
    """Degrees between CASO and CAFO at lambda1 = 0 and equal lambda2, and a bound of the error of that number.

    CAFO points along g, CASO along Q^-1 g. The low-rank model gives the estimate; its error is bounded through the best
    solution inside the basis, whose exact residual costs no further product.
    """
    g = problem.gradient
    if not bool(g.any()):
        return 0.0, 0.0
    estimate = _angle(LowRankModel(problem, basis).solve(0.0), g)
    identity = torch.eye(len(basis)).to(g)
    weights = torch.linalg.solve(2 * problem.lambda2 * identity - basis.projected(), basis.vectors @ g)
    inside = weights @ basis.vectors
    residual = g - 2 * problem.lambda2 * inside + weights @ basis.products
    if problem.mu <= 0 or not bool(inside.any()):
        return estimate, 180.0
    share = float(residual.norm() / (problem.mu * inside.norm()))
    radius = math.degrees(math.asin(share)) if share < 1 else 180.0
    return estimate, min(180.0, abs(estimate - _angle(inside, g)) + radius)


def _angle(u: Tensor, v: Tensor) -> float:
    # By the chord, for the arc cosine has no digits near 0.
    u, v = u / u.norm(), v / v.norm()
    return math.degrees(2 * math.atan2(float((u - v).norm()), float((u + v).norm())))
