"""CASO: the whole path of lambda1 on a growing basis of exact products, with a certificate.

Explore the spectrum and fix lambda2; solve the path on the basis; choose lambda1; take the exact product at the chosen
map, which certifies it and enlarges the basis; repeat until the certificate is good enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from secondsight.errors import InputError
from secondsight.solve.asking import Asking, Budget
from secondsight.solve.basis import Basis
from secondsight.solve.certificate import Problem
from secondsight.solve.fista import fista
from secondsight.solve.low_rank import LowRankModel, angle_without_penalty
from secondsight.solve.penalty import Penalty
from secondsight.solve.select import Choice, Point, Rule
from secondsight.solve.spectrum import Spectrum, estimate, explore

LARGEST_BASIS = 48
"""Beyond so many vectors the basis costs more memory and time than it saves: FISTA, which keeps three, goes on."""

ASYMMETRY = 1e-2


@dataclass(frozen=True)
class Demands:
    """What the caller wants of a solution.

    lambda2: the caller's own, or None for L/2 + c1.
    top_eigenvalue: L where it is proven; None: estimated from products.
    certify: "chosen" or "path".
    dtype: the precision maps are returned in; they are rounded to it before they are certified.
    """

    rule: Rule
    c1: float
    lambda2: float | None
    tolerance: float
    certify: str
    seed: int
    dtype: torch.dtype
    top_eigenvalue: float | None = None


@dataclass(frozen=True)
class Solution:
    """The chosen point with its path, in the solver's units, and how it came about."""

    choice: Choice
    problem: Problem
    lambda1_max: float
    top_eigenvalue: float
    products: int
    angle: float
    angle_error: float
    notes: tuple[str, ...]


