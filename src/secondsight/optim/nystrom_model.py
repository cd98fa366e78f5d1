"""The problem with H replaced by its Nystrom approximation on the basis: solved exactly, at any lambda1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from secondsight.optim.active_gram import ActiveGram
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin
from secondsight.optim.semismooth_newton import Settled, Solved, Threshold, saddle_newton, semismooth_newton
from secondsight.optim.small_matrices import identity, inner_products

START_ERROR = 0.7
"""How far the optimal z may lie from an extrapolated start, as a share of its length: rarely more on photographs."""

GUESS_ERROR = 0.01
"""The same for a start from the map of a smaller basis."""

ERROR_GROWTH = 2.0
"""The error of a start may be this many times that at the lambda1 before."""

FEW_COLUMNS = 0.2
"""If at most this share of the entries may be non-zero, all of those are picked, including the settled ones."""

MOST_COLUMNS = 0.4
"""The share of the entries from which on it is faster to take all than to pick some."""

AT_A_TIME = 4
"""Maps that are multiplied in one product. More are hardly faster, and each takes as much memory as a row of U."""


class ModelMap(NamedTuple):
    """The optimal map of a model at one lambda1.

    Attributes:
        delta: the map D.
        origin: where it comes from, where blocks overlap.
        quadratic_bound: a lower bound of D'HD.
        quadratic: what D'HD is likely to be.
    """

    delta: Tensor
    origin: Origin | None
    quadratic_bound: float
    quadratic: float


class NystromModel:
    """The problem on a Hessian of low rank that agrees with H on the basis, U'TU - shift I.

    For a semidefinite H it is the Nystrom approximation, U'U <= H: solving it never overshoots. For an indefinite H it
    is U'TU = H - PHP with P the projection on what is orthogonal to the basis. Both are exact once the optimum lies in
    the basis, and both have a curvature of 0 outside of the span of V and HV. T is the identity in the first case.

    The model is the Nystrom approximation of H + shift I >= 0 where the penalty depends on the shift, and where H - PHP
    is so large that the objective would not be concave. It then has a curvature of -shift outside of that span, so maps
    take more products.
    """

    def __init__(
        self,
        problem: Problem,
        basis: KrylovBasis,
        guesses: Mapping[float, Tensor] | None = None,
        shifted: bool = False,
    ) -> None:
        """Compute the factor U of the basis, which must not be empty.

        Args:
            problem: g, the penalty, lambda2 and the bounds of the spectrum.
            basis: what is known of H.
            guesses: maps by lambda1 to start from, of a smaller basis.
            shifted: whether to take the Nystrom approximation of H + shift I in any case.
        """
        self.problem, self.basis = problem, basis
        self.a = problem.a
        self.middle: Tensor | None = None
        if problem.shift == 0 or problem.fixed_shift is not None or shifted:
            self.factor = basis.factor(problem.shift)
        else:
            self.factor, self.middle = basis.interpolant()
            self.a = 2 * problem.lambda2
            if float(torch.linalg.eigvalsh(self.middle)[-1]) >= self.a:
                self.factor, self.middle, self.a = basis.factor(problem.shift), None, problem.a
        self._gram = ActiveGram(self.factor)
        self._guesses = self._starts(guesses) if guesses else {}
        self._error = GUESS_ERROR if guesses else START_ERROR
        self._solved: list[tuple[float, Tensor]] = [(math.inf, self.factor.new_zeros(len(self.factor)))]

    def _starts(self, guesses: Mapping[float, Tensor]) -> dict[float, Tensor]:
        """Compute z = UD of each map, of a few in one product: as many as take little memory."""
        maps = list(guesses.values())
        some = (torch.stack(maps[i : i + AT_A_TIME]).double() for i in range(0, len(maps), AT_A_TIME))
        starts = (z for rows in some for z in inner_products(rows, self.factor))
        return dict(zip(guesses, starts, strict=True))

    @cached_property
    def _fallback(self) -> NystromModel:
        return NystromModel(self.problem, self.basis, shifted=True)

    @cached_property
    def _reach(self) -> Tensor:
        """The length of each column U_i: how far |g + U'Tz|_i can move with Tz."""
        return self.factor.square().sum(0).sqrt_()

    def solve(self, lambda1: float) -> ModelMap:
        """Compute the model's optimal map, warm-started from a guess or from larger values of lambda1."""
        found = self._solve_from(self._start(lambda1), lambda1)
        if found is None:
            return self._fallback.solve(lambda1)
        self._solved.append((lambda1, found.z))
        overlapping = self.problem.penalty.overlapping
        origin = Origin(self._moved(found.z), lambda1, self.a) if overlapping else None
        return ModelMap(found.delta, origin, *self._quadratic(found))

    def _quadratic(self, found: Solved) -> tuple[float, float]:
        """Compute a lower bound of D'HD, and what it is likely to be."""
        squares, length = found.product.square(), float(found.delta @ found.delta)
        if self.middle is None:
            bound = float(squares.sum()) - self.problem.shift * length
            return bound, bound
        likely = float(found.product @ self.middle @ found.product)
        # The first rows are those of the basis.
        inside = float(squares[: len(self.basis)].sum())
        return likely - self.problem.negative * max(0.0, length - inside), likely

    def _start(self, lambda1: float) -> Tensor:
        """Take z = UD of a guess, or extrapolate from the two nearest larger values, no further than they are apart."""
        if lambda1 in self._guesses:
            return self._guesses[lambda1]
        nearest = sorted((s for s in self._solved if s[0] >= lambda1), key=lambda s: s[0])
        near, z = nearest[0]
        # The last entry stands for lambda1 = infinity.
        if len(nearest) < 3 or nearest[1][0] == near:
            return z
        far, before = nearest[1]
        return z + (z - before) * min(1.0, (near - lambda1) / (far - near))

    def dense(self) -> Tensor:
        """Compute a times the model's optimal map at lambda1 = 0: g + U'Tz with (aI - UU'T) z = Ug."""
        products = inner_products(self.factor, self.factor)
        products = products if self.middle is None else products @ self.middle
        z = torch.linalg.solve(self.a * identity(self.factor) - products, self.factor @ self.problem.gradient)
        return self._moved(z)

    def _moved(self, z: Tensor) -> Tensor:
        """Compute g + U'Tz."""
        return torch.addmv(self.problem.gradient, self.factor.T, self._weighed(z))

    def _weighed(self, z: Tensor) -> Tensor:
        """Compute Tz."""
        return z if self.middle is None else self.middle @ z

    def _newton(self, threshold: Threshold, start: Tensor) -> Solved | None:
        if self.middle is None:
            return semismooth_newton(threshold, self.a, start)
        return saddle_newton(threshold, self.middle, self.a, start)

    def _solve_from(self, start: Tensor, lambda1: float) -> Solved | None:
        """Run Newton on the entries that are not settled: |g + U'Tz|_i may be on either side of lambda1.

        |g + U'Tz|_i is within |U_i| |T (z - s)| of |g + U'Ts|_i, s: start. How far z ends from s is guessed, and the
        guess is checked. Where most entries are open, all are taken.
        """
        g, factor, penalty = self.problem.gradient, self.factor, self.problem.penalty
        if not penalty.separable:
            return self._newton(Threshold(g, factor, lambda1, penalty), start)
        y, length, z = self._moved(start), float(self._weighed(start).norm()), start
        above = y.abs() - lambda1
        radius = max(self._error * length, self._first_length(lambda1))
        while True:
            reach, settled, columns = self._reach * radius, None, None
            kept = above >= -reach
            few = int(kept.sum()) <= FEW_COLUMNS * len(g)
            if not few:
                kept = above.abs() <= reach
            if few or int(kept.sum()) <= MOST_COLUMNS * len(g):
                columns = kept.nonzero()[:, 0]
                settled = None if few else self._settled(above > reach, y, lambda1)
                found = self._newton(Threshold(g[columns], factor[:, columns], lambda1, penalty, settled), z)
            else:
                found = self._newton(Threshold(g, factor, lambda1, penalty), z)
            if found is None:
                return None
            z = found.z
            moved = float(self._weighed(z - start).norm())
            # If `moved` is not a number, the search ends, too.
            if columns is None or not moved > radius:
                break
            radius = 2 * moved
        if length > 0:
            self._error = ERROR_GROWTH * moved / length
        if columns is None:
            return found
        if few:
            return found._replace(delta=torch.zeros_like(g).index_copy_(0, columns, found.delta))
        return found._replace(delta=penalty.threshold(self._moved(z), lambda1) / self.a)

    def _settled(self, entries: Tensor, y: Tensor, lambda1: float) -> Settled:
        """Sum up the entries that stay beyond lambda1, with the signs of y."""
        h = (self.problem.gradient - lambda1 * y.sign()) * entries
        return Settled(float(h @ h), self.factor @ h, self._gram.of(entries))

    def _first_length(self, lambda1: float) -> float:
        """Guess |Tz| where the path starts: z = UD is small there."""
        if len(self._solved) > 1:
            return 0.0
        first = self.factor @ self.problem.penalty.threshold(self.problem.gradient, lambda1)
        return 2 * float(self._weighed(first).norm()) / self.a

    @property
    def form_rounding(self) -> float:
        """How far rounding may have raised D'HD for a map of unit length."""
        if self.middle is None:
            error = self.basis.factor_error
            return error * (error + 2 * math.sqrt(self.basis.size))
        return 2 * self.basis.rounding * self.basis.size * float(self.basis.magnified.norm())
