"""Where a map comes from, on one screen.

    input -> g, H -> lambda2 -> path of lambda1 -> choice -> certificate -> Explanation

The methods differ in g and H only: CAFO has no H, and the smooth methods average over noisy copies. The inputs of a
batch come in at `surrogate_at`, and the operator that `share` makes of H takes their products in one pass (batching/).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from secondsight.baselines import BASELINES, baseline
from secondsight.batching.workers import Share
from secondsight.config import Settings
from secondsight.model.classifier import Classifier
from secondsight.operators.averaged import AveragedHessian
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.full_factor import proven_top_eigenvalue
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import choose_hessian
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.noise import Noise, deviation_of, fitting_batch_size
from secondsight.optim.cafo import cafo_solver
from secondsight.optim.caso import CasoSolver
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.second_order_angle import angle_without_penalty
from secondsight.results.builder import ExplanationBuilder
from secondsight.results.explanation import BoundBasis, EigenvalueBound, Explanation, SecondOrder

PENALISED = ("cafo", "caso", "smooth-cafo", "smooth-caso")
"""The methods with a penalty, a path and a certificate."""

SECOND_ORDER = ("caso", "smooth-caso")
"""Those of them that have an H (definition 3 of the paper)."""

SMOOTH = ("smooth-cafo", "smooth-caso")
"""Those of them that average over noisy copies (definition 4)."""

METHODS = (*BASELINES, *PENALISED)
"""All methods, in the order that users see them."""


@dataclass(frozen=True)
class Surrogate:
    """The loss around one input, g'D + 1/2 D'HD (H is None for CAFO), and what was asked of it."""

    method: str
    settings: Settings
    linear: Linearisation
    g: Tensor
    H: LossHessian | None
    notes: list[str]


def explain_one(model: Classifier, x: Tensor, method: str, settings: Settings) -> Explanation:
    """Explain one input, without batch dimension. For use inside `model.ready()`."""
    if settings.batch_size is None and method not in ("gradient", "cafo", "caso"):
        settings = replace(settings, batch_size=fitting_batch_size(model, x, settings.n))
    if method in BASELINES:
        return baseline(method, model, x, settings)
    linear = linearise(model, x[None], settings.target, record=method in SECOND_ORDER)
    return maximise(surrogate_at(linear, method, settings))


def surrogate_at(linear: Linearisation, method: str, settings: Settings) -> Surrogate:
    """Sections 2 and 3: take g and H of the loss at the input, or averaged over noisy copies of it (definition 4)."""
    second_order, x = method in SECOND_ORDER, linear.x[0]
    hessian_class, notes = choose_hessian(linear, settings.curvature) if second_order else (GaussNewton, [])
    if method in SMOOTH:
        noise = Noise(settings.n, deviation_of(x, settings.sigma), settings.seed, settings.batch_size or 1)
        H: LossHessian = AveragedHessian(linear, hessian_class, noise, record=second_order)
        g = H.gradient
    else:
        H = hessian_class(linear)
        g = linear.gradient(last=not second_order)
    return Surrogate(method, settings, linear, g, H if second_order else None, notes)


def maximise(surrogate: Surrogate, share: Share | None = None) -> Explanation:
    """Maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2 along lambda1, choose one map, and certify it."""
    build = ExplanationBuilder(surrogate.linear, surrogate.g, surrogate.settings)
    if surrogate.H is None:
        return _without_curvature(build, surrogate)
    shared = surrogate.H if share is None else share(surrogate.H)
    return _with_curvature(build, surrogate, surrogate.H, shared)


def _without_curvature(build: ExplanationBuilder, surrogate: Surrogate) -> Explanation:
    """Solve definition 2: a soft threshold at each lambda1. It is exact, so the certificate is a gap of zero."""
    settings, g, penalty = surrogate.settings, build.unit_gradient, build.penalty
    lambda2 = settings.c1 if settings.lambda2 is None else settings.lambda2
    solve = cafo_solver(g, penalty, lambda2, build.sparsity, build.dtype)
    path = build.rule().choose(solve, penalty.lambda1_max(g))
    return build.explanation(path, [], method=surrogate.method, lambda2=lambda2, certified="proven", products=0)


def _with_curvature(
    build: ExplanationBuilder, surrogate: Surrogate, H: LossHessian, shared: SymmetricOperator
) -> Explanation:
    """Solve definition 3: fix lambda2, solve the path of lambda1, choose one map, and certify it."""
    settings, method = surrogate.settings, surrogate.method
    proven = proven_top_eigenvalue(H) if settings.bound == "proven" else None
    solver = CasoSolver(
        gradient=build.unit_gradient,
        H=MeteredOperator(shared, settings.max_products, settings.progress),
        penalty=build.penalty,
        sparsity=build.sparsity,
        c1=settings.c1,
        lambda2=settings.lambda2,
        tolerance=settings.tolerance,
        seed=settings.seed,
        dtype=build.dtype,
        proven_top_eigenvalue=proven,
        notes=list(surrogate.notes),
    )
    solver.fix_lambda2()  # theorem 3: the objective is concave where lambda2 > L/2
    path = solver.choose(build.rule())  # section 4: the path of lambda1, the chosen map, its certificate
    if settings.certify == "path":
        path = solver.certify_path(path)
    rests_on: BoundBasis = "estimated" if proven is None else "proven"
    problem = solver.problem
    return build.explanation(
        path,
        [*solver.notes, *solver.shortfall(path.points if settings.certify == "path" else [path.chosen])],
        method=method,
        lambda2=problem.lambda2,
        certified=rests_on if path.chosen.certified_to(settings.tolerance) else False,
        products=solver.H.taken,
        curvature=H.kind,
        top_eigenvalue=solver.top,
        top_eigenvalue_bound=EigenvalueBound(2 * problem.lambda2 - problem.mu, rests_on),
        second_order=SecondOrder.of(method, *angle_without_penalty(problem, solver.basis)),
    )
