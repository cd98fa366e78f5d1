"""The problem with H replaced by its Nystrom approximation on the basis: solved exactly, at any lambda1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from secondsight.optim.active_sums import ActiveSums, EntrywiseThreshold
from secondsight.optim.kept_map import KeptMap
from secondsight.optim.krylov_basis import AT_A_TIME, KrylovBasis
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin
from secondsight.optim.semismooth_newton import (
    NEGLIGIBLE,
    Solved,
    Threshold,
    WholeThreshold,
    saddle_newton,
    semismooth_newton,
)
from secondsight.optim.small_matrices import identity, inner_products

HARMLESS = 1e3
"""A squared residual of up to HARMLESS times the squared rounding of products does not matter to a map: for products in
float32 it leaves a relative gap of some 1e-8, and maps are certified to 1e-4."""


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


def is_shifted(problem: Problem, basis: KrylovBasis) -> bool:
    """Whether the model is the Nystrom approximation of H + shift I, also for a shift of 0: see `NystromModel`."""
    if problem.shift == 0 or problem.fixed_shift is not None:
        return True
    return float(torch.linalg.eigvalsh(basis.interpolant_in_coordinates())[-1]) >= 2 * problem.lambda2


def dense_map(problem: Problem, basis: KrylovBasis) -> tuple[Tensor, Tensor]:
    """Compute the direction of the model's optimal map at lambda1 = 0, (aI - model)^-1 g, without long vectors.

    The basis must contain g, as it does after an exploration.

    Returns:
        The map times a, and g, in the coordinates of the interpolant's rows B.
    """
    if is_shifted(problem, basis):
        factor, a = basis.factor_in_coordinates(problem.shift), problem.a
        matrix = factor.T @ factor
    else:
        matrix, a = basis.interpolant_in_coordinates(), 2 * problem.lambda2
    inside = basis.vectors.inner(problem.gradient[None])[:, 0]
    g = torch.nn.functional.pad(inside, (0, len(matrix) - len(basis)))
    return torch.linalg.solve(identity(matrix) - matrix / a, g), g


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
        guesses: Mapping[float, KeptMap] | None = None,
        dtype: torch.dtype = torch.float64,
        shifted: bool = False,
    ) -> None:
        """Compute the factor U of the basis, which must not be empty.

        Args:
            problem: g, the penalty, lambda2 and the bounds of the spectrum.
            basis: what is known of H.
            guesses: maps by lambda1 to start from, of a smaller basis.
            dtype: the precision of the maps, and of U. Where blocks have several entries, U is always in float64,
                because the line search compares sums over all entries.
            shifted: whether to take the Nystrom approximation of H + shift I in any case.
        """
        self.problem, self.basis = problem, basis
        self._dtype = dtype if problem.penalty.separable else torch.float64
        self.a = problem.a
        self.middle: Tensor | None = None
        if shifted or is_shifted(problem, basis):
            self.factor = basis.factor(problem.shift, self._dtype)
        else:
            self.factor, self.middle = basis.interpolant(self._dtype)
            self.a = 2 * problem.lambda2
        self._guesses = self._starts(guesses) if guesses else {}
        self._sums = ActiveSums(problem.gradient, self.factor)
        self._solved: list[tuple[float, Tensor]] = [(math.inf, problem.gradient.new_zeros(len(self.factor)))]
        self._ys = {math.inf: self._sums.start}

    def _starts(self, guesses: Mapping[float, KeptMap]) -> dict[float, Tensor]:
        """Compute z = UD of each map. AT_A_TIME maps share a product."""
        maps = list(guesses.values())
        some = (maps[i : i + AT_A_TIME] for i in range(0, len(maps), AT_A_TIME))
        dense = (torch.stack([one.dense() for one in few]).to(self.factor) for few in some)
        starts = (z.double() for rows in dense for z in inner_products(rows, self.factor))
        return dict(zip(guesses, starts, strict=True))

    @cached_property
    def _fallback(self) -> NystromModel:
        return NystromModel(self.problem, self.basis, dtype=self._dtype, shifted=True)

    def solve(self, lambda1: float) -> ModelMap:
        """Compute the model's optimal map, warm-started from a guess or from larger values of lambda1."""
        found = self._solve(lambda1)
        if found is None:
            return self._fallback.solve(lambda1)
        self._solved.append((lambda1, found.z))
        overlapping = self.problem.penalty.overlapping
        origin = Origin(self._moved(found.z), lambda1, self.a) if overlapping else None
        return ModelMap(found.delta, origin, *self._quadratic(found))

    def _quadratic(self, found: Solved) -> tuple[float, float]:
        """Compute a lower bound of D'HD, and what it is likely to be."""
        squares = found.product.square()
        length = float(torch.linalg.vector_norm(found.delta, dtype=torch.float64)) ** 2
        if self.middle is None:
            bound = float(squares.sum()) - self.problem.shift * length
            return bound, bound
        likely = float(found.product @ self.middle @ found.product)
        # The first rows are those of the basis.
        inside = float(squares[: len(self.basis)].sum())
        return likely - self.problem.negative * max(0.0, length - inside), likely

    def _solve(self, lambda1: float) -> Solved | None:
        penalty = self.problem.penalty
        start, y = self._start(lambda1)
        if not penalty.separable:
            return self._newton(WholeThreshold(self.problem.gradient, self.factor, lambda1, penalty), start)
        threshold = EntrywiseThreshold(self._sums, lambda1, penalty, first=y)
        found = self._newton(threshold, start)
        if found is None:
            return None
        # The next start needs the y of the last two maps. Each y is as long as a map, so no others are kept.
        self._ys = dict([*self._ys.items(), (lambda1, threshold.y)][-2:])
        return found

    def _start(self, lambda1: float) -> tuple[Tensor, Tensor | None]:
        """Choose the z at which Newton starts.

        It is z = UD of a guess. Without a guess it is extrapolated from the maps at the two nearest larger values of
        lambda1, no further than these two are apart.

        Returns:
            z, and y = g + U'Tz. None for y: it would take a product with U.
        """
        if lambda1 in self._guesses:
            return self._guesses[lambda1], None
        nearest = sorted((s for s in self._solved if s[0] >= lambda1), key=lambda s: s[0])
        near, z = nearest[0]
        y = self._ys.get(near)
        # The last entry stands for lambda1 = infinity.
        if len(nearest) < 3 or nearest[1][0] == near:
            return z, y
        far, before = nearest[1]
        share, y_before = min(1.0, (near - lambda1) / (far - near)), self._ys.get(far)
        y = None if y is None or y_before is None else torch.lerp(y, y_before, -share)
        return z + (z - before) * share, y

    def _moved(self, z: Tensor) -> Tensor:
        """Compute g + U'Tz."""
        return self._sums.moved(self._weighed(z))

    def _weighed(self, z: Tensor) -> Tensor:
        """Compute Tz."""
        return z if self.middle is None else self.middle @ z

    def _newton(self, threshold: Threshold, start: Tensor) -> Solved | None:
        negligible = max(NEGLIGIBLE, HARMLESS * self.basis.rounding**2)
        if self.middle is None:
            return semismooth_newton(threshold, self.a, start, negligible)
        return saddle_newton(threshold, self.middle, self.a, start, negligible)

    @property
    def form_rounding(self) -> float:
        """How far rounding may have raised D'HD for a map of unit length."""
        if self.middle is None:
            error = self.basis.factor_error
            return error * (error + 2 * math.sqrt(self.basis.size))
        return 2 * self.basis.rounding * self.basis.size * float(self.basis.magnified.norm())
