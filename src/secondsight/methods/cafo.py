"""CAFO (definition 2): maximise g'D - lambda1 |D|_1 - lambda2 |D|^2. Closed form, exact, lambda2 = c1."""

from __future__ import annotations

from torch import Tensor

from secondsight.curvature.linearisation import Linearisation
from secondsight.explanation import Explanation
from secondsight.methods.record import Scene
from secondsight.methods.settings import Settings
from secondsight.model import Classifier
from secondsight.solve.cafo import cafo_path


def cafo(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    linear = Linearisation(model, x, settings.target)
    scene = Scene(model, linear, linear.gradient(), settings)
    lambda2 = settings.c1 if settings.lambda2 is None else settings.lambda2
    choice = cafo_path(scene.unit_gradient, lambda2, settings.rule(scene.unit), scene.sparsity, scene.dtype)
    return scene.explanation(
        choice,
        lambda1_max=float(scene.unit_gradient.abs().max()),
        notes=[],
        method="cafo",
        lambda2=lambda2,
        certified="proven",
        products=0,
        curvature=None,
        top_eigenvalue=None,
        top_eigenvalue_bound=None,
        second_order=None,
    )
