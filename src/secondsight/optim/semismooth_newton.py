"""CASO on a low-rank Hessian U'U by semismooth Newton in as many unknowns as U has rows.

    phi(z) = 1/2 |z|^2 - Psi*(g + U'z)        D(z) = S(g + U'z, lambda1) / a

where Psi*(y) = |S(y, lambda1)|^2 / (2a), unless groups overlap. phi is convex when a exceeds the largest eigenvalue of
U'U; its gradient z - U D(z) vanishes where D(z) is optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from secondsight.optim.penalties import Penalty, Shrunk
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
"""Where the squared slope is below this share of |phi|, a step would change the map by less than its rounding."""

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


def semismooth_newton(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, start: Tensor, penalty: Penalty
) -> Solved:
    """Minimise phi by Newton steps with an Armijo line search."""
    z = start
    phi, shrunk = _phi(gradient, factor, a, lambda1, z, penalty)
    for _ in range(MAX_STEPS):
        slope = z - factor @ shrunk.value / a
        if float(slope @ slope) <= NEGLIGIBLE * abs(phi):
            return Solved(z, shrunk.value / a, z - slope)
        hessian = identity(z) - shrunk.curvature(factor) / a
        step = torch.linalg.solve(hessian, slope)
        descent = float(slope @ step)
        last = descent <= INVISIBLE * abs(phi)
        t = 1.0
        while True:
            z_new = z - t * step
            phi_new, shrunk = _phi(gradient, factor, a, lambda1, z_new, penalty)
            if last or phi_new <= phi - ARMIJO * t * descent:
                break
            t /= 2
            last = t < SMALLEST_STEP
        z, phi = z_new, phi_new
        if last:
            break
    delta = shrunk.value / a
    return Solved(z, delta, factor @ delta)


def saddle_newton(
    gradient: Tensor, rows: Tensor, middle: Tensor, a: float, lambda1: float, start: Tensor, penalty: Penalty
) -> Solved | None:
    """Solve the same for an indefinite Hessian B'TB: find z = B D(z) with D(z) = S(g + B'Tz, lambda1) / a.

    phi then has a saddle, so steps are measured by |T (z - B D)|. None: no step made that smaller.
    """
    z = start
    residual, shrunk = _residual(gradient, rows, middle, a, lambda1, z, penalty)
    size, scale = _squares(middle, residual, z)
    for _ in range(MAX_STEPS):
        if size <= NEGLIGIBLE * scale:
            break
        step = torch.linalg.solve(identity(z) - shrunk.curvature(rows) @ middle / a, residual)
        t = 1.0
        while True:
            z_new = z - t * step
            residual, shrunk = _residual(gradient, rows, middle, a, lambda1, z_new, penalty)
            new_size, new_scale = _squares(middle, residual, z_new)
            if new_size <= (1 - ARMIJO * t) ** 2 * size:
                break
            # What is left may be rounding.
            if size <= LOST * scale:
                return Solved(z_new, shrunk.value / a, z_new - residual)
            t /= 2
            if t < SMALLEST_SADDLE_STEP:
                return None
        z, size, scale = z_new, new_size, new_scale
    return Solved(z, shrunk.value / a, z - residual)


def _residual(
    gradient: Tensor, rows: Tensor, middle: Tensor, a: float, lambda1: float, z: Tensor, penalty: Penalty
) -> tuple[Tensor, Shrunk]:
    shrunk = penalty.shrink(torch.addmv(gradient, rows.T, middle @ z), lambda1)
    return z - rows @ shrunk.value / a, shrunk


def _squares(middle: Tensor, residual: Tensor, z: Tensor) -> tuple[float, float]:
    """Compute |T r|^2 and |T z|^2: how far g + B'Tz is off, and how far it is from g."""
    return float((middle @ residual).square().sum()), float((middle @ z).square().sum())


def _phi(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, z: Tensor, penalty: Penalty
) -> tuple[float, Shrunk]:
    shrunk = penalty.shrink(torch.addmv(gradient, factor.T, z), lambda1)
    return float(z @ z) / 2 - float(shrunk.energy) / (2 * a), shrunk
