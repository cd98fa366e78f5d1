"""Eigenpairs of an operator by Lanczos steps, fully reorthogonalised."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator

INVARIANT = 1e-8
"""If less than this share of a product is new, the Krylov space is invariant: the rest is float64 rounding."""


def lanczos_eigh(H: SymmetricOperator, start: Tensor, k: int, tolerance: float, seed: int) -> tuple[Tensor, Tensor]:
    """Compute the k largest eigenvalues, falling, and eigenvectors (columns).

    Args:
        H: the operator.
        start: a vector that is likely to hold the largest ones, such as the gradient of the loss.
        k: how many.
        tolerance: on |Hv - lambda v|, as a share of the largest |lambda|.
        seed: of the random part of the start, and of fresh starts.
    """
    d = H.size
    generator = torch.Generator().manual_seed(seed)

    def probe() -> Tensor:
        return torch.randn(d, generator=generator, dtype=torch.float64).to(start)

    v, hv = (start.new_empty(min(d, 2 * k + 8), d) for _ in range(2))
    matrix = start.new_zeros(0, 0)
    candidate = start + probe() * float(start.norm()) / d**0.5
    for count in range(d):
        if count == len(v):
            more = v.new_empty(min(d, 2 * count) - count, d)
            v, hv = torch.cat([v, more]), torch.cat([hv, more])
        for attempt in (candidate, probe()):
            vector = attempt
            for _ in range(2):
                vector = vector - (v[:count] @ vector) @ v[:count]
            # Nothing new: the Krylov space is invariant, so a fresh start looks for what it missed.
            if float(vector.norm()) > INVARIANT * float(attempt.norm()) and bool(attempt.any()):
                break
        v[count] = vector / vector.norm()
        hv[count] = H @ v[count]
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
