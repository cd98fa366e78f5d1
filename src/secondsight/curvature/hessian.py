"""The Hessian of the loss in the input, as products: Gauss-Newton, and the true one where they differ."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from secondsight.curvature.linearisation import (
    Linearisation,
    NotDifferentiableError,
    derivatives,
    differentiable_gradient,
)
from secondsight.errors import InputError
from secondsight.model import Classifier, Target

CHOICES = ("auto", "gauss-newton", "exact")


class LossHessian:
    """All that a solver needs to know of a network at one input, whichever kind of H it is.

    gradient: g, float64, flat.
    product: the exact H times each *row* of a (k, d) matrix.
    semidefinite: whether H >= 0 is known (then Nystrom factors are lower bounds of H).
    """

    kind: str
    semidefinite: bool

    def __init__(self, linear: Linearisation) -> None:
        self.linear = linear

    @property
    def gradient(self) -> Tensor:
        return self.linear.gradient()

    def product(self, rows: Tensor) -> Tensor:
        return torch.stack([self.times(row) for row in rows])

    def times(self, v: Tensor) -> Tensor:
        raise NotImplementedError


class GaussNewton(LossHessian):
    """H = W (diag p - pp') W': one Jacobian-vector and one vector-Jacobian product. Always positive semidefinite.

    For a piecewise-linear network this *is* the Hessian (proposition 1).
    """

    kind = "gauss-newton"
    semidefinite = True

    def product(self, rows: Tensor) -> Tensor:
        linear = self.linear
        return linear.vjps(linear.covariance(linear.jvps(rows)))


class ExactHessian(LossHessian):
    """The true Hessian: Gauss-Newton plus the logits' curvature, sum_k (p - y)_k Hessian(f_k). May be indefinite."""

    kind = "exact"
    semidefinite = False

    def times(self, v: Tensor) -> Tensor:
        scale = float(v.abs().max())
        if self.linear.constant or scale == 0:
            return torch.zeros_like(v)
        curved, change = self.linear.double_backward(v / scale)
        return (curved + self.linear.vjp(self.linear.covariance(change))) * scale


def curvature_at(
    model: Classifier, x: Tensor, target: Target = None, choice: str = "auto"
) -> tuple[LossHessian, list[str]]:
    """The curvature of the loss at x, and what a reader should know about it."""
    return curvature_of(Linearisation(model, x[None], target, "tape"), choice)


def curvature_of(linear: Linearisation, choice: str = "auto") -> tuple[LossHessian, list[str]]:
    kind, notes = kind_of_curvature(linear, choice)
    return kind(linear), notes


def kind_of_curvature(linear: Linearisation, choice: str = "auto") -> tuple[type[LossHessian], list[str]]:
    """Which Hessian stands for `choice` at this input, and what a reader should know about it.

    `auto` is the true Hessian: Gauss-Newton where the network is piecewise linear (there they are equal), double
    backward elsewhere, and Gauss-Newton with a note where torch cannot differentiate twice.
    """
    if choice not in CHOICES:
        raise InputError("curvature", f"one of {', '.join(CHOICES)}", repr(choice))
    if choice == "gauss-newton":
        return GaussNewton, []
    # All steps of a tape are piecewise linear.
    known = linear.tape is not None and linear.model.piecewise_linear is None
    if linear.constant or known or is_piecewise_linear(linear.model, linear.x.detach()[0]):
        notes = ["the network is piecewise linear: its exact Hessian is Gauss-Newton"] if choice == "exact" else []
        return GaussNewton, notes
    try:
        with derivatives():
            linear.double_backward(torch.zeros_like(linear.x[0]))
    except NotDifferentiableError as error:
        if choice == "exact":
            raise InputError("curvature", f"gauss-newton for this network (torch: {error})", "'exact'") from None
        note = "torch cannot differentiate this network twice: the Gauss-Newton matrix stands for the Hessian"
        return GaussNewton, [note]
    return ExactHessian, []


def is_piecewise_linear(model: Classifier, x: Tensor) -> bool:
    """Whether the second derivative of the logits vanishes at x and at a noisy x. Found out once per model."""
    if model.piecewise_linear is None:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(x.shape, generator=generator).to(x) * 0.1
        model.piecewise_linear = all(_is_flat(model, point) for point in (x, x + noise))
    return model.piecewise_linear


def _is_flat(model: Classifier, x: Tensor) -> bool:
    x = x[None].detach().clone().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    with suppress(NotDifferentiableError), derivatives():
        logits = model.logits(x)
        # Weights that require a gradient, or once-differentiable functions would leave no trace in the graph.
        weights = torch.randn(logits.shape, generator=generator).to(logits).requires_grad_()
        slope = differentiable_gradient(logits, x, weights)
        direction = torch.randn(x.shape, generator=generator).to(x)
        (curved,) = torch.autograd.grad(slope, x, direction, materialize_grads=True)
        return not bool(curved.any())
    return False
