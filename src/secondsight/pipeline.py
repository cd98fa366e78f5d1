"""Where a map comes from, on one screen.

    input -> g, H -> lambda2 -> path of lambda1 -> choice -> certificate -> Explanation

The penalised methods differ in g and H only: CAFO has no H, and the smooth methods average over noisy copies. The
inputs of a batch come in at `surrogate_at`. `share` makes an operator of each H, and these operators take the products
of several inputs in one pass (batching/). Captum's methods are in `baselines.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from secondsight.baselines import baseline
from secondsight.batching.workers import Share
from secondsight.config import CAFO, CASO, Baseline, Picture, SmoothMap
from secondsight.groups import Grouping
from secondsight.model.classifier import Classifier
from secondsight.model.failures import telling_overflow
from secondsight.operators.averaged import AveragedHessian
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import choose_hessian
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.noise import noise_of
from secondsight.optim.cafo import cafo_solver
from secondsight.optim.caso import map_dtype
from secondsight.optim.second_order_angle import angle_without_penalty
from secondsight.request import Request
from secondsight.results.builder import ResultBuilder
from secondsight.results.explanation import (
    Explanation,
    PictureExplanation,
    SecondOrder,
    SecondOrderExplanation,
    Smoothing,
    SparseExplanation,
)
from secondsight.results.sentences import second_order
from secondsight.solver_setup import caso_solver
from secondsight.threads import CoreWatch, one_thread


@dataclass(frozen=True)
class Surrogate:
    """The loss around one input, g'D + 1/2 D'HD (H is None without second order), and what was asked for."""

    request: Request[CAFO]
    linear: Linearisation
    grouping: Grouping
    g: Tensor
    H: LossHessian | None
    notes: list[str]
    smoothing: Smoothing | None = None

    def builder(self) -> ResultBuilder:
        """Prepare the result."""
        return ResultBuilder(self.linear, self.g, self.request, self.grouping, self.smoothing)


def explain_one(model: Classifier, x: Tensor, request: Request[Any], steady: bool = False) -> Explanation:
    """Explain one input, without batch dimension. For use inside `model.ready()`.

    `steady` keeps the number of torch's threads, also on a busy machine: the same input then gives the same bits.
    """
    if isinstance(request.method, Baseline):
        return baseline(model, x, request)
    watch = CoreWatch(x.device)
    linear = linearise(model, x[None], request.target, record=isinstance(request.method, (CASO, Picture)))
    with one_thread(when=not steady and watch.is_busy()):
        return maximise(surrogate_at(linear, request))


def surrogate_at(linear: Linearisation, request: Request[CAFO]) -> Surrogate:
    """Sections 2 and 3: take g and H of the loss at the input, or averaged over noisy copies of it (definition 4)."""
    method, x, notes = request.method, linear.x[0], list[str]()
    second_order, grouping = isinstance(method, CASO), Grouping.of(method.groups, x)
    hessian_class: type[LossHessian] = GaussNewton
    if isinstance(method, CASO):
        hessian_class, notes = choose_hessian(linear, method.curvature)
    if not isinstance(method, SmoothMap):
        g = linear.gradient(last=not second_order)
        return Surrogate(request, linear, grouping, g, hessian_class(linear) if second_order else None, notes)
    noise = noise_of(linear.model, x, linear.jacobian.logits, method, request.seed)
    norms = grouping.penalty(linear.jacobian.solver_device).group_norms
    H = AveragedHessian(linear, hessian_class, noise, record=second_order, view=norms)
    g = H.gradient
    smoothing = Smoothing(H.noise.n, H.spread.relative_error())
    return Surrogate(request, linear, grouping, g, H if second_order else None, notes, smoothing)


def maximise(surrogate: Surrogate, share: Share | None = None) -> SparseExplanation:
    """Maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2 along lambda1, choose one map, and certify it."""
    method, H = surrogate.request.method, surrogate.H
    with telling_overflow():
        if H is not None and isinstance(method, CASO):
            return _with_curvature(surrogate, method, H, H if share is None else share(H))
        if isinstance(method, Picture):
            found, notes = _second_order_at_input(surrogate, method)
            return PictureExplanation(**_without_curvature(surrogate.builder(), method, notes), second_order=found)
        return SparseExplanation(**_without_curvature(surrogate.builder(), method, []))


def _without_curvature(build: ResultBuilder, method: CAFO, notes: list[str]) -> dict[str, Any]:
    """Solve definition 2: a soft threshold at each lambda1. It is exact, so the certificate is a gap of zero."""
    g, penalty = build.unit_gradient, build.penalty
    scaled = build.c1().at(0.0) if method.lambda2 is None else method.lambda2
    lambda2 = scaled * build.curvature_unit
    solve = cafo_solver(g, penalty, scaled, build.sparsity, map_dtype(build.dtype, lambda2))
    path = build.rule().choose(solve, penalty.lambda1_max(g))
    return build.fields(path, notes, lambda2, 0.0, "exact", 0.0)


def _with_curvature(
    surrogate: Surrogate, method: CASO, H: LossHessian, shared: SymmetricOperator
) -> SecondOrderExplanation:
    """Solve definition 3: fix lambda2, solve the path of lambda1, choose one map, and certify it."""
    build = surrogate.builder()
    solver, unit = caso_solver(build, method, H, shared, surrogate.notes), build.curvature_unit
    solver.fix_lambda2()  # theorem 3: the objective is concave where lambda2 > L/2
    path = solver.choose(build.rule())  # section 4: the path of lambda1, the chosen map, its certificate
    if method.certify == "path":
        path = solver.certify_path(path)
    notes = [*solver.notes, *solver.shortfall(path.points if method.certify == "path" else [path.chosen])]
    lambda2, top_bound = solver.problem.lambda2 * unit, solver.problem.top_bound * unit
    found: dict[str, Any] = {
        "second_order": second_order(method, *angle_without_penalty(solver.problem, solver.basis)),
        "products": solver.H.taken,
        "curvature": H.kind,
        "top_eigenvalue": solver.top * unit,
        "ritz_values": tuple((solver.basis.ritz_values() * unit).tolist()),
    }
    basis = solver.bound.name
    del solver  # The result copies the maps of the path, and the solver's products take as much memory.
    return SecondOrderExplanation(**build.fields(path, notes, lambda2, method.tolerance, basis, top_bound), **found)


def _second_order_at_input(surrogate: Surrogate, method: Picture) -> tuple[SecondOrder, list[str]]:
    """Say whether second order matters at the input itself, as CASO would after the products that fix lambda2."""
    caso = CASO(c1=method.c1)
    clean = surrogate_at(surrogate.linear, replace(surrogate.request, method=caso))
    assert clean.H is not None
    solver = caso_solver(clean.builder(), caso, clean.H, clean.H, clean.notes)
    solver.fix_lambda2()
    return second_order(caso, *angle_without_penalty(solver.problem, solver.basis)), clean.notes
