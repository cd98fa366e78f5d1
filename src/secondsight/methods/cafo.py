"""CAFO (definition 2): maximise g'D - lambda1 |D|_1 - lambda2 |D|^2. Closed form, exact, lambda2 = c1."""

from __future__ import annotations

from torch import Tensor

from secondsight.curvature.hessian import GaussNewton
from secondsight.curvature.linearisation import Linearisation
from secondsight.explanation import Explanation
from secondsight.methods.record import Scene
from secondsight.methods.settings import Settings
from secondsight.methods.smooth import smoothed
from secondsight.model import Classifier
from secondsight.solve.cafo import cafo_path


def cafo(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    linear = Linearisation(model, x[None], settings.target)
    return _explanation("cafo", Scene(model, linear, linear.gradient(last=True), settings))


def smooth_cafo(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    linear = Linearisation(model, x[None], settings.target)
    average, settings = smoothed(linear, GaussNewton, settings)
    return _explanation("smooth-cafo", Scene(model, linear, average.gradient, settings))


def _explanation(method: str, scene: Scene) -> Explanation:
    settings = scene.settings
    lambda2 = settings.c1 if settings.lambda2 is None else settings.lambda2
    choice = cafo_path(scene.unit_gradient, scene.penalty, lambda2, scene.rule(), scene.sparsity, scene.dtype)
    return scene.explanation(
        choice,
        lambda1_max=scene.penalty.lambda1_max(scene.unit_gradient),
        notes=[],
        method=method,
        lambda2=lambda2,
        certified="proven",
        products=0,
        curvature=None,
        top_eigenvalue=None,
        top_eigenvalue_bound=None,
        second_order=None,
    )
