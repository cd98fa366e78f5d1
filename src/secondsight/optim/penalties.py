"""The sparsity penalty: all that the solvers need to know of lambda1 |D|_1 and of its group version.

Blocks of entries partition the input here. Windows, which overlap, are in `sliding_windows.py`.

The proof. With a = 2 lambda2, Q = aI - H >= mu I, w = g - QD and any v in the dual ball of radius lambda1,

    gap(D) <= |w - v|^2 / (2 mu) + sum_i (lambda1 |D_i| - v_i D_i)      and      |D - D*| <= sqrt(2 gap / mu),

where D* is the optimum.
Only the exact product HD enters, never an approximation of H, and no term can be negative. If g + HD is only known up
to an error e, |w - v| + |e| takes the place of |w - v|: the bound holds for every v.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from secondsight.optim.proof import Evidence, Origin, Proof, Support
from secondsight.optim.small_matrices import inner_products

LATEST_END = 0.9
"""The last lambda1 of the path over lambda1_max where all groups are alike: a path needs some room."""

PATH_END = 0.01
"""The last lambda1 of the automatic path over lambda1_max: below a hundredth, maps are dense and hardly change."""


DUAL_ROUNDING = 1e-12
"""Float64 rounding may leave a block of v this share inside the dual ball although it lies on the edge."""


@dataclass(frozen=True)
class Shrunk:
    """S(y, lambda1), and what Newton's method needs around it.

    Attributes:
        value: S(y, lambda1).
        energy: 2a Psi*(y), one number, with Psi* the conjugate of a/2 |D|^2 plus the penalty: the square of S where
            blocks partition the input.
        curvature: from a factor U to U J U', where J is the derivative of S at y.
    """

    value: Tensor
    energy: Tensor
    curvature: Callable[[Tensor], Tensor]


class Penalty(ABC):
    """What lambda1 multiplies.

    Attributes:
        separable: whether every entry is a block of its own, so that some entries can be solved without the others.
        overlapping: whether blocks overlap. Then the penalty of a map can only be computed with its `Origin`.
    """

    separable = False
    overlapping = False

    @abstractmethod
    def value(self, delta: Tensor, origin: Origin | None = None) -> float:
        """Compute the penalty of a map, without lambda1."""

    @abstractmethod
    def lambda1_max(self, gradient: Tensor) -> float:
        """Compute the smallest lambda1 whose map is exactly zero. Every path starts there."""

    @abstractmethod
    def group_norms(self, y: Tensor) -> Tensor:
        """Compute the norm of each group, flat. Entries that stand by themselves are returned as they are."""

    @abstractmethod
    def path_end(self, gradient: Tensor) -> float:
        """Where the automatic path ends, as a share of lambda1_max."""

    @abstractmethod
    def shrink(self, y: Tensor, lambda1: float) -> Shrunk:
        """Compute S(y, lambda1) with exact zeros, and what Newton's method needs around it."""

    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        """Compute S(y, lambda1) alone. S(y, lambda1) / a is the best map for g = y without H."""
        return self.shrink(y, lambda1).value

    @abstractmethod
    def prove(self, evidence: Evidence) -> Proof:
        """Bound how far a map is from the optimum, and what that says of the optimum's zeros."""

    def zero_share(self, origin: Origin) -> float:
        """Count the zero blocks of a map, as a share, where blocks overlap."""
        raise NotImplementedError

    def pixel_norms(self, origin: Origin) -> Tensor:
        """Compute the mean norm of the blocks of each pixel, where blocks overlap."""
        raise NotImplementedError


def path_end(lengths: Tensor) -> float:
    """Where CAFO keeps three groups of four, as a share of lambda1_max, given the length of each group.

    Norms of groups are more alike than entries are, so most maps of a path of two decades would have no zeros.
    """
    largest = float(lengths.max())
    share = float(lengths.quantile(0.25)) / largest if largest > 0 else 0.0
    return min(LATEST_END, max(PATH_END, share))


class BlockPenalty(Penalty):
    """A weighted sum of norms of blocks of entries. The blocks partition the entries.

    Attributes:
        weights: the weight of each entry's block, or 1 for all.
    """

    weights: Tensor | float

    @abstractmethod
    def project(self, y: Tensor, lambda1: float) -> Tensor:
        """Project on the dual ball: no block is longer than lambda1 times its weight. S(y) = y - project(y)."""

    @abstractmethod
    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        """Compute lambda1 value(D) - v'D block by block. Each term is non-negative for a v in the dual ball."""

    @abstractmethod
    def norms(self, y: Tensor) -> Tensor:
        """Compute for each entry the norm of its block."""

    def prove(self, evidence: Evidence) -> Proof:
        """Prove by the v that the optimality conditions suggest."""
        delta, lambda1, mu = evidence.delta, evidence.lambda1, evidence.mu
        w = evidence.pull - 2 * evidence.lambda2 * delta
        v = self.project(w + mu * delta, lambda1)
        distance, slack = float((w - v).norm()), self.slack(delta, v, lambda1)
        gap = (distance + evidence.error) ** 2 / (2 * mu) + slack
        dual_radius = math.sqrt(2 * (2 * evidence.lambda2 + evidence.negative) * gap)
        support = Support(
            nonzero=self.norms(delta) > math.sqrt(2 * gap / mu),
            zero=self.norms(v) + dual_radius < lambda1 * self.weights * (1 - DUAL_ROUNDING),
        )
        return Proof(gap, distance**2 / (2 * mu) + slack, support)


