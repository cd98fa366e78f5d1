"""The objective that every map maximises.

maximise   g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2

over maps D, where g and H are the gradient and the Hessian of the loss in the input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from secondsight.optim.penalties import Penalty
from secondsight.optim.proof import Origin


@dataclass(frozen=True)
class Objective:
    """The objective at one map, and its parts.

    Attributes:
        linear: g'D.
        quadratic: D'HD.
        square: |D|^2.
        penalty: |D|_1 or its group version, without the weight lambda1.
        lambda1: the weight of the penalty.
        lambda2: the weight of |D|^2.
    """

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
        """The whole objective."""
        return self.smooth - self.lambda1 * self.penalty

    def gain(self, norm: float) -> float:
        """Compute g'D + 1/2 D'HD of the map rescaled to the given L2 norm."""
        if self.square == 0:
            return 0.0
        ratio = norm / math.sqrt(self.square)
        return self.linear * ratio + self.quadratic * ratio**2 / 2


NEGLIGIBLE = 1e-12
"""L over |g|^2 below which L counts as 0: such a curvature changes no digit of a map, and its inverse would be huge."""


@dataclass(frozen=True)
class C1:
    """How far lambda2 lies above L/2: a number, or a number of times L.

    Attributes:
        number: the number.
        unit: None: c1 is the number itself. Else c1 is the number times L, or times this unit, |g|^2, where L is 0.
    """

    number: float
    unit: float | None = None

    def at(self, top: float) -> float:
        """Compute c1 for L = top."""
        if self.unit is None:
            return self.number
        return self.number * (top if top > NEGLIGIBLE * self.unit else self.unit)


@dataclass(frozen=True)
class Problem:
    """Everything but lambda1: g, the penalty, lambda2, and bounds of the spectrum of H.

    Attributes:
        gradient: g, flat, float64.
        penalty: what lambda1 multiplies.
        lambda2: the weight of |D|^2.
        top_bound: upper bound of the largest eigenvalue L of H; infinite where there is none.
        negative: upper bound of -(smallest eigenvalue of H), 0 for a semidefinite H. 2 lambda2 + negative bounds Q from
            above.
        diagonal: upper bounds of H's diagonal, for a semidefinite H that is known as a whole; else None.
        fixed_shift: the shift of a penalty that depends on it. None: the shift is `negative`.
    """

    gradient: Tensor
    penalty: Penalty
    lambda2: float
    top_bound: float = 0.0
    negative: float = 0.0
    fixed_shift: float | None = None
    diagonal: Tensor | None = None

    @cached_property
    def gradient_norm(self) -> float:
        """|g|."""
        return float(self.gradient.norm())

    @property
    def shift(self) -> float:
        """What makes H + shift I semidefinite."""
        return self.negative if self.fixed_shift is None else self.fixed_shift

    @property
    def a(self) -> float:
        """What the threshold S is divided by: D = S(g + (H + shift I) D, lambda1) / a at the optimum."""
        return 2 * self.lambda2 + self.shift

    @property
    def mu(self) -> float:
        """A lower bound of the eigenvalues of Q = 2 lambda2 I - H.

        If it is not positive, nothing can be proven, and gaps are infinite.
        """
        return 2 * self.lambda2 - self.top_bound

    def objective(self, delta: Tensor, quadratic: float, lambda1: float, origin: Origin | None = None) -> Objective:
        """Compute the objective at a map whose D'HD is `quadratic`."""
        return Objective(
            linear=float(self.gradient @ delta),
            quadratic=quadratic,
            square=float(delta @ delta),
            penalty=self.penalty.value(delta, origin),
            lambda1=lambda1,
            lambda2=self.lambda2,
        )
