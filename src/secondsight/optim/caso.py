"""CASO: the whole path of lambda1 on a growing basis of exact products, with a certificate.

Explore the spectrum and fix lambda2. Solve the path on the basis and choose lambda1. Take the exact product at the
chosen map, which certifies it and enlarges the basis. Repeat until the certificate is good enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from secondsight.errors import NOT_CERTIFIED, Caution, InputError
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.extreme_eigenvalues import Spectrum, estimate, explore
from secondsight.optim.fista import Iterate, fista
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.lambda_choice import LambdaRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.nystrom_model import NystromModel
from secondsight.optim.path import Path, Point
from secondsight.optim.penalties import Penalty
from secondsight.optim.problem import C1, Problem

LARGEST_BASIS = 48
"""The basis of a photograph then takes 116 MB. FISTA, which keeps three maps and their products, goes on from there."""

FLOAT32_RANGE = 2.0**-64, 2.0**64
"""Where lambda2 is outside, maps of a gradient of unit size may leave float32's range, and are kept in float64."""

ASYMMETRY = 1e-2
"""Far above what rounding does to float32 products: an asymmetry of a hundredth comes from a wrong derivative."""


@dataclass
class CasoSolver:
    """One input's problem on its way to a certified solution: `fix_lambda2`, `choose`, then perhaps `certify_path`.

    Attributes:
        gradient: g, flat, float64.
        H: the operator, with its budget of products.
        penalty: what lambda1 multiplies.
        sparsity: how the user counts zeros.
        c1: how far lambda2 lies above L/2.
        lambda2: the caller's own; None: L/2 + c1.
        tolerance: the relative gap to reach.
        seed: of the random probe for L.
        dtype: the precision that maps are returned in. They are rounded to it before they are certified. Float64 where
            float32 has no such numbers.
        proven_top_eigenvalue: L, where it is proven; None: it is estimated from products.
        notes: what a reader of the result should know.
        basis: what is known of H.
        top: the L that lambda2 was set from.
        problem: g, the penalty, lambda2 and the bounds that the basis gives now.
    """

    gradient: Tensor
    H: MeteredOperator
    penalty: Penalty
    sparsity: Callable[[Tensor], float]
    c1: C1
    lambda2: float | None
    tolerance: float
    seed: int
    dtype: torch.dtype
    proven_top_eigenvalue: float | None = None
    notes: list[str] = field(default_factory=list)
    basis: KrylovBasis = field(init=False)
    top: float = field(init=False)
    problem: Problem = field(init=False)

    def fix_lambda2(self) -> None:
        """Find L from the first products, and set lambda2 = L/2 + c1 once and for all (theorem 3)."""
        self.basis = KrylovBasis(self.gradient, self.dtype)
        spectrum = explore(self.H, self.gradient, self.basis, self._margin, self.seed)
        self._check_symmetry()
        self.top, lambda2 = self._lambda2(spectrum)
        self.dtype = map_dtype(self.dtype, lambda2)
        self.problem = self._problem(lambda2)

    def choose(self, rule: LambdaRule) -> Path:
        """Solve the path on the basis, choose lambda1, and certify the chosen map; repeat until the proof is good."""
        while True:
            model = NystromModel(self.problem, self.basis)
            path = rule.choose(functools.partial(self._solve_at, model), self.penalty.lambda1_max(self.gradient))
            if not self.H.left:
                return path
            known = len(self.basis)
            (point,) = self._certify([path.chosen])
            path = path.replacing({path.index: point})
            if point.certified_to(self.tolerance) or not self.H.left or self.problem.mu <= 0:
                return path
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                return path.replacing({path.index: self._finish(point)})

    def certify_path(self, path: Path) -> Path:
        """Certify every point of the path in one go, and solve the points that fail again on the enlarged basis."""
        pending = {i: p for i, p in enumerate(path.points) if p.gap is None}
        while pending and self.H.left and self.problem.mu > 0:
            known = len(self.basis)
            indices = list(pending)[: self.H.left]
            certified = self._certify([pending[i] for i in indices])
            done = dict(zip(indices, certified, strict=True))
            path = path.replacing(done)
            failed = [i for i, point in done.items() if not point.certified_to(self.tolerance)]
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                path = path.replacing({i: self._finish(path.points[i]) for i in failed})
                break
            skipped = [i for i in pending if i not in done]
            model = NystromModel(self.problem, self.basis)
            pending = {i: self._solve_at(model, path.points[i].lambda1) for i in sorted(failed + skipped)}
        # Later products may have moved the bound of L: one bound for all points.
        return path.replacing({i: self._certified(p, p.product) for i, p in enumerate(path.points)})

    def shortfall(self, points: Sequence[Point]) -> list[str]:
        """Say why points are not certified to the tolerance; nothing if all are."""
        short = [point for point in points if not point.certified_to(self.tolerance)]
        if not short:
            return []
        what = "the map is" if len(points) == 1 else f"{len(short)} of {len(points)} maps of the path are"
        if self.problem.mu <= 0:
            lambda2 = f"lambda2 = {self.problem.lambda2 * self.H.unit:.4g}"
            why = f"{lambda2} proved too small for the curvature found later: raise c1 or lambda2"
        elif not self.H.left:
            why = f"max_products = {self.H.most} was reached"
        else:
            why = "the network's own rounding allows no smaller gap: compute in float64 or raise the tolerance"
        return [Caution(f"{what} not certified to {self.tolerance:g}: {why}", NOT_CERTIFIED)]

    def _margin(self, top: float) -> float:
        return 2 * self.c1.at(top) if self.lambda2 is None else 2 * self.lambda2 - top

    def _check_symmetry(self) -> None:
        matrix = self.basis.vectors @ self.basis.products.T
        error, size = float((matrix - matrix.T).abs().max()), float(matrix.abs().max())
        if error > ASYMMETRY * size:
            note = (
                f"products with H are not symmetric (by {error / size:.0%} of its size): the network's derivatives "
                "contradict each other, and the certificate cannot be trusted"
            )
            self.notes.append(Caution(note, NOT_CERTIFIED))

    def _lambda2(self, spectrum: Spectrum) -> tuple[float, float]:
        """Choose L and lambda2."""
        if self.proven_top_eigenvalue is None:
            top, bound = spectrum.top, spectrum.top_bound
        else:
            top = bound = self.proven_top_eigenvalue
        if self.lambda2 is not None:
            if 2 * self.lambda2 <= bound:
                may_be = f"at least {_round_up(bound / 2 * 1.01):g}, above half the Hessian's largest eigenvalue"
                raise InputError("lambda2", f"{may_be}, for the objective to be concave", self.lambda2)
            return top, self.lambda2
        c1 = self.c1.at(top)
        lambda2 = top / 2 + c1
        if 2 * lambda2 - bound < c1:
            lambda2 = (bound + c1) / 2
            unit = self.H.unit
            self.notes.append(
                f"the Hessian's largest eigenvalue was only found to lie between {top * unit:.4g} and "
                f"{bound * unit:.4g}: lambda2 was raised to {lambda2 * unit:.4g}"
            )
        return top, lambda2

    def _problem(self, lambda2: float) -> Problem:
        """State the problem with the bounds that the basis gives now."""
        spectrum = estimate(self.basis, self.H.psd)
        bound = spectrum.top_bound if self.proven_top_eigenvalue is None else self.proven_top_eigenvalue
        return Problem(self.gradient, self.penalty, lambda2, 2 * lambda2 - bound, spectrum.negative)

    def _solve_at(self, model: NystromModel, lambda1: float) -> Point:
        delta = model.solve(lambda1).to(self.dtype)
        exact = delta.double()
        objective = self.problem.objective(exact, model.quadratic(exact), lambda1)
        return Point(lambda1, delta, objective, self.sparsity(delta))

    def _certify(self, points: list[Point]) -> list[Point]:
        """Take the exact products at the points, add them to the basis, and certify the points."""
        deltas = torch.stack([point.delta for point in points]).double()
        products = (self.H @ deltas.T).T
        self.basis.append(deltas, products)
        self.problem = self._problem(self.problem.lambda2)
        return [self._certified(*pair) for pair in zip(points, products, strict=True)]

    def _certified(self, point: Point, product: Tensor | None) -> Point:
        if product is None:
            return point
        delta = point.delta.double()
        return replace(
            point,
            product=product,
            objective=self.problem.objective(delta, float(delta @ product), point.lambda1),
            gap=duality_gap(self.problem, delta, product, point.lambda1),
        )

    def _finish(self, point: Point) -> Point:
        """Run FISTA from where the basis could not get any further."""
        if point.product is None or point.gap is None:
            return point
        start = Iterate(point.delta.double(), point.product, point.gap.relative_gap)
        best = fista(self.problem, self.H, start, point.lambda1, self.tolerance, self.dtype)
        delta = best.delta.to(self.dtype)
        finished = self._certified(replace(point, delta=delta, sparsity=self.sparsity(delta)), best.product)
        return min(point, finished, key=lambda p: math.inf if p.gap is None else p.gap.relative_gap)


def map_dtype(dtype: torch.dtype, lambda2: float) -> torch.dtype:
    """Choose the precision of maps whose gradient has unit size."""
    low, high = FLOAT32_RANGE
    return dtype if low < lambda2 < high else torch.float64


def _round_up(number: float) -> float:
    """Round up to four digits, so that the number that an error suggests works when typed."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return (math.floor(number / unit) + 1) * unit
