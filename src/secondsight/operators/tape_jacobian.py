"""The Jacobian of a piecewise-linear network from a tape: no product runs the network again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from secondsight.model.classifier import Classifier
from secondsight.model.derivatives import NotDifferentiableError, derivatives
from secondsight.operators.jacobian import Jacobian, random_like
from secondsight.operators.tape.tape import Tape, joined


class TapeJacobian(Jacobian):
    """W as the linear steps that were recorded while the network ran."""

    shareable = True
    piecewise_linear = True

    def __init__(self, model: Classifier, x: Tensor, tape: Tape) -> None:
        """Take the tape of the network at x."""
        super().__init__(x, tape.logits)
        self._model, self._tape = model, tape
        self.directions = tape.directions

    @property
    def nbytes(self) -> int:
        """Bytes of the inputs and of the masks on the tape. Weights belong to the network."""
        return self.x.nbytes + self._tape.nbytes

    def graph(self) -> tuple[Tensor, Tensor]:
        """Run the network once more, because a tape has no second derivative."""
        leaf = self.x.clone().requires_grad_()
        return leaf, self._model.logits(leaf)

    def joined(self, others: Sequence[Self]) -> Self | None:
        """Join the tapes, where they differ in nothing but masks."""
        tape = joined([self._tape, *(other._tape for other in others)])
        if tape is None:
            return None
        return type(self)(self._model, torch.cat([self.x, *(other.x for other in others)]), tape)

    def agrees_with_autograd(self) -> bool:
        """Whether autograd gives the same products. Found out once for all tapes of this signature."""
        facts = self._model.facts
        if self._tape.signature not in facts.trusted_tapes:
            if not self._agrees():
                facts.recordable = False
                return False
            facts.trusted_tapes.add(self._tape.signature)
        return True

    def _agrees(self) -> bool:
        u, v = random_like(self.logits), random_like(self.x)
        try:
            with derivatives():
                found, change = self._tape.transpose(u[None])[0], self._tape.forward(v[None])[0]
                leaf, logits = self.graph()
                slopes = torch.autograd.grad(logits, leaf, u, materialize_grads=True)[0]
        except NotDifferentiableError:
            return False
        # Forward mode would cost seconds at its first use. For random u and v, <u, W'v> = <Wu, v> says as much.
        found, slopes = found.cpu().double(), slopes.cpu().double()
        is_same = float((found - slopes).norm()) <= self.agreement * float(slopes.norm())
        return is_same and self.are_transposes(u, change, v, slopes)

    def _jvp(self, units: Tensor) -> Tensor:
        return torch.cat([self._tape.forward(some) for some in units.split(self.directions)])

    def _vjp(self, units: Tensor, last: bool) -> Tensor:
        return torch.cat([self._tape.transpose(some) for some in units.split(self.directions)])
