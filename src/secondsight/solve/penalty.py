"""The sparsity penalty: everything the solvers need to know of lambda1 |D|_1 and of its group version."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import softshrink


class Penalty(ABC):
    """lambda1 times a weighted sum of norms of blocks of entries; the blocks partition the entries.

    weights: of each entry's block, or 1.
    separable: whether every entry is a block of its own, so that some entries can be solved without the others.
    """

    weights: Tensor | float
    separable = False

    @abstractmethod
    def value(self, delta: Tensor) -> float: ...

    @abstractmethod
    def lambda1_max(self, gradient: Tensor) -> float:
        """The smallest lambda1 whose map is exactly zero: where every path starts."""

    @abstractmethod
    def project(self, y: Tensor, lambda1: float) -> Tensor:
        """The nearest point of the dual ball: no block longer than lambda1 times its weight."""

    @abstractmethod
    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        """S(y, lambda1) = y - project(y, lambda1), the proximal operator, with exact zeros."""

    @abstractmethod
    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        """lambda1 value(D) - v'D, block by block, each term non-negative for a v in the dual ball."""

    @abstractmethod
    def norms(self, y: Tensor) -> Tensor:
        """For each entry the norm of its block."""

    @abstractmethod
    def curvature(self, factor: Tensor, thresholded: Tensor, lambda1: float) -> Tensor:
        """U J U' with J the derivative of the threshold where it gave `thresholded`."""


class L1(Penalty):
    """Every entry is a block of its own: lambda1 |D|_1."""

    weights = 1.0
    separable = True

    def value(self, delta: Tensor) -> float:
        return float(delta.abs().sum())

    def lambda1_max(self, gradient: Tensor) -> float:
        return float(gradient.abs().max())

    def project(self, y: Tensor, lambda1: float) -> Tensor:
        return y.clamp(-lambda1, lambda1)

    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        return softshrink(y, lambda1)

    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        return float((lambda1 * delta.abs() - dual * delta).clamp_(min=0).sum())

    def norms(self, y: Tensor) -> Tensor:
        return y.abs()

    def curvature(self, factor: Tensor, thresholded: Tensor, lambda1: float) -> Tensor:
        # Compared into a float tensor: multiplying by booleans takes twice as long.
        active = torch.ne(thresholded, 0, out=torch.empty_like(thresholded))
        return (factor * active) @ factor.T


class GroupLasso(Penalty):
    """lambda1 sum_j w_j |D_j|, w_j the square root of the size of group j: its entries stand or fall together.

    labels: for each entry the number of its group, 0 to J - 1, none of them empty.
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        self.count = int(labels.max()) + 1
        self._weights = torch.bincount(labels).double().sqrt()
        self.weights = self._weights[labels]

    def value(self, delta: Tensor) -> float:
        return float(self._weights @ self._norms(delta))

    def lambda1_max(self, gradient: Tensor) -> float:
        return float(self.lengths(gradient).max())

    def lengths(self, y: Tensor) -> Tensor:
        """Of each group, its norm over its weight: what lambda1 is compared with."""
        return self._norms(y) / self._weights

    def project(self, y: Tensor, lambda1: float) -> Tensor:
        return y * self._share(y, lambda1)[self.labels]

    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        # Without -0.
        return y * (1 - self._share(y, lambda1))[self.labels] + 0.0

    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        terms = lambda1 * self._weights * self._norms(delta) - self._sums(dual * delta)
        return float(terms.clamp_(min=0).sum())

    def norms(self, y: Tensor) -> Tensor:
        return self._norms(y)[self.labels]

    def curvature(self, factor: Tensor, thresholded: Tensor, lambda1: float) -> Tensor:
        # J_j = (1 - s) I + s (the projection on y_j), s = lambda1 w_j / |y_j| and |y_j| = |S_j| + lambda1 w_j.
        norms = self._norms(thresholded)
        share = lambda1 * self._weights / (norms + lambda1 * self._weights)
        active = norms[self.labels] > 0
        labels, columns = self.labels[active], factor[:, active]
        unit = thresholded[active] / norms[labels]
        along = columns.new_zeros(len(factor), self.count).index_add_(1, labels, columns * unit)
        return (columns * (1 - share[labels])) @ columns.T + (along * share) @ along.T

    def _share(self, y: Tensor, lambda1: float) -> Tensor:
        """Of each block, what lies in the dual ball. Compared as in lambda1_max: from there on all of it."""
        lengths = self.lengths(y)
        return torch.where(lengths > lambda1, lambda1 / lengths, 1.0)

    def _norms(self, y: Tensor) -> Tensor:
        return self._sums(y.square()).sqrt_()

    def _sums(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.count).index_add_(0, self.labels, values)
