"""The true Hessian of the loss, for networks that are not piecewise linear: from a tape, or by double backward."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.model.derivatives import derivatives
from secondsight.operators.loss_hessian import LossHessian


class ExactHessian(LossHessian):
    """Gauss-Newton plus the logits' own curvature, sum_k (p - y)_k Hessian(f_k). It may be indefinite."""

    kind = "exact"
    psd = False

    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply H with each row: on a tape, else by backward passes through the gradient and through the logits."""
        linear = self.linear
        if linear.jacobian.curvature_agrees():
            products = linear.jacobian.curved_products(rows[:, None], linear.loss_cotangent(), linear.covariance)
            return products.mean(1)
        return torch.stack([self._times(row) for row in rows])

    def require_second_derivative(self) -> None:
        """Raise NotDifferentiableError if torch cannot differentiate this network twice."""
        with derivatives():
            self._double_backward(torch.zeros_like(self.linear.x[0]))

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
