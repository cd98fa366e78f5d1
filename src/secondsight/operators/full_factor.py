"""The whole Hessian through its factor H = BB', without a d x d matrix (appendix C): eigenpairs and a proven L."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from secondsight.errors import InputError
from secondsight.operators.loss_hessian import LossHessian

GRAM_ROWS = 16384
"""Rows of B that are turned into float64 at a time: 130 MB for a thousand classes."""

LARGEST_DENSE = 2048
"""For inputs of more entries, H is not computed as a d x d matrix: 2048 entries take 2048 products and 32 MB."""

ROUNDING_STEPS = 10
"""Rounding of a backward pass in units of the network's precision."""

FEW_CLASSES, FEW_ENTRIES = 16, 64
"""Up to this many classes or entries, computing all of H costs no more than the rest of a map."""

NONZERO = 1e-12
"""Eigenvalues of B'B below this share of the largest are zeros that float64 rounding has moved."""


def full_factor(hessian: LossHessian, unit: float = 1.0) -> Tensor | None:
    """Compute B / unit, where B is d x c and H = BB', by one backward pass per column, in the network's precision.

    None: this Hessian has no such factor.
    """
    blocks = hessian.factor_blocks()
    if blocks is None:
        return None
    linear, device = hessian.linear, hessian.linear.jacobian.solver_device
    factor, done = torch.empty(linear.classes, linear.size, dtype=linear.x.dtype, device=device), 0
    for block in blocks:
        factor[done : done + len(block)] = block / unit
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


def is_small(hessian: LossHessian) -> bool:
    """Whether all of H costs no more than the rest of a map."""
    has_factor = hessian.factor_blocks() is not None
    return hessian.size <= FEW_ENTRIES or (has_factor and hessian.linear.classes <= FEW_CLASSES)


class ProvenBounds(NamedTuple):
    """Upper bounds from all of H: of its largest eigenvalue, of minus the smallest, and of its diagonal.

    The diagonal is None where H may be indefinite.
    """

    top: float
    negative: float
    diagonal: Tensor | None


def proven_bounds(hessian: LossHessian, softmax: float) -> ProvenBounds:
    """Bound the spectrum and the diagonal from all of H, with an allowance for rounding.

    It takes c backward passes, or d products where H has no factor or d is smaller.

    Args:
        hessian: H.
        softmax: the largest factor by which the rounding of the logits may have changed H.
    """
    eps = torch.finfo(hessian.linear.x.dtype).eps
    blocks = hessian.factor_blocks()
    if blocks is not None and hessian.linear.classes <= max(hessian.size, FEW_CLASSES):
        # As a prediction gets certain, B leaves float32's range.
        rest = hessian.linear.probabilities[0].sort().values[:-1].sum()
        unit = 2.0 ** round(math.log2(rest) / 2) if rest > 0 else 1.0
        factor = full_factor(hessian, unit)
        assert factor is not None
        small = factor.double() @ factor.double().T if factor.shape[0] <= factor.shape[1] else _gram(factor)
        # |B + E| <= |B| + |E|, where E is the rounding error of B.
        error = ROUNDING_STEPS * eps * float(small.diagonal().sum().clamp(min=0).sqrt())
        top = float(torch.linalg.eigvalsh(small)[-1].clamp(min=0).sqrt()) + error
        diagonal = ((factor.norm(dim=1).double() + error) * unit) ** 2 * softmax
        return ProvenBounds((top * unit) ** 2 * softmax, 0.0, diagonal)
    size = hessian.size
    if size > LARGEST_DENSE:
        may_be = f"'estimated' or 'probable' for an exact or averaged Hessian of more than {LARGEST_DENSE} inputs"
        raise InputError("bound", may_be, f"'proven' with {size} inputs")
    small = hessian @ torch.eye(size, dtype=torch.float64, device=hessian.gradient.device)
    unit = float(small.abs().max()) or 1.0
    small = small / unit
    # H is symmetric, so the difference from the transpose comes from rounding.
    rounding = float((small - small.T).norm()) + ROUNDING_STEPS * eps * float(small.norm())
    values = torch.linalg.eigvalsh((small + small.T) / 2)
    top, bottom = float(values[-1]), float(values[0])
    rounding += (softmax - 1) * max(top, -bottom)
    if hessian.psd:
        return ProvenBounds(max(0.0, top + rounding) * unit, 0.0, (small.diagonal() + rounding) * unit)
    return ProvenBounds(max(0.0, top + rounding) * unit, max(0.0, rounding - bottom) * unit, None)
