"""CASO: the whole path of lambda1 on a growing basis of exact products, with a certificate.

Explore the spectrum and fix lambda2. Solve the path on the basis and choose lambda1. Take the exact product at the
chosen map, which certifies it and enlarges the basis. Repeat until the certificate is good enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from secondsight.errors import NOT_CERTIFIED, Caution, InputError
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.eigenvalue_bounds import Estimated, TopBound
from secondsight.optim.extreme_eigenvalues import Search, Spectrum, estimate
from secondsight.optim.fista import Iterate, fista
from secondsight.optim.kept_map import KeptMap
from secondsight.optim.krylov_basis import DEVIATIONS, KrylovBasis
from secondsight.optim.lambda_choice import LambdaRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.nystrom_model import NystromModel
from secondsight.optim.path import Path, Point
from secondsight.optim.penalties import L1, Penalty
from secondsight.optim.problem import C1, Objective, Problem
from secondsight.optim.proof import Origin
from secondsight.optim.softmax_rounding import SoftmaxRounding

LARGEST_BASIS = 48
"""The basis of a photograph then takes 116 MB. FISTA, which keeps three maps and their products, goes on from there."""

FLOAT32_RANGE = 2.0**-64, 2.0**64
"""If lambda2 is outside, maps of a gradient of unit size may leave float32's range, so they are kept in float64."""

PATH_GAP = 1e-3
"""Where the first product proves this relative gap, the other maps of the path are good enough, too."""

LIKELY = 0.01 ** (5 / 16)
"""The share of lambda1_max that is chosen most often on photographs: a value of the default path."""

FAR = 0.3
"""A map whose relative gap is above this is far from the optimum, and so may be the choice of lambda1."""

ASYMMETRY = 1e-2
"""Far above what rounding does to float32 products: an asymmetry of a hundredth comes from a wrong derivative."""

SMALLEST = 1e-290
"""Products below this size may be off by more than a hundredth, because float64 ends at 1e-308."""


