"""Where a map comes from, on one screen.

    input -> g, H -> lambda2 -> path of lambda1 -> choice -> certificate -> Explanation

The methods differ in the first step only: CAFO has no H, the smooth methods average g and H over noisy copies. Batches
take the same way; there `share` lets the operators of several inputs meet (batching/), so that one pass answers all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from secondsight.baselines import BASELINES, baseline
from secondsight.config import Settings
from secondsight.model.classifier import Classifier
from secondsight.operators.averaged import AveragedHessian
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.full_factor import proven_top_eigenvalue
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import hessian_of, kind_of_hessian
from secondsight.operators.linearisation import Linearisation, linearise, linearise_each
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.noise import Noise, deviation_of, fitting_batch_size
from secondsight.operators.tape.folding import FoldedWeights
from secondsight.optim.cafo import cafo_solver
from secondsight.optim.caso import CasoSolver
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.second_order_angle import angle_without_penalty
from secondsight.results.builder import ExplanationBuilder
from secondsight.results.explanation import Basis, EigenvalueBound, Explanation, SecondOrder


@dataclass(frozen=True)
class Surrogate:
    """The loss around one input, g'D + 1/2 D'HD, and what was asked of it. CAFO has no H (section 2)."""

    method: str
    linear: Linearisation
    g: Tensor
    H: LossHessian | None
    settings: Settings
    notes: list[str] = field(default_factory=list)


def explain_one(model: Classifier, x: Tensor, method: str, settings: Settings) -> Explanation:
    """Explain one input, without batch dimension. For use inside `model.ready()`."""
    if method in TAKES_COPIES and settings.batch_size is None:
        settings = replace(settings, batch_size=fitting_batch_size(model, x, settings.n))
    if method in BASELINES:
        return baseline(method, model, x, settings)
    return maximise(SURROGATES[method](model, x, settings))


def cafo(model: Classifier, x: Tensor, settings: Settings) -> Surrogate:
    """First order (definition 2): the gradient."""
    linear = linearise(model, x[None], settings.target)
    return Surrogate("cafo", linear, linear.gradient(last=True), None, settings)


def caso(model: Classifier, x: Tensor, settings: Settings) -> Surrogate:
    """Second order (definition 3): the gradient, and the Hessian by its products."""
    return _second_order(linearise(model, x[None], settings.target, record=True), settings)


def caso_of_each(
    model: Classifier, inputs: Sequence[Tensor], settings: Sequence[Settings], folded: FoldedWeights
) -> list[Surrogate]:
    """CASO's surrogates of several inputs, from one pass of the network."""
    linears = linearise_each(model, inputs, [own.target for own in settings], folded)
    return [_second_order(linear, own) for linear, own in zip(linears, settings, strict=True)]


def smooth_cafo(model: Classifier, x: Tensor, settings: Settings) -> Surrogate:
    """First order, averaged over noisy copies (definition 4)."""
    linear = linearise(model, x[None], settings.target)
    average = AveragedHessian(linear, GaussNewton, _noise(x, settings), record=False)
    return Surrogate("smooth-cafo", linear, average.gradient, None, settings)


def smooth_caso(model: Classifier, x: Tensor, settings: Settings) -> Surrogate:
    """Second order, averaged over noisy copies (definition 4)."""
    linear = linearise(model, x[None], settings.target, record=True)
    kind, notes = kind_of_hessian(linear, settings.curvature)
    average = AveragedHessian(linear, kind, _noise(x, settings))
    return Surrogate("smooth-caso", linear, average.gradient, average, settings, notes)


SURROGATES: dict[str, Callable[[Classifier, Tensor, Settings], Surrogate]] = {
    "cafo": cafo,
    "caso": caso,
    "smooth-cafo": smooth_cafo,
    "smooth-caso": smooth_caso,
}
"""The methods with a penalty, a path and a certificate."""

BATCHED = {"caso": caso_of_each}
"""The methods whose inputs are explained side by side, with the function that makes the surrogates of several."""

METHODS = (*BASELINES, *SURROGATES)
"""All methods, in the order that users see them."""

TAKES_COPIES = ("smoothgrad", "integrated-gradients", "smooth-cafo", "smooth-caso")
"""The methods that run the network at several copies of an input, some at a time."""


def maximise(
    surrogate: Surrogate, share: Callable[[LossHessian], SymmetricOperator] = lambda hessian: hessian
) -> Explanation:
    """Maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2 along lambda1, choose one map, and certify it."""
    build = ExplanationBuilder(surrogate.linear, surrogate.g, surrogate.settings)
    if surrogate.H is None:
        return _without_curvature(build, surrogate)
    return _with_curvature(build, surrogate, surrogate.H, share(surrogate.H))


def _without_curvature(build: ExplanationBuilder, surrogate: Surrogate) -> Explanation:
    """Section 3: a soft threshold at each lambda1. It is exact, so the certificate is a gap of zero."""
    settings, g, penalty = surrogate.settings, build.unit_gradient, build.penalty
    lambda2 = settings.c1 if settings.lambda2 is None else settings.lambda2
    solve = cafo_solver(g, penalty, lambda2, build.sparsity, build.dtype)
    path = build.rule().choose(solve, penalty.lambda1_max(g))
    return build.explanation(path, [], method=surrogate.method, lambda2=lambda2, certified="proven", products=0)


def _with_curvature(
    build: ExplanationBuilder, surrogate: Surrogate, H: LossHessian, shared: SymmetricOperator
) -> Explanation:
    """Sections 3 and 4.1: Newton on a growing basis of products, the choice of lambda1, and the certificate."""
    settings, method = surrogate.settings, surrogate.method
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
        top_eigenvalue=proven_top_eigenvalue(H) if settings.bound == "proven" else None,
        notes=surrogate.notes,
    )
    solver.fix_lambda2()  # theorem 3: concave where lambda2 > L/2
    path = solver.choose(build.rule())  # the path of lambda1, the chosen map, its certificate
    if settings.certify == "path":
        path = solver.certify_path(path)
    basis: Basis = "proven" if settings.bound == "proven" else "estimated"
    problem = solver.problem
    return build.explanation(
        path,
        [*solver.notes, *solver.shortfall(path.points if settings.certify == "path" else (path.chosen,))],
        method=method,
        lambda2=problem.lambda2,
        certified=basis if path.chosen.certified_to(settings.tolerance) else False,
        products=solver.H.taken,
        curvature=H.kind,
        top_eigenvalue=solver.top,
        top_eigenvalue_bound=EigenvalueBound(2 * problem.lambda2 - problem.mu, basis),
        second_order=SecondOrder.of(method, *angle_without_penalty(problem, solver.basis)),
    )


def _second_order(linear: Linearisation, settings: Settings) -> Surrogate:
    H, notes = hessian_of(linear, settings.curvature)
    return Surrogate("caso", linear, linear.gradient(), H, settings, notes)


def _noise(x: Tensor, settings: Settings) -> Noise:
    assert settings.batch_size is not None
    return Noise(settings.n, deviation_of(x, settings.sigma), settings.seed, settings.batch_size)
