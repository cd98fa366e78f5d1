"""Eigenvalues of the input Hessian without the d x d matrix: by the full factor (appendix C) or Krylov steps."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from secondsight.curvature.hessian import GaussNewton, LossHessian
from secondsight.curvature.linearisation import Linearisation
from secondsight.errors import InputError

ROWS = 16384
LARGEST_DENSE = 2048
ROUNDING = 1e-6
"""A proven eigenvalue is raised by this share, for the factor's own rounding."""


def factor_blocks(linear: Linearisation) -> Iterator[Tensor]:
    """The columns of B as rows, float64, as many at a time as is fast."""
    at_a_time = 1 if linear.tape is None else linear.tape.directions
    for first in range(0, linear.classes, at_a_time):
        yield linear.factor_columns(first, at_a_time)


def full_factor(curvature: GaussNewton) -> Tensor:
    """B (d x c) with H = BB': column k is sqrt(p_k) grad log p_k, one backward pass. In the network's precision."""
    linear = curvature.linear
    factor, done = torch.empty(linear.classes, linear.size, dtype=linear.x.dtype, device=linear.device), 0
    for block in factor_blocks(linear):
        factor[done : done + len(block)] = block
        done += len(block)
    return factor.T


def eigh_of_factor(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (falling) and eigenvectors (columns) of BB' from the smaller of B'B and BB' (appendix C).

    Only directions with a non-zero eigenvalue are returned.
    """
    d, c = factor.shape
    if d <= c:
        values, vectors = torch.linalg.eigh(factor.double() @ factor.double().T)
        return values.flip(0).clamp(min=0), vectors.flip(1)
    gram = _gram(factor)
    values, rotation = torch.linalg.eigh(gram)
    values, rotation = values.flip(0), rotation.flip(1)
    kept = values > values[0].clamp(min=0) * 1e-12
    values, rotation = values[kept], rotation[:, kept]
    return values, (factor.double() @ rotation) / values.sqrt()


def _gram(factor: Tensor) -> Tensor:
    """B'B in float64, a block of rows at a time, so that no float64 copy of B is made."""
    total = torch.zeros(factor.shape[1], factor.shape[1], dtype=torch.float64, device=factor.device)
    for block in factor.split(ROWS):
        block = block.double()
        total += block.T @ block
    return total


def proven_top_eigenvalue(curvature: LossHessian) -> float:
    """The largest eigenvalue of H, from all of H: c backward passes, or d products for a small indefinite H."""
    if isinstance(curvature, GaussNewton):
        factor = full_factor(curvature)
        small = factor.double() @ factor.double().T if factor.shape[0] <= factor.shape[1] else _gram(factor)
    else:
        size = curvature.linear.size
        if size > LARGEST_DENSE:
            may_be = f"'estimated' for an exact or averaged Hessian of more than {LARGEST_DENSE} inputs"
            raise InputError("bound", may_be, f"'proven' with {size} inputs")
        small = curvature.product(torch.eye(size, dtype=torch.float64, device=curvature.gradient.device))
        small = (small + small.T) / 2
    return max(0.0, float(torch.linalg.eigvalsh(small)[-1])) * (1 + ROUNDING)


def krylov_eigh(curvature: LossHessian, k: int, tolerance: float, seed: int) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues, falling, and eigenvectors (columns), by Lanczos steps, fully reorthogonalised."""
    d = curvature.linear.size
    generator = torch.Generator().manual_seed(seed)

    def probe() -> Tensor:
        return torch.randn(d, generator=generator, dtype=torch.float64).to(curvature.gradient)

    v, hv = (curvature.gradient.new_empty(min(d, 2 * k + 8), d) for _ in range(2))
    matrix = curvature.gradient.new_zeros(0, 0)
    candidate = curvature.gradient + probe() * float(curvature.gradient.norm()) / d**0.5
    for count in range(d):
        if count == len(v):
            more = v.new_empty(min(d, 2 * count) - count, d)
            v, hv = torch.cat([v, more]), torch.cat([hv, more])
        for attempt in (candidate, probe()):
            vector = attempt
            for _ in range(2):
                vector = vector - (v[:count] @ vector) @ v[:count]
            # Nothing new: the Krylov space is invariant, so a fresh start looks for what it missed.
            if float(vector.norm()) > 1e-8 * float(attempt.norm()) and bool(attempt.any()):
                break
        v[count] = vector / vector.norm()
        hv[count] = curvature.product(v[count : count + 1])[0]
        candidate = hv[count]
        known, products = v[: count + 1], hv[: count + 1]
        row = known @ candidate
        matrix = torch.nn.functional.pad(matrix, (0, 1, 0, 1))
        matrix[count], matrix[:, count] = row, row
        values, coefficients = torch.linalg.eigh(matrix)
        values, coefficients = values.flip(0)[:k], coefficients.flip(1)[:, :k]
        # In a Krylov space, residuals are what is new in the last product, times the last coefficients.
        new = float((candidate - row @ known).norm())
        likely = bool((new * coefficients[-1].abs() <= tolerance * values.abs().max()).all())
        if count + 1 == d or (count + 1 >= k and likely):
            residuals = (coefficients.T @ products - values[:, None] * (coefficients.T @ known)).norm(dim=1)
            if count + 1 == d or bool((residuals <= tolerance * values.abs().max()).all()):
                break
    return values, (coefficients.T @ known).T