@dataclass
class CasoSolver:
    """One input's problem on its way to a certified solution: `fix_lambda2`, `choose`, then perhaps `certify_path`.

    Attributes:
        gradient: g, flat, float64.
        H: the operator, with its budget of products.
        penalty: what lambda1 multiplies.
        sparsity: how the user counts zeros.
        c1: how far lambda2 lies above L/2.
        lambda2: the value that the caller fixed; None: L/2 + c1.
        tolerance: the relative gap to reach.
        seed: of the random probe for L.
        dtype: the precision that maps are returned in. They are rounded to it before they are certified. Float64 where
            the maps may leave float32's range.
        bound: how L is bounded for the certificate.
        softmax: what rounding of the logits does to g and H.
        notes: what a reader of the result should know.
        basis: what is known of H.
        asymmetry: the relative asymmetry of V'HV, if it is too large to certify anything; else 0.
        top: the L that lambda2 was set from.
        problem: g, the penalty, lambda2 and the bounds that the basis gives now.
        fixed_shift: the shift that makes H semidefinite, fixed with lambda2. None: the penalty does not depend on it.
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
    bound: TopBound = field(default_factory=Estimated)
    softmax: SoftmaxRounding = field(default_factory=SoftmaxRounding)
    notes: list[str] = field(default_factory=list)
    basis: KrylovBasis = field(init=False)
    asymmetry: float = field(init=False, default=0.0)
    top: float = field(init=False)
    problem: Problem = field(init=False)
    fixed_shift: float | None = field(init=False, default=None)

    def fix_lambda2(self) -> None:
        """Find L from the first products, and set lambda2 = L/2 + c1 once and for all (theorem 3)."""
        self.basis = KrylovBasis(self.gradient, self.dtype)
        # Where blocks overlap, the penalty depends on the smallest eigenvalue.
        search = Search(self._margin, self.seed, self.penalty.overlapping, self._early_map)
        spectrum = self.bound.explore(self.H, self.gradient, self.basis, search)
        self._check_symmetry()
        self.top, lambda2 = self._lambda2(spectrum)
        self.dtype = map_dtype(self.dtype, lambda2)
        self.problem = self._problem(lambda2)
        if self.penalty.overlapping:
            self.fixed_shift = self.problem.negative
            self.problem = replace(self.problem, fixed_shift=self.fixed_shift)

    def _early_map(self, spectrum: Spectrum) -> Tensor:
        """Solve for a likely map before L is settled. L must not depend on groups or on the user's lambda1."""
        penalty = L1()
        lambda2 = (spectrum.top_bound + max(self._margin(spectrum.top), 0.0)) / 2
        problem = Problem(self.gradient, penalty, lambda2, spectrum.top_bound, spectrum.negative)
        model = NystromModel(problem, self.basis, dtype=self.dtype)
        return model.solve(LIKELY * penalty.lambda1_max(self.gradient)).delta.double()

    def choose(self, rule: LambdaRule) -> Path:
        """Solve the path on the basis, choose lambda1, and certify the chosen map; repeat until the gap is small.

        If the first product shows that the path is far off, the choice may change. Later, the path is solved again only
        after the chosen map is certified.
        """
        guesses: dict[float, KeptMap] = {}
        proven: Point | None = None
        patient = False
        while True:
            path = self._solve_path(rule, guesses)
            if proven is not None and proven.lambda1 == path.chosen.lambda1:
                return path.replacing({path.index: proven})
            if not self.H.left:
                return path
            point, is_last = self._certify_chosen(path.chosen, patient)
            path = path.replacing({path.index: point})
            if is_last:
                return path
            proven = point if point.certified_to(self.tolerance) else None
            guesses = {point.lambda1: point.kept for point in path.points}
            # Freed here, because the next path takes as much memory.
            del path, point
            patient = True

    def _solve_path(self, rule: LambdaRule, guesses: dict[float, KeptMap]) -> Path:
        """Solve the path on the basis. Its model, which is as large as the basis, is freed before the next one.

        The guesses are freed as soon as the model has read them.
        """
        model = self._model(guesses)
        guesses.clear()
        return rule.choose(functools.partial(self._solve_at, model), self.penalty.lambda1_max(self.gradient))

    def _certify_chosen(self, point: Point, patient: bool) -> tuple[Point, bool]:
        """Certify a map by products. After each product that is not enough, solve this map alone again.

        Unless `patient`, stop where the map is far from the optimum. Also return whether the path that the map was
        chosen from can stay.
        """
        products = 0
        while True:
            known = len(self.basis)
            (point,) = self._certify([point])
            products += 1
            if products == 1:
                path_can_stay = point.certified_to(max(PATH_GAP, self.tolerance))
            if point.certified_to(self.tolerance):
                return point, path_can_stay
            if not self.H.left or self._hopeless(point):
                return point, True
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                return self._finish(point), True
            if not patient and (point.gap is None or point.gap.relative_gap > FAR):
                return point, False
            point = self._solve_at(self._model({point.lambda1: point.kept}), point.lambda1)

    def certify_path(self, path: Path) -> Path:
        """Certify every point of the path in one go, and solve the points that fail again on the enlarged basis."""
        pending = {i: p for i, p in enumerate(path.points) if p.gap is None}
        while pending and self.H.left and self.problem.mu > 0:
            known = len(self.basis)
            indices = list(pending)[: self.H.left]
            certified = self._certify([pending[i] for i in indices])
            done = dict(zip(indices, certified, strict=True))
            path = path.replacing(done)
            short = {i: point for i, point in done.items() if not point.certified_to(self.tolerance)}
            failed = [i for i, point in short.items() if not self._hopeless(point)]
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                path = path.replacing({i: self._finish(path.points[i]) for i in failed})
                break
            skipped = [i for i in pending if i not in done]
            model = self._model()
            pending = {i: self._solve_at(model, path.points[i].lambda1) for i in sorted(failed + skipped)}
        # Later products may have moved the bound of L. All points are certified with the last one.
        return path.replacing({i: self._certified(p, p.product) for i, p in enumerate(path.points)})

    def shortfall(self, points: Sequence[Point]) -> list[str]:
        """Say why points are not certified to the tolerance; nothing if all are."""
        short = [point for point in points if not point.certified_to(self.tolerance)]
        if not short:
            return []
        what = "the map is" if len(points) == 1 else f"{len(short)} of {len(points)} maps of the path are"
        return [Caution(f"{what} not certified to {self.tolerance:g}: {self._reason(short[0])}", NOT_CERTIFIED)]

    def _reason(self, point: Point) -> str:
        lambda2 = self.problem.lambda2 * self.H.unit
        if self.asymmetry:
            return (
                f"products with H are not symmetric (by {self.asymmetry:.0%} of its size): the network's derivatives "
                "contradict each other"
            )
        if self.problem.mu <= 0 and estimate(self.basis, self.H.psd).top >= 2 * self.problem.lambda2:
            return f"lambda2 = {lambda2:.4g} proved too small for the curvature found later: raise c1 or lambda2"
        if self.problem.mu <= 0:
            return (
                "L, the Hessian's largest eigenvalue, could not be bounded: ask for bound='proven' or 'probable', or "
                "raise c1"
            )
        if not self.H.left and not self._hopeless(point):
            return f"max_products = {self.H.most} was reached"
        return "the network's own rounding allows no smaller gap: compute in float64 or raise the tolerance"

    def _hopeless(self, point: Point) -> bool:
        """Whether no further product can certify the point."""
        if self.asymmetry or self.problem.mu <= 0:
            return True
        return point.gap is not None and point.gap.rounding > self.tolerance

    def _margin(self, top: float) -> float:
        return 2 * self.c1.at(top) if self.lambda2 is None else 2 * self.lambda2 - top

    def _check_symmetry(self) -> None:
        error, size = self.basis.asymmetry(), float(self.basis.cross.abs().max())
        # Numbers that small have lost digits to underflow.
        if error > ASYMMETRY * size and size * self.H.unit > SMALLEST:
            self.asymmetry = error / size

    def _lambda2(self, spectrum: Spectrum) -> tuple[float, float]:
        """Choose L and lambda2."""
        top, bound = spectrum.top, spectrum.top_bound
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
        bounds = self.bound.at(self.basis, self.H.psd, lambda2)
        rounding = self.softmax.factor * (1 + self.basis.measured_rounding())
        bound, negative = bounds.top * rounding, bounds.negative * rounding
        diagonal = None if bounds.diagonal is None else bounds.diagonal * rounding
        return Problem(self.gradient, self.penalty, lambda2, bound, negative, self.fixed_shift, diagonal)

    def _model(self, guesses: Mapping[float, KeptMap] | None = None) -> NystromModel:
        """Replace H by what the basis knows of it now."""
        return NystromModel(self.problem, self.basis, guesses, self.dtype)

    def _solve_at(self, model: NystromModel, lambda1: float) -> Point:
        found = model.solve(lambda1)
        delta = found.delta.to(self.dtype)
        objective = self.problem.objective(delta.double(), found.quadratic_bound, lambda1, found.origin)
        # Maps are rounded after their products were taken.
        rounding = model.form_rounding + torch.finfo(self.dtype).eps * self.basis.size
        return Point(
            lambda1,
            KeptMap.of(delta),
            objective,
            self._sparsity(delta, found.origin),
            self._objective_rounding(objective, rounding),
            origin=found.origin,
            quadratic=found.quadratic,
        )

    def _sparsity(self, delta: Tensor, origin: Origin | None) -> float:
        return self.sparsity(delta) if origin is None else self.penalty.zero_share(origin)

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
        objective = self.problem.objective(delta, float(delta @ product), point.lambda1, point.origin)
        return replace(
            point,
            product=product,
            objective=objective,
            rounding=self._objective_rounding(objective, self.basis.measured_rounding() * self.basis.size),
            gap=duality_gap(self.problem, delta, product, point.lambda1, self._rounding(delta, product), point.origin),
            quadratic=None,
        )

    def _objective_rounding(self, objective: Objective, product: float) -> float:
        """Estimate how far rounding may have raised an objective. `product`: the same for v'Hv at a unit vector v."""
        length = math.sqrt(objective.square)
        gradient = self.basis.measured_rounding() * self.problem.gradient_norm
        gradient += self.softmax.error(self.top, objective.quadratic)
        return gradient * length + product * objective.square / 2

    def _rounding(self, delta: Tensor, product: Tensor) -> float:
        """Estimate how long the rounding error of g + HD is."""
        if self.asymmetry:
            return math.inf
        size = self.problem.gradient_norm + float(product.norm())
        measured = max(self.basis.measured_rounding() * size, DEVIATIONS * self.basis.rounding_of(delta, product))
        return measured + self.softmax.error(self.top, float(delta @ product))

    def _finish(self, point: Point) -> Point:
        """Run FISTA from where the basis could not get any further."""
        if point.product is None or point.gap is None:
            return point
        start = Iterate(point.delta.double(), point.product, point.gap.relative_gap, point.origin)
        best = fista(self.problem, self.H, start, point.lambda1, self.tolerance, self.dtype, self._rounding)
        delta = best.delta.to(self.dtype)
        sparsity = self._sparsity(delta, best.origin)
        finished = replace(point, kept=KeptMap.of(delta), sparsity=sparsity, origin=best.origin)
        finished = self._certified(finished, best.product)
        return min(point, finished, key=lambda p: math.inf if p.gap is None else p.gap.relative_gap)


def map_dtype(dtype: torch.dtype, lambda2: float) -> torch.dtype:
    """Choose the precision of maps whose gradient has unit size."""
    low, high = FLOAT32_RANGE
    return dtype if low < lambda2 < high else torch.float64


def _round_up(number: float) -> float:
    """Round up to four digits, so that the number that an error suggests works when typed."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return (math.floor(number / unit) + 1) * unit
