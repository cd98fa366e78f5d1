"""Does second order matter? The angle between CASO and CAFO without a sparsity penalty."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.nystrom_model import dense_map
from secondsight.optim.problem import Problem
from secondsight.optim.small_matrices import identity


def angle_without_penalty(problem: Problem, basis: KrylovBasis) -> tuple[float, float]:
    """Compute the degrees between CASO and CAFO at lambda1 = 0 and equal lambda2, and a bound of their error.

    CAFO points along g, CASO along Q^-1 g with Q = 2 lambda2 I - H. The Nystrom model gives the estimate. Its error is
    bounded through the best solution inside the basis, whose exact residual costs no further product.

    Args:
        problem: g, lambda2 and the bounds of the spectrum.
        basis: what is known of H. It must contain g.
    """
    g = problem.gradient
    if not bool(g.any()):
        return 0.0, 0.0
    estimate = degrees_between(*dense_map(problem, basis))
    # In units of 2 lambda2, because the square of a huge or tiny lambda2 is outside of float64's range.
    unit, inside = 2 * problem.lambda2, basis.vectors.inner(g[None])[:, 0]
    weights = torch.linalg.solve(identity(basis.cross) - basis.projected() / unit, inside)
    if problem.mu <= 0 or not bool(weights.any()):
        return estimate, 180.0
    # The residual is the sum of V'rest and (HV)'weights / unit. Its length comes from inner products, so it is accurate
    # to some 1e-8 of the map's.
    rest, moved = inside - weights, weights / unit
    square = rest @ (basis.overlaps @ rest + 2 * basis.cross @ moved) + moved @ basis.squares @ moved
    share = math.sqrt(max(0.0, float(square))) / (problem.mu / unit * float(weights.norm()))
    radius = math.degrees(math.asin(share)) if share < 1 else 180.0
    return estimate, min(180.0, abs(estimate - degrees_between(weights, inside)) + radius)


def degrees_between(u: Tensor, v: Tensor) -> float:
    """Compute the angle between two vectors that are not zero."""
    # From the chord, because the arc cosine loses its digits at small angles.
    u, v = u / u.norm(), v / v.norm()
    return math.degrees(2 * math.atan2(float((u - v).norm()), float((u + v).norm())))