class L1(BlockPenalty):
    """Every entry is a block of its own: lambda1 |D|_1."""

    weights = 1.0
    separable = True

    def value(self, delta: Tensor, origin: Origin | None = None) -> float:
        """Sum the absolute values."""
        return float(delta.abs().sum())

    def lambda1_max(self, gradient: Tensor) -> float:
        """The largest absolute value of the gradient."""
        return float(gradient.abs().max())

    def group_norms(self, y: Tensor) -> Tensor:
        """The entries themselves."""
        return y

    def path_end(self, gradient: Tensor) -> float:
        """Two decades: below, maps hardly change."""
        return PATH_END

    def project(self, y: Tensor, lambda1: float) -> Tensor:
        """Clip every entry."""
        return y.clamp(-lambda1, lambda1)

    def threshold(self, y: Tensor, lambda1: float) -> Tensor:
        """Shrink every entry by lambda1."""
        # No entry is larger than that, and torch refuses a lambda1 that is.
        return softshrink(y, min(lambda1, torch.finfo(y.dtype).max))

    def shrink(self, y: Tensor, lambda1: float) -> Shrunk:
        """Shrink every entry by lambda1."""
        value = self.threshold(y, lambda1)
        return Shrunk(value, value @ value, lambda factor: self._curvature(factor, value))

    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        """Sum lambda1 |D_i| - v_i D_i over the entries."""
        return float((lambda1 * delta.abs() - dual * delta).clamp_(min=0).sum())

    def norms(self, y: Tensor) -> Tensor:
        """The absolute values."""
        return y.abs()

    def _curvature(self, factor: Tensor, thresholded: Tensor) -> Tensor:
        """Compute U_A U_A', where A are the entries that are not zero."""
        # Compared into a float tensor, because multiplying by booleans takes twice as long.
        active = torch.ne(thresholded, 0, out=torch.empty_like(thresholded))
        return inner_products(factor * active, factor)


class GroupLasso(BlockPenalty):
    """lambda1 sum_j w_j |D_j|, w_j the square root of the size of group j: its entries are all zero or all kept.

    Args:
        labels: for each entry the number of its group, from 0 to J - 1. No group is empty.
    """

    def __init__(self, labels: Tensor) -> None:
        """Count the entries of each group."""
        self.labels = labels
        self.count = int(labels.max()) + 1
        self._weights = torch.bincount(labels).double().sqrt()
        self.weights = self._weights[labels]

    def value(self, delta: Tensor, origin: Origin | None = None) -> float:
        """Sum the weighted norms of the groups."""
        return float(self._weights @ self.group_norms(delta))

    def lambda1_max(self, gradient: Tensor) -> float:
        """The largest length of a group of the gradient."""
        return float(self._lengths(gradient).max())

    def group_norms(self, y: Tensor) -> Tensor:
        """The norm of each group."""
        return self._sums(y.square()).sqrt_()

    def path_end(self, gradient: Tensor) -> float:
        """Where CAFO keeps three groups of four."""
        return path_end(self._lengths(gradient))

    def _lengths(self, y: Tensor) -> Tensor:
        """Compute the norm of each group over its weight. lambda1 is compared with it."""
        return self.group_norms(y) / self._weights

    def project(self, y: Tensor, lambda1: float) -> Tensor:
        """Shorten the groups that are too long."""
        return y * self._share(y, lambda1)[self.labels]

    def shrink(self, y: Tensor, lambda1: float) -> Shrunk:
        """Shorten every group by lambda1 times its weight."""
        # Adding 0 turns -0 into 0.
        value = y * (1 - self._share(y, lambda1))[self.labels] + 0.0
        return Shrunk(value, value @ value, lambda factor: self._curvature(factor, value, lambda1))

    def slack(self, delta: Tensor, dual: Tensor, lambda1: float) -> float:
        """Sum lambda1 w_j |D_j| - v_j'D_j over the groups."""
        terms = lambda1 * self._weights * self.group_norms(delta) - self._sums(dual * delta)
        return float(terms.clamp_(min=0).sum())

    def norms(self, y: Tensor) -> Tensor:
        """The norm of the group of each entry."""
        return self.group_norms(y)[self.labels]

    def _curvature(self, factor: Tensor, thresholded: Tensor, lambda1: float) -> Tensor:
        """Add up J_j = (1 - s) I + s (projection on y_j) over the groups, with s = lambda1 w_j / |y_j|."""
        # |y_j| = |S_j| + lambda1 w_j, S_j the thresholded group.
        norms = self.group_norms(thresholded)
        share = lambda1 * self._weights / (norms + lambda1 * self._weights)
        active = norms[self.labels] > 0
        labels, columns = self.labels[active], factor[:, active]
        unit = thresholded[active] / norms[labels]
        along = columns.new_zeros(len(factor), self.count).index_add_(1, labels, columns * unit)
        return inner_products(columns * (1 - share[labels]), columns) + inner_products(along * share, along)

    def _share(self, y: Tensor, lambda1: float) -> Tensor:
        """Compute the share of each block that lies in the dual ball. From lambda1_max on it is exactly one."""
        lengths = self._lengths(y)
        return torch.where(lengths > lambda1, lambda1 / lengths, 1.0)

    def _sums(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.count).index_add_(0, self.labels, values)
