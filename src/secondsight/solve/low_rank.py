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
        self._sizes = problem.gradient.abs()
        self._reach = self.factor.square().sum(0).sqrt_()
        self._solved: list[tuple[float, Tensor]] = [(math.inf, self.factor.new_zeros(len(self.factor)))]

    def solve(self, lambda1: float) -> Tensor:
        """The model's optimal map, warm-started from the larger values of lambda1 that were solved before."""
        z, delta = self._solve_from(self._start(lambda1), lambda1)
        self._solved.append((lambda1, z))
        return delta

    def _start(self, lambda1: float) -> Tensor:
        """On from the nearest two of the path so far, no further than they are apart."""
        nearest = sorted((s for s in self._solved if s[0] >= lambda1), key=lambda s: s[0])
        near, z = nearest[0]
        # The last stands for infinity.
        if len(nearest) < 3 or nearest[1][0] == near:
            return z
        far, before = nearest[1]
        return z + (z - before) * min(1.0, (near - lambda1) / (far - near))

    def dense(self) -> Tensor:
        """The model's optimal map at lambda1 = 0, times a: g + U'z with (aI - UU') z = Ug."""
        matrix = self.a * torch.eye(len(self.factor)).to(self.factor) - self.factor @ self.factor.T
        z = torch.linalg.solve(matrix, self.factor @ self.problem.gradient)
        return torch.addmv(self.problem.gradient, self.factor.T, z)

    def _solve_from(self, start: Tensor, lambda1: float) -> tuple[Tensor, Tensor]:
        """Newton on the entries that can be non-zero: |g + U'z|_i <= |g_i| + |U_i| |z|, for a z of bounded length."""
        g, factor, penalty = self.problem.gradient, self.factor, self.problem.penalty
        length = 2 * float(start.norm()) + self._first_length(lambda1)
        while penalty.separable:
            columns = (self._sizes + length * self._reach > lambda1).nonzero()[:, 0]
            if 2 * len(columns) > len(g):
                break
            z, kept = semismooth_newton(g[columns], factor[:, columns], self.a, lambda1, start, penalty)
            if float(z.norm()) <= length:
                return z, torch.zeros_like(g).index_copy_(0, columns, kept)
            length, start = 2 * float(z.norm()), z
        return semismooth_newton(g, factor, self.a, lambda1, start, penalty)

    def _first_length(self, lambda1: float) -> float:
        """A guess of |z| where the path starts, z = U D being small there."""
        if len(self._solved) > 1:
            return 0.0
        return 2 * float((self.factor @ self.problem.penalty.threshold(self.problem.gradient, lambda1)).norm()) / self.a

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
    estimate = degrees_between(LowRankModel(problem, basis).dense(), g)
    identity = torch.eye(len(basis)).to(g)
    weights = torch.linalg.solve(2 * problem.lambda2 * identity - basis.projected(), basis.vectors @ g)
    inside = weights @ basis.vectors
    residual = g - 2 * problem.lambda2 * inside + weights @ basis.products
    if problem.mu <= 0 or not bool(inside.any()):
        return estimate, 180.0
    share = float(residual.norm() / (problem.mu * inside.norm()))
    radius = math.degrees(math.asin(share)) if share < 1 else 180.0
    return estimate, min(180.0, abs(estimate - degrees_between(inside, g)) + radius)


def degrees_between(u: Tensor, v: Tensor) -> float:
    """The angle of two vectors that are not zero."""
    # By the chord, for the arc cosine has no digits near 0.
    u, v = u / u.norm(), v / v.norm()
    return math.degrees(2 * math.atan2(float((u - v).norm()), float((u + v).norm())))
