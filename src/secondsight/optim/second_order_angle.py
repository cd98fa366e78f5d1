"""Does second order matter? The angle between CASO and CAFO without a sparsity penalty."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.nystrom_model import NystromModel
from secondsight.optim.problem import Problem
from secondsight.optim.small_matrices import identity


def angle_without_penalty(
    problem: Problem, basis: KrylovBasis, dtype: torch.dtype = torch.float64
) -> tuple[float, float]:
    """Compute the degrees between CASO and CAFO at lambda1 = 0 and equal lambda2, and a bound of their error.

    CAFO points along g, CASO along Q^-1 g with Q = 2 lambda2 I - H. The Nystrom model gives the estimate. Its error is
    bounded through the best solution inside the basis, whose exact residual costs no further product.

    Args:
        problem: g, lambda2 and the bounds of the spectrum.
        basis: what is known of H.
        dtype: the precision of the maps.
    """
    g = problem.gradient
    if not bool(g.any()):
        return 0.0, 0.0
    estimate = degrees_between(NystromModel(problem, basis, dtype=dtype).dense(), g)
    matrix = 2 * problem.lambda2 * identity(basis.vectors) - basis.projected()
    weights = torch.linalg.solve(matrix, basis.vectors @ g)
    inside = weights @ basis.vectors
    residual = g - 2 * problem.lambda2 * inside + weights @ basis.products
    if problem.mu <= 0 or not bool(inside.any()):
        return estimate, 180.0
    share = float(residual.norm() / (problem.mu * inside.norm()))
    radius = math.degrees(math.asin(share)) if share < 1 else 180.0
    return estimate, min(180.0, abs(estimate - degrees_between(inside, g)) + radius)


def degrees_between(u: Tensor, v: Tensor) -> float:
    """Compute the angle between two vectors that are not zero."""
    # From the chord, because the arc cosine loses its digits at small angles.
    u, v = u / u.norm(), v / v.norm()
    return math.degrees(2 * math.atan2(float((u - v).norm()), float((u + v).norm())))
