"""The objective, and the proof of how far a map is from its optimum.

    maximise   g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2

With a = 2 lambda2, Q = aI - H >= mu I, w = g - QD and any v in the dual ball of radius lambda1,

    gap(D) <= |w - v|^2 / (2 mu) + sum_i (lambda1 |D_i| - v_i D_i)      and      |D - D*| <= sqrt(2 gap / mu).

Only the exact product HD enters, never an approximation of H, and no term can be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.solve.penalty import Penalty

ROUNDING = 1e-12
"""A block of v on the edge of the dual ball may come out this much inside it."""


@dataclass(frozen=True)
class Support:
    """What the certificate proves of the optimum's zeros: two masks of the input's shape, which never overlap.

    Entries in neither are undecided: the gap is too large to tell.
    """

    nonzero: Tensor
    zero: Tensor

    @property
    def undecided(self) -> Tensor:
        """Neither."""
        return ~(self.nonzero | self.zero)


@dataclass(frozen=True)
class Objective:
    """The objective at one map, and its parts: g'D, D'HD, |D|^2 and the penalty, without its weight lambda1."""

    linear: float
    quadratic: float
    square: float
    penalty: float
    lambda1: float
    lambda2: float

    @property
    def smooth(self) -> float:
        """The paper's "loss": the objective without its penalty lambda1 |D|_1."""
        return self.linear + self.quadratic / 2 - self.lambda2 * self.square

    @property
    def value(self) -> float:
        return self.smooth - self.lambda1 * self.penalty

    def gain(self, norm: float) -> float:
        """g'D + 1/2 D'HD of the map rescaled to the given L2 norm."""
        if self.square == 0:
            return 0.0
        ratio = norm / math.sqrt(self.square)
        return self.linear * ratio + self.quadratic * ratio**2 / 2


@dataclass(frozen=True)
class Certificate:
    """An upper bound of optimum minus objective at one map, and what follows from it."""

    gap: float
    relative_gap: float
    support: Support


@dataclass(frozen=True)
class Problem:
    """g, a penalty, lambda2, and bounds of H's spectrum: everything but lambda1.

    mu: lower bound of Q's eigenvalues, 2 lambda2 - L. Not positive: nothing can be proven, and gaps are infinite.
    negative: bound of -(smallest eigenvalue of H), 0 for a semidefinite H; 2 lambda2 + negative bounds Q from above.
    """

    gradient: Tensor
    penalty: Penalty
    lambda2: float
    mu: float
    negative: float = 0.0

    def objective(self, delta: Tensor, quadratic: float, lambda1: float) -> Objective:
        """The objective at a map whose D'HD is `quadratic`."""
        return Objective(
            linear=float(self.gradient @ delta),
            quadratic=quadratic,
            square=float(delta @ delta),
            penalty=self.penalty.value(delta),
            lambda1=lambda1,
            lambda2=self.lambda2,
        )

    def certify(self, delta: Tensor, product: Tensor, lambda1: float) -> Certificate:
        """Certify a map by its exact product HD."""
        if self.mu <= 0:
            nothing = torch.zeros_like(delta, dtype=torch.bool)
            return Certificate(math.inf, math.inf, Support(nothing, nothing))
        a = 2 * self.lambda2
        w = self.gradient - a * delta + product
        v = self.penalty.project(w + self.mu * delta, lambda1)
        gap = float((w - v).square().sum()) / (2 * self.mu) + self.penalty.slack(delta, v, lambda1)
        value = self.objective(delta, float(delta @ product), lambda1).value
        return Certificate(gap, relative(gap, value), self._support(delta, v, gap, lambda1))

    def _support(self, delta: Tensor, v: Tensor, gap: float, lambda1: float) -> Support:
        primal_radius = math.sqrt(2 * gap / self.mu)
        dual_radius = math.sqrt(2 * (2 * self.lambda2 + self.negative) * gap)
        return Support(
            nonzero=self.penalty.norms(delta) > primal_radius,
            zero=self.penalty.norms(v) + dual_radius < lambda1 * self.penalty.weights * (1 - ROUNDING),
        )


def relative(gap: float, value: float) -> float:
    """gap / |objective|; 0 where the gap is 0."""
    if gap == 0:
        return 0.0
    return gap / abs(value) if value != 0 else math.inf
