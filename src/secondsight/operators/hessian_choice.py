"""Which Hessian stands for "auto", "gauss-newton" or "exact" at an input."""

from __future__ import annotations

from torch import Tensor

from secondsight.errors import FALLBACK, Caution, InputError
from secondsight.model.classifier import Classifier, Target
from secondsight.model.derivatives import NotDifferentiableError
from secondsight.model.diagnosis import custom_function, hides_curvature, is_piecewise_linear_graph
from secondsight.operators.exact_hessian import ExactHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.option_types import one_of

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
    double backward elsewhere; and Gauss-Newton with a note where torch cannot differentiate twice, or gives a second
    derivative that misses curvature. Each input is looked at by itself.
    """
    choice = one_of(*CHOICES)("curvature", choice)
    if choice == "gauss-newton":
        return GaussNewton, []
    word = linear.model.facts.piecewise_linear
    if linear.jacobian.constant or (word is not False and _is_known_piecewise_linear(linear)):
        # Torch takes detached values for constants, so the note speaks only of what torch differentiates.
        notes = ["the network is piecewise linear, as torch differentiates it: its exact Hessian is Gauss-Newton"]
        return GaussNewton, notes if choice == "exact" else []
    if word:
        notes = ["the network was declared piecewise linear: Gauss-Newton was taken for its exact Hessian"]
        return GaussNewton, notes if choice == "exact" else []
    if linear.jacobian.curvature_agrees():
        return ExactHessian, []
    return _by_double_backward(linear, choice)


def _is_known_piecewise_linear(linear: Linearisation) -> bool:
    """Whether the recorded operations, or those of autograd's graph, are all piecewise linear."""
    if linear.jacobian.shareable:
        return linear.jacobian.piecewise_linear
    return is_piecewise_linear_graph(*linear.jacobian.graph())


def _by_double_backward(linear: Linearisation, choice: str) -> tuple[type[LossHessian], list[str]]:
    """Choose the exact Hessian, or Gauss-Newton where torch has no second derivative or a wrong one."""
    try:
        ExactHessian(linear).require_second_derivative()
        function = _hiding_function(linear)
    except NotDifferentiableError as error:
        if choice == "exact":
            raise InputError("curvature", f"gauss-newton for this network (torch: {error})", "'exact'") from None
        note = "torch cannot differentiate this network twice: the Gauss-Newton matrix stands for the Hessian"
        return GaussNewton, [Caution(note, FALLBACK)]
    if function is None:
        return ExactHessian, []
    hidden = f"the backward of its function {function} hides its curvature from torch"
    if choice == "exact":
        raise InputError("curvature", f"gauss-newton for this network, because {hidden}", "'exact'")
    note = f"the Gauss-Newton matrix stands for the Hessian of this network, because {hidden}"
    return GaussNewton, [Caution(note, FALLBACK)]


def _hiding_function(linear: Linearisation) -> str | None:
    """Name a custom function of the network, if torch's second derivative misses some of its curvature here."""
    # A tape knows no custom functions.
    if linear.jacobian.shareable:
        return None
    function = custom_function(linear.jacobian.graph()[1])
    return function if function is not None and hides_curvature(linear.model, linear.x) else None
