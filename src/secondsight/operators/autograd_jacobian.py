"""The Jacobian of any network by autograd: backwards through a kept graph, forwards in the first way that torch has."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor
from torch.autograd import forward_ad

from secondsight.model.classifier import Classifier
from secondsight.model.derivatives import NotDifferentiableError, derivatives, differentiable_gradient
from secondsight.model.network_facts import JvpWay
from secondsight.operators.jacobian import Jacobian, random_like

NEXT_WAY: dict[JvpWay, JvpWay] = {"forward mode": "double backward", "double backward": "row by row"}
"""The next way to compute W'v where torch lacks the derivative that a way needs. Row by row always works."""


class AutogradJacobian(Jacobian):
    """W by autograd.

    One forward graph is kept for all products W u. A product W'v runs in forward mode; or as the transpose of u -> W u,
    by a second backward pass; or from the whole Jacobian, one backward pass for each class.

    Args:
        model: the network.
        x: the inputs, with batch dimension.
    """

    def __init__(self, model: Classifier, x: Tensor) -> None:
        """Run the network at x and keep its graph."""
        self._leaf = x.detach().clone().requires_grad_()
        with model.telling_failures(self._leaf, last=True):
            self._logits = model.logits(self._leaf)
        model.check_logits(self._logits, len(x))
        super().__init__(self._leaf, self._logits)
        self.constant = not self._logits.requires_grad
        self._model = model
        self._rows: Tensor | None = None
        self._transposable: tuple[Tensor, Tensor] | None = None

    def graph(self) -> tuple[Tensor, Tensor]:
        """Return the kept graph."""
        return self._leaf, self._logits

    def _vjp(self, units: Tensor, last: bool) -> Tensor:
        return torch.stack([self._slopes(u, keep=not last) for u in units])

    def _slopes(self, u: Tensor, keep: bool = True) -> Tensor:
        """Compute the gradient of u'f at each input."""
        if self.constant or not bool(u.any()):
            return torch.zeros_like(self.x)
        return torch.autograd.grad(self._logits, self._leaf, u, retain_graph=keep, materialize_grads=True)[0]

    def _jvp(self, units: Tensor) -> Tensor:
        return torch.stack([self._change(v.expand_as(self.x)) for v in units])

    def _change(self, v: Tensor) -> Tensor:
        """Compute the change of the logits along v, in the first way that works for this network."""
        if self.constant or not bool(v.any()):
            return torch.zeros_like(self.logits)
        facts = self._model.facts
        while facts.jvp_way in NEXT_WAY:
            with suppress(NotDifferentiableError), derivatives():
                change = self._forward_mode(v) if facts.jvp_way == "forward mode" else self._double_backward(v)
                if facts.jvp_trusted or self._agrees(v, change):
                    facts.jvp_trusted = True
                    return change
            facts.jvp_way = NEXT_WAY[facts.jvp_way]
        return self._row_by_row(v)

    def _agrees(self, v: Tensor, change: Tensor) -> bool:
        """Compare with a backward pass, because forward mode returns zeros for a scripted network and no error."""
        u = random_like(self.logits)
        return self.are_transposes(u, change, v, self._slopes(u))

    def _forward_mode(self, v: Tensor) -> Tensor:
        with torch.no_grad(), forward_ad.dual_level():
            dual = self._model.logits(forward_ad.make_dual(self.x, v))
            tangent = forward_ad.unpack_dual(dual).tangent
            return torch.zeros_like(dual) if tangent is None else tangent

    def _double_backward(self, v: Tensor) -> Tensor:
        # u -> W u is linear, so it does not matter at which u it is transposed.
        if self._transposable is None:
            u = torch.ones_like(self.logits).requires_grad_()
            self._transposable = differentiable_gradient(self._logits, self._leaf, u), u
        slope, u = self._transposable
        return torch.autograd.grad(slope, u, v, retain_graph=True, materialize_grads=True)[0]

    def _row_by_row(self, v: Tensor) -> Tensor:
        classes = self.logits.shape[1]
        note = (
            "torch has neither forward mode nor a second derivative for this network: its whole Jacobian was computed, "
            f"one backward pass for each of the {classes} classes"
        )
        if note not in self.notes:
            self.notes.append(note)
        if len(self.x) > 1:
            # The Jacobians of many inputs would fill the memory: they are used and forgotten.
            rows = (self._slopes_of_class(k) for k in range(classes))
            return torch.stack([(row * v).flatten(1).sum(1) for row in rows], dim=1)
        if self._rows is None:
            rows = (self._slopes_of_class(k).flatten().to(self.solver_device).double() for k in range(classes))
            self._rows = torch.stack(list(rows))
        return (self._rows @ v.flatten().to(self._rows))[None]

    def _slopes_of_class(self, k: int) -> Tensor:
        u = torch.zeros_like(self.logits)
        u[:, k] = 1
        return self._slopes(u)
