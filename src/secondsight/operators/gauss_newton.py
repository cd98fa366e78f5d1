"""The Gauss-Newton matrix W (diag p - pp') W': the Hessian of a piecewise-linear network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from secondsight.operators.jacobian import Jacobian
from secondsight.operators.loss_hessian import LossHessian


class GaussNewton(LossHessian):
    """H = W (diag p - pp') W': one Jacobian-vector and one vector-Jacobian product. Always positive semidefinite.

    For a piecewise-linear network this *is* the Hessian (proposition 1).
    """

    kind = "gauss-newton"
    psd = True

    def times_rows(self, rows: Tensor) -> Tensor:
        """Compute W (diag p - pp') W'v for each row v, averaged over the inputs."""
        return torch.cat([self._times(some) for some in rows.split(self.linear.jacobian.directions)])

    def _times(self, rows: Tensor) -> Tensor:
        linear = self.linear
        return linear.jacobian.vjp(linear.covariance(linear.jacobian.jvp(rows[:, None]))).mean(1)

    @property
    def shared_jacobian(self) -> Jacobian | None:
        """The Jacobian, where its products run no network."""
        return self.linear.jacobian if self.linear.jacobian.shareable else None

    def factor_blocks(self) -> Iterator[Tensor] | None:
        """Iterate over the columns of B: column k is sqrt(p_k) grad log p_k (appendix C without a Cholesky factor)."""
        at_a_time = self.linear.jacobian.directions
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


class JointGaussNewton:
    """The Gauss-Newton matrices of one network at several inputs: one product for each of them in a single pass.

    Args:
        members: the matrices.
        jacobian: their Jacobians, joined.
    """

    def __init__(self, members: Sequence[LossHessian], jacobian: Jacobian) -> None:
        """Take the members in the order of their inputs in the joined Jacobian."""
        self.members, self.jacobian = members, jacobian

    def times_own_row(self, rows: Tensor) -> Tensor:
        """Multiply each member with its own row of an (n, d) tensor."""
        changes = self.jacobian.jvp(rows[None])[0]
        pairs = zip(self.members, changes, strict=True)
        weights = torch.cat([member.linear.covariance(change[None]) for member, change in pairs])
        return self.jacobian.vjp(weights[None])[0]


def joined(members: Sequence[LossHessian]) -> JointGaussNewton | None:
    """Join Hessians so that their products share a pass. None: one of them must be taken alone."""
    jacobians = [jacobian for member in members if (jacobian := member.shared_jacobian) is not None]
    if len(jacobians) < len(members):
        return None
    jacobian = jacobians[0].joined(jacobians[1:])
    return None if jacobian is None else JointGaussNewton(members, jacobian)
