"""The Gauss-Newton matrix W (diag p - pp') W': the Hessian of a piecewise-linear network."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from secondsight.operators.linearisation import Linearisation
from secondsight.operators.loss_hessian import LossHessian, over_inputs


class GaussNewton(LossHessian):
    """H = W (diag p - pp') W', where W is the Jacobian of the logits and p holds the probabilities of the classes.

    A product takes one Jacobian-vector and one vector-Jacobian product. H is always positive semidefinite. For a
    piecewise-linear network it *is* the Hessian (proposition 1).
    """

    kind = "gauss-newton"
    psd = True

    def __init__(self, linear: Linearisation) -> None:
        """Take the network around the input. Its curvature is not needed."""
        super().__init__(linear)
        linear.jacobian.leave_out_curvature()

    def times_rows(self, rows: Tensor) -> Tensor:
        """Compute W (diag p - pp') W'v for each row v, averaged over the inputs."""
        return torch.cat([over_inputs(self._times(some[:, None])) for some in rows.split(self.directions)])

    def times_own_rows(self, rows: Tensor) -> Tensor:
        """Multiply the H of each input with its own row, without averaging."""
        return self._times(rows[None])[0]

    def _times(self, v: Tensor) -> Tensor:
        """Multiply H at each of n inputs with k vectors: from (k, n, d), or (k, 1, d) for all inputs, to (k, n, d)."""
        linear = self.linear
        return linear.jacobian.vjp(linear.covariance(linear.jacobian.jvp(v)))

    @property
    def shareable(self) -> bool:
        """Whether W comes from a tape, so that products do not run the network."""
        return self.linear.jacobian.shareable

    @property
    def directions(self) -> int:
        """The number of directions that one pass takes efficiently."""
        return self.linear.jacobian.directions

    def factor_blocks(self) -> Iterator[Tensor] | None:
        """Iterate over the columns of B, some at a time, as rows.

        Column k is sqrt(p_k) grad log p_k (appendix C without a Cholesky factor).
        """
        at_a_time = self.directions
        return (self._columns(first, at_a_time) for first in range(0, self.linear.classes, at_a_time))

    def _columns(self, first: int, count: int) -> Tensor:
        linear = self.linear
        chosen = torch.arange(first, min(first + count, linear.classes), device="cpu")
        cotangents = -linear.probabilities.expand(len(chosen), 1, linear.classes).clone()
        own = torch.arange(len(chosen), device="cpu"), 0, chosen
        cotangents[own] = 0
        cotangents[own] = -cotangents.sum(2)[:, 0]
        columns = linear.jacobian.vjp(cotangents)[:, 0]
        return columns * linear.probabilities[0, chosen].sqrt().to(columns)[:, None]
