"""The network around an input: its logits, probabilities and loss gradient, and its first-order products.

All vectors that leave this file are float64; whatever passes through the network is scaled to unit size and rounded to
the network's precision, so that neither tiny nor huge vectors are lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

from secondsight.curvature.folding import Folding
from secondsight.curvature.tape import Tape, record, split
from secondsight.errors import ModelError
from secondsight.model import Classifier, Target

Way = Literal["tape", "forward mode", "double backward", "row by row"]


class NotDifferentiableError(Exception):
    """torch lacks the derivative that was asked for; says in one line which."""


@contextmanager
def derivatives() -> Iterator[None]:
    """Tell apart what torch cannot differentiate from what it has no memory for."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise NotDifferentiableError(str(error).splitlines()[0]) from error


class Linearisation:
    """A network at one input, or at several whose losses are averaged: logits f, probabilities p and products with W.

    W is the d x c Jacobian of the logits at one input. Tensors of class weights have one row for each input; vectors of
    inputs are averages over them. To be made and used inside `model.ready()`. One forward graph, or a tape in place of
    it, is kept for all vector-Jacobian products.

    Args:
        x: the inputs, with batch dimension.
        target: the class whose loss is meant; None: the predicted one of the first input.
        way: how to get Jacobian-vector products; falls back to the next one by itself. A tape is for those who take
            several products: for one gradient, a graph costs less.
        tape: the network's at x, if it was recorded before.
    """

    def __init__(
        self,
        model: Classifier,
        x: Tensor,
        target: Target = None,
        way: Way = "forward mode",
        tape: Tape | None = None,
    ) -> None:
        self.model = model
        self.x = x.detach().clone().requires_grad_()
        is_new = not model.checked
        self._graph: Tensor | None = None
        self.tape = self._recorded() if way == "tape" and tape is None else tape
        self.logits = self._graph_of_logits() if self.tape is None else self.tape.logits
        model.check_logits(self.logits)
        if is_new:
            _refuse_randomness(model, self.x.detach(), self.logits.detach())
        if self.tape is not None and not self._is_trusted(self.tape):
            self.tape, self.logits = None, self._graph_of_logits()
        self.constant = self.tape is None and not self.logits.requires_grad
        if self.constant:
            _refuse_hidden_dependence(model, self.x.detach())
        # Float64 on the CPU: c numbers, and some devices have no float64.
        logits = self.logits.detach().cpu().double()
        self.classes = logits.shape[1]
        self.probabilities = logits.softmax(1)
        self.target = int(logits[0].argmax()) if target is None else model.target_index(target, self.classes)
        self.device = solver_device(self.x.device)
        self.size = self.x[0].numel()
        self.notes: list[str] = []
        self.way: Way = "forward mode" if way == "tape" and self.tape is None else way
        self._gradient: Tensor | None = None
        self._gradient_graph: tuple[Tensor, Tensor, float] | None = None
        self._jacobian: Tensor | None = None

    def _recorded(self) -> Tape | None:
        """The network's tape at x. One that leaves none is not tried again."""
        if self.model.tapes is None:
            return None
        tape = record(self.model, self.x.detach())
        if tape is None:
            self.model.tapes = None
        return tape

    def _is_trusted(self, tape: Tape) -> bool:
        """Whether tapes of this signature agree with torch's own derivatives. Found out once per model."""
        trusted = self.model.tapes or frozenset()
        if tape.signature not in trusted:
            self.model.tapes = trusted | {tape.signature} if self._agrees(tape) else None
        return self.model.tapes is not None

    def _agrees(self, tape: Tape) -> bool:
        generator = torch.Generator().manual_seed(0)
        u, v = (torch.randn(like.shape, generator=generator).to(like) for like in (self.logits, self.x.detach()))
        try:
            with derivatives():
                found, change = tape.transpose(u[None])[0], tape.forward(v[None])[0]
                slopes = torch.autograd.grad(self.model.logits(self.x), self.x, u, materialize_grads=True)[0]
        except NotDifferentiableError:
            return False
        tolerance = 1e-8 if self.x.dtype == torch.float64 else 1e-3
        u, v, found, change, slopes = (tensor.cpu().double() for tensor in (u, v, found, change, slopes))
        # Forward mode would cost seconds at its first use. For random u and v, <u, W'v> = <Wu, v> says as much.
        error = (u * change).sum() - (slopes * v).sum()
        is_transpose = float(error.abs()) <= tolerance * float(change.norm())
        return is_transpose and float((found - slopes).norm()) <= tolerance * float(slopes.norm())

    def _graph_of_logits(self) -> Tensor:
        """The logits with autograd's graph, which a network with a tape only needs to be differentiated twice."""
        if self._graph is None:
            self._graph = self.model.logits(self.x)
        return self._graph

    def loss_cotangent(self) -> Tensor:
        """p - y, its entry at the target as minus the sum of the others: 1 - p_y would lose every digit as p_y -> 1."""
        cotangent = self.probabilities.clone()
        cotangent[:, self.target] = 0
        cotangent[:, self.target] = -cotangent.sum(1)
        return cotangent

    def covariance(self, t: Tensor) -> Tensor:
        """(diag p - pp') t, with t_y subtracted first for the same reason."""
        p = self.probabilities
        t = t - t[..., self.target, None]
        return p * (t - (p * t).sum(-1, keepdim=True))

    def gradient(self, last: bool = False) -> Tensor:
        """g = W (p - y). The last product that will be asked for frees the graph on its way."""
        if self._gradient is None:
            try:
                with derivatives():
                    self._gradient = self.vjp(self.loss_cotangent(), last)
            except NotDifferentiableError as error:
                raise ModelError(f"torch cannot differentiate this network: {error}") from error
        return self._gradient

    def vjp(self, cotangent: Tensor, last: bool = False) -> Tensor:
        """W u for class weights u."""
        if self.tape is not None:
            return self.vjps(cotangent[None])[0]
        scale = float(cotangent.abs().max())
        if self.constant or scale == 0:
            return torch.zeros(self.size, dtype=torch.float64, device=self.device)
        unit = (cotangent / scale).to(self.logits.dtype).to(self.logits.device)
        (product,) = torch.autograd.grad(self.logits, self.x, unit, retain_graph=not last, materialize_grads=True)
        return self._out(product) * scale

    def vjps(self, cotangents: Tensor) -> Tensor:
        """W u for each of several class weights u, (k, inputs, classes): as many at a time as is fast."""
        if self.tape is None:
            return torch.stack([self.vjp(cotangent) for cotangent in cotangents])
        scales, products = sizes_of(cotangents), []
        for units in (cotangents / scales[:, None, None]).split(self.tape.directions):
            product = self.tape.transpose(units.to(self.logits.dtype).to(self.logits.device))
            products.append(product.flatten(2).to(self.device).double().mean(1))
        return torch.cat(products) * scales.to(self.device)[:, None]

    def jvp(self, v: Tensor) -> Tensor:
        """W'v for an input direction v: the change of the logits along v."""
        if self.tape is not None:
            return self.jvps(v[None])[0]
        scale = float(v.abs().max())
        if self.constant or scale == 0:
            return torch.zeros_like(self.probabilities)
        unit = self._in(v / scale)
        if self.way == "forward mode":
            with suppress(NotDifferentiableError), derivatives():
                return self._forward_mode(unit) * scale
            self.way = "double backward"
        if self.way == "double backward":
            with suppress(NotDifferentiableError), derivatives():
                return self._double_backward(unit) * scale
            self.way = "row by row"
        return self._row_by_row(unit) * scale

    def jvps(self, rows: Tensor) -> Tensor:
        """W'v for each row v, (k, inputs, classes)."""
        if self.tape is None:
            return torch.stack([self.jvp(row) for row in rows])
        scales, changes = sizes_of(rows), []
        for units in (rows / scales[:, None]).split(self.tape.directions):
            unit = units.to(self.x.dtype).to(self.x.device).reshape(-1, 1, *self.x.shape[1:])
            changes.append(self.tape.forward(unit).cpu().double())
        return torch.cat(changes) * scales.cpu()[:, None, None]

    def _forward_mode(self, v: Tensor) -> Tensor:
        with torch.no_grad(), forward_ad.dual_level():
            dual = self.model.logits(forward_ad.make_dual(self.x.detach(), v))
            tangent = forward_ad.unpack_dual(dual).tangent
            change = torch.zeros_like(dual) if tangent is None else tangent
            return change.cpu().double()

    def _double_backward(self, v: Tensor) -> Tensor:
        # u -> W u is linear; its own transpose is W'.
        slope, cotangent, _ = self._graph_of_gradient()
        (change,) = torch.autograd.grad(slope, cotangent, v, retain_graph=True, materialize_grads=True)
        return change.cpu().double()

    def _row_by_row(self, v: Tensor) -> Tensor:
        note = (
            "torch has neither forward mode nor a second derivative for this network: its whole Jacobian was computed, "
            f"one backward pass for each of the {self.classes} classes"
        )
        if note not in self.notes:
            self.notes.append(note)
        if len(self.x) > 1:
            # The Jacobians of many inputs would fill the memory: they are used and forgotten.
            slopes = (self._slopes(k) for k in range(self.classes))
            return torch.stack([(slope * v).flatten(1).sum(1).cpu().double() for slope in slopes], dim=1)
        if self._jacobian is None:
            self._jacobian = torch.cat([self._out(self._slopes(k))[None] for k in range(self.classes)])
        return (self._jacobian @ self._out(v)).cpu()[None]

    def _slopes(self, k: int) -> Tensor:
        """The gradient of logit k at each input."""
        unit = torch.zeros_like(self.logits)
        unit[:, k] = 1
        return torch.autograd.grad(self.logits, self.x, unit, retain_graph=True, materialize_grads=True)[0]

    def double_backward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """(Hessian of (p - y)'f) v with p fixed, and W'v, from one backward pass through the gradient."""
        slope, cotangent, scale = self._graph_of_gradient()
        curved, change = torch.autograd.grad(
            slope, (self.x, cotangent), self._in(v), retain_graph=True, materialize_grads=True
        )
        return self._out(curved) * scale, change.cpu().double()

    def _graph_of_gradient(self) -> tuple[Tensor, Tensor, float]:
        """W u as a function of x and u at u = p - y, that u, and the scale both were divided by."""
        if self._gradient_graph is None:
            cotangent = self.loss_cotangent()
            scale = float(cotangent.abs().max()) or 1.0
            unit = (cotangent / scale).to(self.logits.dtype).to(self.logits.device).requires_grad_()
            self._gradient_graph = differentiable_gradient(self._graph_of_logits(), self.x, unit), unit, scale
        return self._gradient_graph

    def factor_columns(self, first: int, count: int) -> Tensor:
        """Columns of B, H = BB', as rows: column k is sqrt(p_k) grad log p_k at a single input (appendix C without a
        Cholesky factor).
        """
        chosen = torch.arange(first, min(first + count, self.classes))
        cotangents = -self.probabilities.expand(len(chosen), 1, self.classes).clone()
        own = torch.arange(len(chosen)), 0, chosen
        cotangents[own] = 0
        cotangents[own] = -cotangents.sum(2)[:, 0]
        return self.vjps(cotangents) * self.probabilities[0, chosen].sqrt().to(self.device)[:, None]

    @property
    def nbytes(self) -> int:
        """What is kept of the inputs and of the network at them, where it leaves a tape."""
        return self.x.nbytes + (0 if self.tape is None else self.tape.nbytes)

    def _in(self, v: Tensor) -> Tensor:
        """A direction of the input, the same for every input."""
        return v.to(self.x.dtype).to(self.x.device).reshape(self.x.shape[1:]).expand_as(self.x)

    def _out(self, product: Tensor) -> Tensor:
        return product.flatten(1).to(self.device).double().mean(0)


