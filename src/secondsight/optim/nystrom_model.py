"""The problem with H replaced by its Nystrom approximation on the basis: solved exactly, at any lambda1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin
from secondsight.optim.semismooth_newton import semismooth_newton
from secondsight.optim.small_matrices import identity, inner_products

START_ERROR = 0.7
"""How far the optimal z may lie from an extrapolated start, as a share of its length: on photographs it rarely does."""

GUESS_ERROR = 0.01
"""The same for a start from the map of a smaller basis."""


class NystromModel:
    """The minorant of the objective that agrees with it on the basis.

    With G = H + shift I >= 0 and its Nystrom factor U'U <= G, the model's Hessian is U'U - shift I <= H, and its Q is
    (2 lambda2 + shift) I - U'U. Solving it never overshoots, and is exact once the optimum lies in the basis.

    For an indefinite H, what is certain about its smallest eigenvalue is far below what is likely. Maps are solved with
    the likely shift, because outside of the basis the model has a curvature of -shift. Objectives rest on the certain
    one.
    """

    def __init__(self, problem: Problem, basis: KrylovBasis, guesses: Mapping[float, Tensor] | None = None) -> None:
        """Compute the factor U of the basis, which must not be empty. `guesses`: maps by lambda1 to start from."""
        self.problem = problem
        self.shift = self._likely_shift(basis)
        self.a = 2 * problem.lambda2 + self.shift
        self.factor = basis.factor(self.shift)
        self.certain = self.factor if self.shift == problem.shift else basis.factor(problem.shift)
        self._guesses = guesses or {}
        self._dense = 0.0  # From this lambda1 on downwards, most entries are taken to be non-zero.
        self._solved: list[tuple[float, Tensor]] = [(math.inf, self.factor.new_zeros(len(self.factor)))]

    @cached_property
    def _reach(self) -> Tensor:
        """The length of each column U_i: how far |g + U'z|_i can move with z."""
        return self.factor.square().sum(0).sqrt_()

    def solve(self, lambda1: float) -> tuple[Tensor, Origin | None]:
        """Compute the model's optimal map, warm-started from a guess or from larger values of lambda1.

        Where blocks overlap, also say where the map comes from.
        """
        z, delta = self._solve_from(self._start(lambda1), lambda1)
        self._solved.append((lambda1, z))
        return delta, self._origin(z, lambda1) if self.problem.penalty.overlapping else None

    def _origin(self, z: Tensor, lambda1: float) -> Origin:
        return Origin(torch.addmv(self.problem.gradient, self.factor.T, z), lambda1, self.a)

    def _start(self, lambda1: float) -> Tensor:
        """Take z = UD of a guess, or extrapolate from the two nearest larger values, no further than they are apart."""
        if lambda1 in self._guesses:
            return self.factor @ self._guesses[lambda1].double()
        nearest = sorted((s for s in self._solved if s[0] >= lambda1), key=lambda s: s[0])
        near, z = nearest[0]
        # The last entry stands for lambda1 = infinity.
        if len(nearest) < 3 or nearest[1][0] == near:
            return z
        far, before = nearest[1]
        return z + (z - before) * min(1.0, (near - lambda1) / (far - near))

    def dense(self) -> Tensor:
        """Compute a times the model's optimal map at lambda1 = 0: g + U'z with (aI - UU') z = Ug."""
        matrix = self.a * identity(self.factor) - inner_products(self.factor, self.factor)
        z = torch.linalg.solve(matrix, self.factor @ self.problem.gradient)
        return torch.addmv(self.problem.gradient, self.factor.T, z)

    def _solve_from(self, start: Tensor, lambda1: float) -> tuple[Tensor, Tensor]:
        """Run Newton on the entries that can be non-zero: |g + U'z|_i <= |g + U's|_i + |U_i| |z - s|, s the start.

        How far z ends from s is guessed, and the guess is checked. Where most entries remain, all are taken.
        """
        g, factor, penalty = self.problem.gradient, self.factor, self.problem.penalty
        z = start
        if penalty.separable and lambda1 > self._dense:
            sizes = torch.addmv(g, factor.T, start).abs_()
            share = GUESS_ERROR if self._guesses else START_ERROR
            radius = share * float(start.norm()) + self._first_length(lambda1)
            while len(columns := (torch.add(sizes, self._reach, alpha=radius) > lambda1).nonzero()[:, 0]) <= len(g) / 2:
                z, kept = semismooth_newton(g[columns], factor[:, columns], self.a, lambda1, z, penalty)
                moved = float((z - start).norm())
                if moved <= radius:
                    return z, torch.zeros_like(g).index_copy_(0, columns, kept)
                radius = 2 * moved
            self._dense = lambda1
        return semismooth_newton(g, factor, self.a, lambda1, z, penalty)

    def _first_length(self, lambda1: float) -> float:
        """Guess |z| where the path starts: z = UD is small there."""
        if len(self._solved) > 1:
            return 0.0
        return 2 * float((self.factor @ self.problem.penalty.threshold(self.problem.gradient, lambda1)).norm()) / self.a

    def quadratic(self, delta: Tensor) -> float:
        """Compute a lower bound of D'HD."""
        return float((self.certain @ delta).square().sum()) - self.problem.shift * float(delta @ delta)

    def _likely_shift(self, basis: KrylovBasis) -> float:
        """Take the smallest Ritz value and its residual for the end of the spectrum, unless the penalty fixes it."""
        problem = self.problem
        if problem.shift == 0 or problem.fixed_shift is not None:
            return problem.shift
        low, _ = basis.ritz()
        shift = min(problem.shift, max(0.0, low.residual - low.value))
        factor = basis.factor(shift)
        # Where H + shift I is not semidefinite after all, the factor may be too large for the model to be concave.
        is_concave = float(torch.linalg.matrix_norm(inner_products(factor, factor), 2)) < 2 * problem.lambda2 + shift
        return shift if len(factor) == 0 or is_concave else problem.shift
