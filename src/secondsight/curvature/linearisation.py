"""The network around one input: its logits, probabilities and loss gradient, and its first-order products.

All vectors that leave this file are float64; whatever passes through the network is scaled to unit size and rounded to
the network's precision, so that neither tiny nor huge vectors are lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from secondsight.errors import ModelError
from secondsight.model import Classifier, Target

NOT_DIFFERENTIABLE = (RuntimeError, NotImplementedError)
"""What torch raises where an operation lacks forward mode or a second derivative."""


class Linearisation:
    """Logits f, probabilities p and loss gradient g = W(p - y) of a network at one input x, W = d x c Jacobian of f.

    To be made and used inside `model.ready()`. One forward graph is kept for all vector-Jacobian products.
    """

    def __init__(self, model: Classifier, x: Tensor, target: Target = None) -> None:
        self.model = model
        self.x = x[None].detach().clone().requires_grad_()
        is_new = not model.checked
        self.logits = model.logits(self.x)
        model.check_logits(self.logits)
        if is_new:
            _refuse_randomness(model, self.x.detach(), self.logits.detach())
        self.constant = not self.logits.requires_grad
        if self.constant:
            _refuse_hidden_dependence(model, self.x.detach())
        # Float64 on the CPU: c numbers, and some devices have no float64.
        logits = self.logits.detach()[0].cpu().double()
        self.classes = len(logits)
        self.probabilities = logits.softmax(0)
        self.prediction = int(logits.argmax())
        self.target = self.prediction if target is None else model.target_index(target, self.classes)
        self.device = solver_device(self.x.device)
        self.size = self.x.numel()
        self.notes: list[str] = []
        self._gradient_graph: tuple[Tensor, Tensor, float] | None = None
        self._jacobian: Tensor | None = None
        self._jvp: Callable[[Tensor], Tensor] = self._forward_mode

    def loss_cotangent(self) -> Tensor:
        """p - y, its entry at the target as minus the sum of the others: 1 - p_y would lose every digit as p_y -> 1."""
        cotangent = self.probabilities.clone()
        cotangent[self.target] = 0
        cotangent[self.target] = -cotangent.sum()
        return cotangent

    def covariance(self, t: Tensor) -> Tensor:
        """(diag p - pp') t, with t_y subtracted first for the same reason."""
        p = self.probabilities
        t = t - t[self.target]
        return p * (t - p @ t)

    def gradient(self) -> Tensor:
        try:
            return self.vjp(self.loss_cotangent())
        except NOT_DIFFERENTIABLE as error:
            reason = str(error).splitlines()[0]
            raise ModelError(f"torch cannot differentiate this network: {reason}") from error

    def vjp(self, cotangent: Tensor) -> Tensor:
        """W u for a vector u of class weights."""
        scale = float(cotangent.abs().max())
        if self.constant or scale == 0:
            return torch.zeros(self.size, dtype=torch.float64, device=self.device)
        unit = (cotangent / scale).to(self.logits.dtype).to(self.logits.device)
        (product,) = torch.autograd.grad(self.logits, self.x, unit[None], retain_graph=True, materialize_grads=True)
        return self._out(product) * scale

    def jvp(self, v: Tensor) -> Tensor:
        """W'v for an input direction v: the change of the logits along v."""
        scale = float(v.abs().max())
        if self.constant or scale == 0:
            return torch.zeros(self.classes, dtype=torch.float64)
        return self._jvp((v / scale).to(self.x.dtype).to(self.x.device).reshape(self.x.shape)) * scale

    def _forward_mode(self, v: Tensor) -> Tensor:
        try:
            with torch.no_grad(), forward_ad.dual_level():
                dual = self.model.logits(forward_ad.make_dual(self.x.detach(), v))
                tangent = forward_ad.unpack_dual(dual).tangent
                change = torch.zeros_like(dual) if tangent is None else tangent
                return change[0].cpu().double()
        except NOT_DIFFERENTIABLE:
            self._jvp = self._double_backward
            return self._jvp(v)

    def _double_backward(self, v: Tensor) -> Tensor:
        # u -> W u is linear; its own transpose is W'.
        try:
            slope, cotangent, _ = self._graph_of_gradient()
            (change,) = torch.autograd.grad(slope, cotangent, v, retain_graph=True, materialize_grads=True)
            return change[0].cpu().double()
        except NOT_DIFFERENTIABLE:
            self.notes.append(
                "torch has neither forward mode nor a second derivative for this network: "
                f"its whole Jacobian was computed, one row for each of the {self.classes} classes"
            )
            self._jvp = self._dense
            return self._jvp(v)

    def _dense(self, v: Tensor) -> Tensor:
        if self._jacobian is None:
            self._jacobian = self.jacobian()
        return (self._jacobian @ v.reshape(-1).to(self._jacobian)).cpu()

    def double_backward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """(Hessian of (p - y)'f) v with p fixed, and W'v, from one backward pass through the gradient."""
        slope, cotangent, scale = self._graph_of_gradient()
        curved, change = torch.autograd.grad(slope, (self.x, cotangent), v, retain_graph=True, materialize_grads=True)
        return self._out(curved) * scale, change[0].cpu().double()

    def _graph_of_gradient(self) -> tuple[Tensor, Tensor, float]:
        """W u as a function of x and u at u = p - y, that u, and the scale both were divided by."""
        if self._gradient_graph is None:
            cotangent = self.loss_cotangent()
            scale = float(cotangent.abs().max()) or 1.0
            unit = (cotangent / scale).to(self.logits.dtype).to(self.logits.device)[None].requires_grad_()
            self._gradient_graph = differentiable_gradient(self.logits, self.x, unit), unit, scale
        return self._gradient_graph

    def jacobian(self) -> Tensor:
        """W' as a dense (classes, inputs) float64 matrix: one backward pass per class."""
        rows = torch.empty(self.classes, self.size, dtype=torch.float64, device=self.device)
        for k in range(self.classes):
            rows[k] = self.vjp(one_hot(k, self.classes))
        return rows

    def factor_column(self, k: int) -> Tensor:
        """sqrt(p_k) grad log p_k: column k of B, H = BB' (MATHS of appendix C without a Cholesky factor)."""
        cotangent = -self.probabilities
        cotangent[k] = 0
        cotangent[k] = -cotangent.sum()
        return self.vjp(cotangent) * float(self.probabilities[k].sqrt())

    def _out(self, product: Tensor) -> Tensor:
        return product.reshape(-1).to(self.device).double()


def differentiable_gradient(logits: Tensor, x: Tensor, cotangent: Tensor) -> Tensor:
    """W u with a graph of its own. Raises RuntimeError where the graph is cut.

    Functions marked once-differentiable leave an error node with nothing behind it; autograd walks round it and returns
    zeros for whatever it would have led to.
    """
    (slope,) = torch.autograd.grad(logits, x, cotangent, create_graph=True, materialize_grads=True)
    seen, pending = set(), [slope.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        if "Error" in node.name() or "NotImplemented" in node.name():
            raise RuntimeError(f"cannot differentiate twice through {node.name()}")
        seen.add(node)
        pending.extend(function for function, _ in node.next_functions)
    return slope


def one_hot(k: int, classes: int) -> Tensor:
    vector = torch.zeros(classes, dtype=torch.float64)
    vector[k] = 1
    return vector


def solver_device(device: torch.device) -> torch.device:
    """Where float64 vectors live: beside the network if its device has float64, else on the CPU."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.device("cpu")
    return device


def _refuse_randomness(model: Classifier, x: Tensor, logits: Tensor) -> None:
    with torch.no_grad():
        if not torch.allclose(model.logits(x), logits, rtol=1e-3, atol=1e-4):
            model.checked = False
            raise ModelError(
                "two passes over the same input gave different logits, though the network is in eval mode: "
                "it draws random numbers (dropout that ignores the mode?)"
            )


def _refuse_hidden_dependence(model: Classifier, x: Tensor) -> None:
    with torch.no_grad():
        moved = model.logits(x + 0.1 * torch.ones_like(x).cumsum(-1).sin())
        if not torch.equal(moved, model.logits(x)):
            raise ModelError(
                "the logits change with the input, but no gradient connects them: "
                "the network cuts its graph (detach, no_grad, numpy or rounding inside)"
            )