def at_each(
    model: Classifier, inputs: Sequence[Tensor], targets: Sequence[Target], folding: Folding | None = None
) -> list[Linearisation]:
    """A network at each of several inputs by itself.

    folding: for those who share their weights with others. They are recorded in one pass, where they leave tapes.
    """
    whole = None
    if folding is not None and model.tapes is not None and len({x.shape for x in inputs}) == 1:
        whole = record(model, torch.stack(list(inputs)), apart=True)
    if whole is not None and folding is not None:
        whole = folding.folded(whole)
    tapes: Sequence[Tape | None] = [None] * len(inputs) if whole is None else split(whole)
    linears = [
        Linearisation(model, x[None], target, "tape", tape)
        for x, target, tape in zip(inputs, targets, tapes, strict=True)
    ]
    if whole is not None and model.tapes is not None:
        cotangents = torch.cat([linear.loss_cotangent() for linear in linears])
        for linear, gradient in zip(linears, vjp_of_each(whole, cotangents, linears[0].device), strict=True):
            linear._gradient = gradient
    return linears


def vjp_of_each(tape: Tape, cotangents: Tensor, device: torch.device) -> Tensor:
    """W u at each input of a tape for its own class weights u, in one pass."""
    sizes = sizes_of(cotangents)
    units = (cotangents / sizes[:, None]).to(tape.logits.dtype).to(tape.logits.device)
    return tape.transpose(units[None])[0].flatten(1).to(device).double() * sizes.to(device)[:, None]


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


def sizes_of(vectors: Tensor) -> Tensor:
    """The largest entry of each, or one for zeros."""
    scales = vectors.flatten(1).abs().amax(1)
    return torch.where(scales > 0, scales, 1)
