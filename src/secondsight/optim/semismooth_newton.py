"""CASO on a low-rank Hessian U'U by semismooth Newton in as many unknowns as U has rows.

    phi(z) = 1/2 |z|^2 - Psi*(g + U'z)        D(z) = S(g + U'z, lambda1) / a

where Psi*(y) = |S(y, lambda1)|^2 / (2a), unless groups overlap. phi is convex when a exceeds the largest eigenvalue of
U'U; its gradient z - U D(z) vanishes where D(z) is optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from secondsight.optim.penalties import Penalty
from secondsight.optim.small_matrices import identity

MAX_STEPS = 60
"""Two to seven steps are usual with a warm start: this only guards against a search that rounding keeps alive."""

ARMIJO = 1e-4
"""Share of the promised decrease that a step must reach: the usual value (Nocedal and Wright)."""

SMALLEST_STEP = 1e-9
"""Thirty halvings: a shorter step no longer changes phi."""

INVISIBLE = 1e-13
"""A promised decrease below this share of |phi| is lost in phi's rounding: the step is taken unchecked, as the last."""

NEGLIGIBLE = 1e-18
"""Where the squared slope is below this share of |phi|, a step would change a float64 map by less than its rounding."""

LOST = 1e-24
"""A squared residual below this share of |Tz|^2 is lost in its rounding."""

SMALLEST_SADDLE_STEP = 1e-3
"""Ten halvings. A search for a saddle that needs shorter steps is better given up."""


class Solved(NamedTuple):
    """Where Newton ended.

    Attributes:
        z: the solution in as many unknowns as U has rows.
        delta: the map D(z).
        product: U D(z), nearly z.
    """

    z: Tensor
    delta: Tensor
    product: Tensor


class Response(NamedTuple):
    """S(y) at one y = g + U'w.

    Attributes:
        value: S(y).
        product: U S(y).
        energy: 2a Psi*(y).
        curvature: computes U J U', where J is the derivative of S at y.
    """

    value: Tensor
    product: Tensor
    energy: float
    curvature: Callable[[], Tensor]


class Threshold(Protocol):
    """The function w -> U S(g + U'w, lambda1)."""

    def at(self, w: Tensor) -> Response:
        """Compute S(g + U'w), and what is derived from it."""


@dataclass(frozen=True)
class WholeThreshold:
    """The function w -> U S(g + U'w, lambda1) for any penalty. It multiplies all entries each time.

    Attributes:
        gradient: g.
        factor: U.
        lambda1: the weight of the penalty.
        penalty: gives S.
    """

    gradient: Tensor
    factor: Tensor
    lambda1: float
    penalty: Penalty

    def at(self, w: Tensor) -> Response:
        """Compute S(g + U'w), and what is derived from it."""
        shrunk = self.penalty.shrink(torch.addmv(self.gradient, self.factor.T, w), self.lambda1)
        product, energy = self.factor @ shrunk.value, float(shrunk.energy)
        return Response(shrunk.value, product, energy, lambda: shrunk.curvature(self.factor))


def semismooth_newton(threshold: Threshold, a: float, start: Tensor, negligible: float = NEGLIGIBLE) -> Solved:
    """Minimise phi by Newton steps with an Armijo line search.

    Args:
        threshold: g, U, lambda1 and S.
        a: what S is divided by.
        start: where to start.
        negligible: the share of |phi| below which the squared slope counts as zero.
    """
    z = start
    phi, response = _phi(threshold, a, z)
    for _ in range(MAX_STEPS):
        slope = z - response.product / a
        if float(slope @ slope) <= negligible * abs(phi):
            break
        step = torch.linalg.solve(identity(z) - response.curvature() / a, slope)
        descent = float(slope @ step)
        last = descent <= INVISIBLE * abs(phi)
        t = 1.0
        while True:
            z_new = z - t * step
            phi_new, response = _phi(threshold, a, z_new)
            if last or phi_new <= phi - ARMIJO * t * descent:
                break
            t /= 2
            last = t < SMALLEST_STEP
        z, phi = z_new, phi_new
        if last:
            break
    return Solved(z, response.value / a, response.product / a)


def saddle_newton(
    threshold: Threshold, middle: Tensor, a: float, start: Tensor, negligible: float = NEGLIGIBLE
) -> Solved | None:
    """Solve the same for an indefinite Hessian B'TB: find z = B D(z) with D(z) = S(g + B'Tz, lambda1) / a.

    phi then has a saddle, so steps are measured by |T (z - B D)|. None: no step made this length smaller.

    Args:
        threshold: g, B in place of U, lambda1 and S.
        middle: T.
        a: what S is divided by.
        start: where to start.
        negligible: the share of |Tz|^2 below which the squared residual counts as zero.
    """
    z = start
    residual, response = _residual(threshold, middle, a, z)
    size, scale = _squares(middle, residual, z)
    for _ in range(MAX_STEPS):
        if size <= negligible * scale:
            break
        step = torch.linalg.solve(identity(z) - response.curvature() @ middle / a, residual)
        t = 1.0
        while True:
            z_new = z - t * step
            residual, response = _residual(threshold, middle, a, z_new)
            new_size, new_scale = _squares(middle, residual, z_new)
            if new_size <= (1 - ARMIJO * t) ** 2 * size:
                break
            # What is left may be rounding.
            if size <= LOST * scale:
                return Solved(z_new, response.value / a, response.product / a)
            t /= 2
            if t < SMALLEST_SADDLE_STEP:
                return None
        z, size, scale = z_new, new_size, new_scale
    return Solved(z, response.value / a, response.product / a)


def _residual(threshold: Threshold, middle: Tensor, a: float, z: Tensor) -> tuple[Tensor, Response]:
    response = threshold.at(middle @ z)
    return z - response.product / a, response


def _squares(middle: Tensor, residual: Tensor, z: Tensor) -> tuple[float, float]:
    """Compute |T r|^2 and |T z|^2: how far g + B'Tz is off, and how far it is from g."""
    return float((middle @ residual).square().sum()), float((middle @ z).square().sum())


def _phi(threshold: Threshold, a: float, z: Tensor) -> tuple[float, Response]:
    response = threshold.at(z)
    return float(z @ z) / 2 - response.energy / (2 * a), response
