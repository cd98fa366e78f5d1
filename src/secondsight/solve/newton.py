"""CASO on a low-rank Hessian U'U by semismooth Newton in as many unknowns as U has rows.

    phi(z) = 1/2 |z|^2 - 1/(2a) |S(g + U'z, lambda1)|^2        D(z) = S(g + U'z, lambda1) / a

phi is convex when a exceeds the largest eigenvalue of U'U; its gradient z - U D(z) vanishes where D(z) is optimal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.solve.penalty import Penalty

MAX_STEPS = 60
ARMIJO = 1e-4
SMALLEST_STEP = 1e-9
ROUNDING = 1e-13
"""Promised decreases below this share of |phi| cannot be seen in its value: the step is taken unseen, as the last."""
NEGLIGIBLE = 1e-18
"""Where the squared slope is below this share of |phi|, no step is worth its cost."""


def semismooth_newton(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, start: Tensor, penalty: Penalty
) -> tuple[Tensor, Tensor]:
    """The minimiser z of phi and the map D(z)."""
    z = start
    phi, thresholded = _phi(gradient, factor, a, lambda1, z, penalty)
    for _ in range(MAX_STEPS):
        slope = z - factor @ thresholded / a
        if float(slope @ slope) <= NEGLIGIBLE * abs(phi):
            break
        hessian = torch.eye(len(z)).to(z) - penalty.curvature(factor, thresholded, lambda1) / a
        step = torch.linalg.solve(hessian, slope)
        descent = float(slope @ step)
        last = descent <= ROUNDING * abs(phi)
        t = 1.0
        while True:
            z_new = z - t * step
            phi_new, thresholded = _phi(gradient, factor, a, lambda1, z_new, penalty)
            if last or phi_new <= phi - ARMIJO * t * descent:
                break
            t /= 2
            last = t < SMALLEST_STEP
        z, phi = z_new, phi_new
        if last:
            break
    return z, thresholded / a


def _phi(
    gradient: Tensor, factor: Tensor, a: float, lambda1: float, z: Tensor, penalty: Penalty
) -> tuple[float, Tensor]:
    thresholded = penalty.threshold(torch.addmv(gradient, factor.T, z), lambda1)
    return float(z @ z) / 2 - float(thresholded @ thresholded) / (2 * a), thresholded