@dataclass
class CasoSolver:
    """One input's problem on its way to a certified solution."""

    gradient: Tensor
    budget: Budget
    semidefinite: bool
    sparsity: Callable[[Tensor], float]
    demands: Demands
    penalty: Penalty
    notes: list[str] = field(default_factory=list)

    def solve(self) -> Asking[Solution]:
        demands = self.demands
        self.basis = Basis(self.gradient, demands.dtype)
        spectrum = yield from explore(
            self.budget, self.gradient, self.basis, self._margin, self.semidefinite, demands.seed
        )
        self._check_symmetry()
        top, self.lambda2 = self._fix_lambda2(spectrum)
        self.problem = self._problem()
        choice = yield from self._choose_and_certify()
        if demands.certify == "path":
            choice = yield from self._certify_path(choice)
            # Later products may have moved the bound of L: one bound for all.
            choice = choice.replacing({i: self._certified(p, p.product) for i, p in enumerate(choice.points)})
        self._explain_shortfall(choice)
        angle, error = angle_without_penalty(self.problem, self.basis)
        return Solution(
            choice=choice,
            problem=self.problem,
            lambda1_max=self.penalty.lambda1_max(self.gradient),
            top_eigenvalue=top,
            products=self.budget.taken,
            angle=angle,
            angle_error=error,
            notes=tuple(self.notes),
        )

    def _margin(self, top: float) -> float:
        demands = self.demands
        return 2 * demands.c1 if demands.lambda2 is None else 2 * demands.lambda2 - top

    def _check_symmetry(self) -> None:
        matrix = self.basis.vectors @ self.basis.products.T
        error, size = float((matrix - matrix.T).abs().max()), float(matrix.abs().max())
        if error > ASYMMETRY * size:
            self.notes.append(
                f"products with H are not symmetric (by {error / size:.0%} of its size): the network's derivatives "
                "contradict each other, and the certificate cannot be trusted"
            )

    def _fix_lambda2(self, spectrum: Spectrum) -> tuple[float, float]:
        """L and lambda2, once and for all."""
        demands = self.demands
        if demands.top_eigenvalue is None:
            top, bound = spectrum.top, spectrum.top_bound
        else:
            top = bound = demands.top_eigenvalue
        if demands.lambda2 is not None:
            if 2 * demands.lambda2 <= bound:
                may_be = f"at least {_round_up(bound / 2 * 1.01):g}, above half the Hessian's largest eigenvalue"
                raise InputError("lambda2", f"{may_be}, for the objective to be concave", demands.lambda2)
            return top, demands.lambda2
        lambda2 = top / 2 + demands.c1
        if 2 * lambda2 - bound < demands.c1:
            lambda2 = (bound + demands.c1) / 2
            self.notes.append(
                f"the Hessian's largest eigenvalue was only found to lie between {top:.4g} and {bound:.4g}: "
                f"lambda2 was raised to {lambda2:.4g}"
            )
        return top, lambda2

    def _problem(self) -> Problem:
        """The problem with the bounds that the basis gives now."""
        spectrum = estimate(self.basis, self.semidefinite)
        bound = self.demands.top_eigenvalue
        if bound is None:
            bound = spectrum.top_bound
        return Problem(self.gradient, self.penalty, self.lambda2, 2 * self.lambda2 - bound, spectrum.negative)

    def _solve_at(self, model: LowRankModel, lambda1: float) -> Point:
        delta = model.solve(lambda1).to(self.demands.dtype)
        exact = delta.double()
        objective = self.problem.objective(exact, model.quadratic(exact), lambda1)
        return Point(lambda1, delta, objective, self.sparsity(delta))

    def _certify(self, points: list[Point]) -> Asking[list[Point]]:
        """The points with certificates by exact products, which the basis learns first."""
        deltas = torch.stack([point.delta for point in points]).double()
        products = yield from self.budget.products(deltas)
        self.basis.append(deltas, products)
        self.problem = self._problem()
        return [self._certified(*pair) for pair in zip(points, products, strict=True)]

    def _certified(self, point: Point, product: Tensor | None) -> Point:
        if product is None:
            return point
        delta = point.delta.double()
        return replace(
            point,
            product=product,
            objective=self.problem.objective(delta, float(delta @ product), point.lambda1),
            certificate=self.problem.certify(delta, product, point.lambda1),
        )

    def _meets(self, point: Point) -> bool:
        return point.certificate is not None and point.certificate.relative_gap <= self.demands.tolerance

    def _choose_and_certify(self) -> Asking[Choice]:
        while True:
            model = LowRankModel(self.problem, self.basis)
            choice = self.demands.rule.choose(
                functools.partial(self._solve_at, model), self.penalty.lambda1_max(self.gradient)
            )
            if not self.budget.left:
                return choice
            known = len(self.basis)
            (point,) = yield from self._certify([choice.point])
            choice = choice.replacing({choice.index: point})
            if self._meets(point) or not self.budget.left or self.problem.mu <= 0:
                return choice
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                return choice.replacing({choice.index: (yield from self._finish(point))})

    def _certify_path(self, choice: Choice) -> Asking[Choice]:
        """Certify every point in one go; solve those that fail again on the enlarged basis."""
        pending = {i: p for i, p in enumerate(choice.points) if p.certificate is None}
        while pending and self.budget.left and self.problem.mu > 0:
            known = len(self.basis)
            indices = list(pending)[: self.budget.left]
            certified = yield from self._certify([pending[i] for i in indices])
            done = dict(zip(indices, certified, strict=True))
            choice = choice.replacing(done)
            failed = [i for i, point in done.items() if not self._meets(point)]
            skipped = [i for i in pending if i not in done]
            if len(self.basis) == known or len(self.basis) >= LARGEST_BASIS:
                for i in failed:
                    choice = choice.replacing({i: (yield from self._finish(choice.points[i]))})
                return choice
            model = LowRankModel(self.problem, self.basis)
            pending = {i: self._solve_at(model, choice.points[i].lambda1) for i in sorted(failed + skipped)}
        return choice

    def _finish(self, point: Point) -> Asking[Point]:
        """FISTA from where the basis could not get any further."""
        if point.product is None:
            return point
        best = yield from fista(
            self.problem,
            self.budget,
            point.delta.double(),
            point.product,
            point.lambda1,
            self.demands.tolerance,
            self.demands.dtype,
        )
        delta = best.delta.to(self.demands.dtype)
        finished = self._certified(replace(point, delta=delta, sparsity=self.sparsity(delta)), best.product)
        return min(point, finished, key=lambda p: math.inf if p.certificate is None else p.certificate.relative_gap)

    def _explain_shortfall(self, choice: Choice) -> None:
        wanted = choice.points if self.demands.certify == "path" else (choice.point,)
        short = [point for point in wanted if not self._meets(point)]
        if not short:
            return
        what = "the map is" if len(wanted) == 1 else f"{len(short)} of {len(wanted)} maps of the path are"
        if self.problem.mu <= 0:
            why = f"lambda2 = {self.lambda2:.4g} proved too small for the curvature found later: raise c1 or lambda2"
        elif not self.budget.left:
            why = f"max_products = {self.budget.most} was reached"
        else:
            why = "the network's own rounding allows no smaller gap: compute in float64 or raise the tolerance"
        self.notes.append(f"{what} not certified to {self.demands.tolerance:g}: {why}")


def _round_up(number: float) -> float:
    """The next number of four digits, so that what an error suggests works when typed."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return (math.floor(number / unit) + 1) * unit
