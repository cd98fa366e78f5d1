"""The whole Hessian through its factor H = BB', without a d x d matrix (appendix C): eigenpairs and a proven L."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.errors import InputError
from secondsight.operators.loss_hessian import LossHessian

GRAM_ROWS = 16384
"""Rows of B that are turned into float64 at a time: 130 MB for a thousand classes."""

LARGEST_DENSE = 2048
"""Inputs of more entries are not multiplied out as a d x d matrix: 2048 products, 32 MB."""

FACTOR_ROUNDING = 1e-6
"""A proven eigenvalue is raised by this share, because the factor is rounded to the network's precision."""

NONZERO = 1e-12
"""Eigenvalues of B'B below this share of the largest are zeros that float64 rounding has moved."""


def full_factor(hessian: LossHessian) -> Tensor | None:
    """Compute B (d x c) with H = BB', one backward pass for each column, in the network's precision.

    None: this Hessian has no such factor.
    """
    blocks = hessian.factor_blocks()
    if blocks is None:
        return None
    linear, device = hessian.linear, hessian.linear.jacobian.solver_device
    factor, done = torch.empty(linear.classes, linear.size, dtype=linear.x.dtype, device=device), 0
    for block in blocks:
        factor[done : done + len(block)] = block
        done += len(block)
    return factor.T


def eigh_of_factor(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Compute eigenvalues (falling) and eigenvectors (columns) of BB' from the smaller of B'B and BB' (appendix C).

    Only directions with a non-zero eigenvalue are returned.
    """
    d, c = factor.shape
    values, rotation = torch.linalg.eigh(factor.double() @ factor.double().T if d <= c else _gram(factor))
    values, rotation = values.flip(0), rotation.flip(1)
    kept = values > values[0].clamp(min=0) * NONZERO
    values, rotation = values[kept], rotation[:, kept]
    return values, rotation if d <= c else (factor.double() @ rotation) / values.sqrt()


def _gram(factor: Tensor) -> Tensor:
    """Compute B'B in float64, a block of rows at a time, so that no float64 copy of B is made."""
    total = torch.zeros(factor.shape[1], factor.shape[1], dtype=torch.float64, device=factor.device)
    for block in factor.split(GRAM_ROWS):
        block = block.double()
        total += block.T @ block
    return total


def proven_top_eigenvalue(hessian: LossHessian) -> float:
    """Compute the largest eigenvalue of H from all of H: c backward passes, or d products where H has no factor."""
    factor = full_factor(hessian)
    if factor is not None:
        small = factor.double() @ factor.double().T if factor.shape[0] <= factor.shape[1] else _gram(factor)
    else:
        size = hessian.size
        if size > LARGEST_DENSE:
            may_be = f"'estimated' for an exact or averaged Hessian of more than {LARGEST_DENSE} inputs"
            raise InputError("bound", may_be, f"'proven' with {size} inputs")
        small = hessian @ torch.eye(size, dtype=torch.float64, device=hessian.gradient.device)
        small = (small + small.T) / 2
    return max(0.0, float(torch.linalg.eigvalsh(small)[-1])) * (1 + FACTOR_ROUNDING)
