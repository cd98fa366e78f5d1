"""CASO (definition 3): maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2, lambda2 = L/2 + c1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from secondsight.curvature.folding import Folding
from secondsight.curvature.hessian import LossHessian, curvature_of, kind_of_curvature
from secondsight.curvature.linearisation import Linearisation, at_each
from secondsight.curvature.spectrum import proven_top_eigenvalue
from secondsight.explanation import EigenvalueBound, Explanation, SecondOrder
from secondsight.methods.record import Scene
from secondsight.methods.settings import Settings
from secondsight.methods.smooth import smoothed
from secondsight.methods.together import Task
from secondsight.model import Classifier
from secondsight.solve.asking import Asking, Budget
from secondsight.solve.caso import CasoSolver, Demands


def caso(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    return caso_tasks(model, [x], [settings])[0].finish()


def caso_tasks(
    model: Classifier, inputs: Sequence[Tensor], settings: Sequence[Settings], folding: Folding | None = None
) -> list[Task]:
    linears = at_each(model, inputs, [own.target for own in settings], folding)
    return [_task(model, linear, own) for linear, own in zip(linears, settings, strict=True)]


def _task(model: Classifier, linear: Linearisation, settings: Settings) -> Task:
    curvature, notes = curvature_of(linear, settings.curvature)
    budget = Budget(settings.max_products, settings.progress)
    return Task(curvature, _asking("caso", model, curvature, budget, settings, notes))


def smooth_caso(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    linear = Linearisation(model, x[None], settings.target, "tape")
    kind, notes = kind_of_curvature(linear, settings.curvature)
    average, settings = smoothed(linear, kind, settings)
    budget = Budget(settings.max_products, settings.progress)
    if settings.progress is not None:
        report = settings.progress
        average.progress = lambda done: report(budget.taken + done)
    return Task(average, _asking("smooth-caso", model, average, budget, settings, notes)).finish()


def _asking(
    method: str, model: Classifier, curvature: LossHessian, budget: Budget, settings: Settings, notes: list[str]
) -> Asking[Explanation]:
    scene = Scene(model, curvature.linear, curvature.gradient, settings)
    proven = settings.bound == "proven"
    solver = CasoSolver(
        scene.unit_gradient,
        budget,
        curvature.semidefinite,
        scene.sparsity,
        Demands(
            rule=scene.rule(),
            c1=settings.c1,
            lambda2=settings.lambda2,
            tolerance=settings.tolerance,
            certify=settings.certify,
            seed=settings.seed,
            dtype=scene.dtype,
            top_eigenvalue=proven_top_eigenvalue(curvature) if proven else None,
        ),
        scene.penalty,
        notes=notes,
    )
    solution = yield from solver.solve()
    certificate = solution.choice.point.certificate
    good = certificate is not None and certificate.relative_gap <= settings.tolerance
    basis: Literal["estimated", "proven"] = "proven" if proven else "estimated"
    problem = solution.problem
    return scene.explanation(
        solution.choice,
        lambda1_max=solution.lambda1_max,
        notes=list(solution.notes),
        method=method,
        lambda2=problem.lambda2,
        certified=basis if good else False,
        products=solution.products,
        curvature=curvature.kind,
        top_eigenvalue=solution.top_eigenvalue,
        top_eigenvalue_bound=EigenvalueBound(2 * problem.lambda2 - problem.mu, basis),
        second_order=SecondOrder.of(method, solution.angle, solution.angle_error),
    )
