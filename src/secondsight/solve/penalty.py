"""The sparsity penalty: everything the solvers need to know of lambda1 |D|_1."""

from __future__ import annotations

from torch import Tensor


class L1:
    """lambda1 times the sum of absolute values."""

    def value(self, delta: Tensor) -> float:
        return float(delta.abs().sum())

    def lambda1_max(self, gradient: Tensor) -> float:
        """The smallest lambda1 whose map is exactly zero: where every path starts."""
        return float(gradient.abs().max())

    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        """S(y, lambda1): the proximal operator."""
        return y - self.project(y, lambda1)

    def project(self, y: Tensor, lambda1: float) -> Tensor:
        """The nearest point of the dual ball |v|_inf <= lambda1."""
        return y.clamp(-lambda1, lambda1)

    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        """sum_i (lambda1 |D_i| - v_i D_i), every term non-negative for a v in the dual ball."""
        return float((lambda1 * delta.abs() - dual * delta).clamp_(min=0).sum())
