"""Which Hessian stands for "auto", "gauss-newton" or "exact" at an input."""

from __future__ import annotations

from torch import Tensor

from secondsight.errors import FALLBACK, Caution, InputError
from secondsight.model.classifier import Classifier, Target
from secondsight.model.derivatives import NotDifferentiableError
from secondsight.model.diagnosis import is_piecewise_linear
from secondsight.operators.exact_hessian import ExactHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.loss_hessian import LossHessian

CHOICES = ("auto", "gauss-newton", "exact")
"""What a user may ask for."""


def hessian_at(
    model: Classifier, x: Tensor, target: Target = None, choice: str = "auto"
) -> tuple[LossHessian, list[str]]:
    """Make the Hessian of the loss at x (without batch dimension), and notes for the reader of a result."""
    linear = linearise(model, x[None], target, record=True)
    hessian_class, notes = choose_hessian(linear, choice)
    return hessian_class(linear), notes


def choose_hessian(linear: Linearisation, choice: str = "auto") -> tuple[type[LossHessian], list[str]]:
    """Choose the class of the Hessian, and notes for the reader of a result.

    "auto" is the true Hessian: Gauss-Newton where the network is piecewise linear, because there they are equal;
    double backward elsewhere; and Gauss-Newton with a note where torch cannot differentiate twice.
    """
    if choice not in CHOICES:
        raise InputError("curvature", f"one of {', '.join(CHOICES)}", repr(choice))
    if choice == "gauss-newton":
        return GaussNewton, []
    if _equals_gauss_newton(linear):
        notes = ["the network is piecewise linear: its exact Hessian is Gauss-Newton"] if choice == "exact" else []
        return GaussNewton, notes
    try:
        ExactHessian(linear).require_second_derivative()
    except NotDifferentiableError as error:
        if choice == "exact":
            raise InputError("curvature", f"gauss-newton for this network (torch: {error})", "'exact'") from None
        note = "torch cannot differentiate this network twice: the Gauss-Newton matrix stands for the Hessian"
        return GaussNewton, [Caution(note, FALLBACK)]
    return ExactHessian, []


def _equals_gauss_newton(linear: Linearisation) -> bool:
    jacobian, model = linear.jacobian, linear.model
    # The user's word, if it was given, counts more than the Jacobian's.
    known = jacobian.piecewise_linear and model.facts.piecewise_linear is None
    return jacobian.constant or known or is_piecewise_linear(model, linear.x[0])
