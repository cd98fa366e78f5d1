"""The Jacobian of a network from a tape, and its curvature: no product runs the network again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from secondsight.model.classifier import Classifier
from secondsight.model.derivatives import NotDifferentiableError, derivatives
from secondsight.model.diagnosis import float64_twin, gradient_differences, second_derivative
from secondsight.operators.jacobian import Jacobian, random_like, unit_sizes
from secondsight.operators.tape.linear_steps import Bend
from secondsight.operators.tape.recorder import record_tape
from secondsight.operators.tape.tape import Tape, joined

CURVATURE_AGREEMENT = 1e-2
"""Largest relative difference of second derivatives: float32 rounds that of a deep network to 1e-3."""


class TapeJacobian(Jacobian):
    """W as the steps that were recorded while the network ran.

    Args:
        model: the network.
        x: the inputs, with batch dimension.
        tape: what was recorded.
        joinable: whether it may be joined with the Jacobians at other inputs. Without that, less memory is needed.
    """

    shareable = True

    def __init__(self, model: Classifier, x: Tensor, tape: Tape, joinable: bool = False) -> None:
        """Take the tape of the network at x."""
        super().__init__(x, tape.logits)
        self._model, self._tape, self._joinable = model, tape, joinable
        self.directions, self.curved_directions = tape.directions, tape.curved_directions
        self.piecewise_linear = tape.piecewise_linear
        self._bends: tuple[Tensor, Mapping[int, Bend]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the inputs and of what the tape holds of them. Weights belong to the network."""
        return self.x.nbytes + self._tape.nbytes + (0 if self._bends is None else self._tape.kept)

    def graph(self) -> tuple[Tensor, Tensor]:
        """Run the network once more, because a tape has no second derivative."""
        leaf = self.x.clone().requires_grad_()
        return leaf, self._model.logits(leaf)

    def joined(self, others: Sequence[Self]) -> Self | None:
        """Join the tapes. None: they differ in more than what belongs to their inputs."""
        if not all(one._joinable for one in (self, *others)):
            return None
        tape = joined([self._tape, *(other._tape for other in others)])
        if tape is None:
            return None
        return type(self)(self._model, torch.cat([self.x, *(other.x for other in others)]), tape)

    def agrees_with_autograd(self) -> bool:
        """Whether autograd gives the same products. This is checked once for all tapes of one signature."""
        return self._found_out(self._model.facts.trusted_tapes, self._agrees)

    def curvature_agrees(self) -> bool:
        """Whether the curved steps give torch's second derivative. This is checked once for all tapes of one signature.

        Where torch has no second derivative, the network in float64 is compared with differences of its gradients.
        """
        return self.has_curvature and self._found_out(self._model.facts.trusted_curvature, self._curvature_agrees)

    def leave_out_curvature(self) -> None:
        """Free what only `curved_products` needs. It cannot be relied on afterwards."""
        super().leave_out_curvature()
        self._bends = None
        self._tape.leave_out_bends()

    def _found_out(self, trusted: set[int], agrees: Callable[[], bool]) -> bool:
        """Check a tape, unless one of its signature is trusted. A network whose tape is wrong is not recorded again."""
        if self._tape.signature not in trusted:
            if not agrees():
                self._model.facts.recordable = False
                return False
            trusted.add(self._tape.signature)
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
        # Forward mode would cost seconds at its first use. Testing <u, W'v> = <Wu, v> for random u and v replaces it.
        found, slopes = found.cpu().double(), slopes.cpu().double()
        is_same = float((found - slopes).norm()) <= self.agreement * float(slopes.norm())
        return is_same and self.are_transposes(u, change, v, slopes)

    def _curvature_agrees(self) -> bool:
        u, v = random_like(self.logits), random_like(self.x[:1]).expand_as(self.x)
        try:
            wanted = second_derivative(self._model, self.x, u, v)
        except NotDifferentiableError:
            return self._agrees_with_differences(u.double(), v.double())
        return _is_close(self._curvature(u, v), wanted)

    def _agrees_with_differences(self, u: Tensor, v: Tensor) -> bool:
        """Compare tape and differences in float64, because in float32 an activation may cross a kink by rounding."""
        twin, x = float64_twin(self._model), self.x.double()
        tape = record_tape(twin, x)
        if tape is None:
            return False
        found = TapeJacobian(twin, x, tape)._curvature(u, v)
        return any(_is_close(found, wanted) for wanted in gradient_differences(twin, x, u, v))

    def _curvature(self, u: Tensor, v: Tensor) -> Tensor:
        """Compute the change of W u along v, (n, *shape), from the curved steps."""
        bends, kept = self._tape.bends(u), dict[int, Tensor]()
        change = self._tape.forward(v[None], kept)
        return self._tape.transpose(torch.zeros_like(change), bends, kept)[0]

    def curved_products(self, v: Tensor, weights: Tensor, covariance: Callable[[Tensor], Tensor]) -> Tensor:
        """Multiply by a tangent pass and a backward pass.

        The backward pass starts from (diag p - pp') W'v. Each curved step adds its curvature term to it.
        """
        # Both parts of a product are divided by one number, so that p - y survives the network's precision.
        scales = unit_sizes(weights)[:, None]
        bends, kept = self._bends_of(weights / scales), dict[int, Tensor]()
        sizes = unit_sizes(v)[..., None]
        units = (v / sizes).to(self.x.dtype).to(self.x.device).reshape(*v.shape[:2], *self.x.shape[1:])
        change = self._tape.forward(units, kept)
        u = (covariance(change.cpu().double()) / scales).to(change)
        products = self._tape.transpose(u, bends, kept).flatten(2).to(self.solver_device).double()
        return products.mul_(scales.to(self.solver_device) * sizes.to(self.solver_device))

    def _bends_of(self, weights: Tensor) -> Mapping[int, Bend]:
        if self._bends is None or not torch.equal(self._bends[0], weights):
            adjoint = weights.to(self.x.dtype).to(self.x.device)
            self._bends = weights, self._tape.bends(adjoint, last=not self._joinable)
        return self._bends[1]

    def _jvp(self, units: Tensor) -> Tensor:
        return torch.cat([self._tape.forward(some) for some in units.split(self.directions)])

    def _vjp(self, units: Tensor, last: bool) -> Tensor:
        return torch.cat([self._tape.transpose(some) for some in units.split(self.directions)])


def _is_close(found: Tensor, wanted: Tensor) -> bool:
    found, wanted = found.cpu().double(), wanted.cpu().double()
    return float((found - wanted).norm()) <= CURVATURE_AGREEMENT * float(wanted.norm())
