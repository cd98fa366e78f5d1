"""CASO on a low-rank Hessian U'U by semismooth Newton in as many unknowns as U has rows.

    phi(z) = 1/2 |z|^2 - Psi*(g + U'z)        D(z) = S(g + U'z, lambda1) / a

where Psi*(y) = |S(y, lambda1)|^2 / (2a), unless groups overlap. phi is convex when a exceeds the largest eigenvalue of
U'U; its gradient z - U D(z) vanishes where D(z) is optimal.
"""

from __future__ import annotations

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


def semismooth_newton(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, start: Tensor, penalty: Penalty
) -> tuple[Tensor, Tensor]:
    """Minimise phi by Newton steps with an Armijo line search, and return the minimiser z and the map D(z)."""
    z = start
    phi, shrunk = _phi(gradient, factor, a, lambda1, z, penalty)
    for _ in range(MAX_STEPS):
        slope = z - factor @ shrunk.value / a
        if float(slope @ slope) <= NEGLIGIBLE * abs(phi):
            break
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
    return z, shrunk.value / a


def _phi(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, z: Tensor, penalty: Penalty
) -> tuple[float, Shrunk]:
    shrunk = penalty.shrink(torch.addmv(gradient, factor.T, z), lambda1)
    return float(z @ z) / 2 - float(shrunk.energy) / (2 * a), shrunk
