"""The true Hessian of the loss, for networks that are not piecewise linear: from a tape, or by double backward."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from secondsight.model.derivatives import derivatives
from secondsight.operators.loss_hessian import LossHessian, over_inputs


class ExactHessian(LossHessian):
    """The Gauss-Newton matrix plus the curvature of the logits, sum_k (p - y)_k Hessian(f_k). It may be indefinite.

    Here f_k is the logit of class k, p holds the probabilities of the classes, and y is the one-hot target.
    """

    kind = "exact"
    psd = False

    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply H with each row: on a tape, else by backward passes through the gradient and through the logits."""
        if self.shareable:
            return torch.cat([over_inputs(self._curved(some[:, None])) for some in rows.split(self.directions)])
        return torch.stack([self._times(row) for row in rows])

    def times_own_rows(self, rows: Tensor) -> Tensor:
        """Multiply the H of each input with its own row, on a tape."""
        return self._curved(rows[None])[0]

    @cached_property
    def shareable(self) -> bool:
        """Whether the products come from a tape. The tape must reproduce the curvature of the network."""
        return self.linear.jacobian.curvature_agrees()

    @property
    def directions(self) -> int:
        """The number of directions that one pass with curvature terms takes efficiently."""
        return self.linear.jacobian.curved_directions

    def require_second_derivative(self) -> None:
        """Raise NotDifferentiableError if torch cannot differentiate this network twice."""
        with derivatives():
            self._double_backward(torch.zeros_like(self.linear.x[0]))

    def _curved(self, v: Tensor) -> Tensor:
        """Multiply H at each of n inputs with k vectors: from (k, n, d), or (k, 1, d) for all inputs, to (k, n, d)."""
        linear = self.linear
        return linear.jacobian.curved_products(v, linear.loss_cotangent(), linear.covariance)

    def _times(self, v: Tensor) -> Tensor:
        scale = float(v.abs().max())
        if self.linear.jacobian.constant or scale == 0:
            return torch.zeros_like(v)
        curved, change = self._double_backward(v / scale)
        return (curved + self.linear.mean_vjp(self.linear.covariance(change))) * scale

    def _double_backward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Compute (Hessian of (p - y)'f) v with p fixed, averaged over the inputs, and W'v at each input."""
        slope, leaf, weights, scale = self.linear.gradient_graph
        unit = v.to(leaf.dtype).to(leaf.device).reshape(leaf.shape[1:]).expand_as(leaf)
        curved, change = torch.autograd.grad(slope, (leaf, weights), unit, retain_graph=True, materialize_grads=True)
        return curved.flatten(1).to(self.linear.jacobian.solver_device).double().mean(0) * scale, change.cpu().double()
