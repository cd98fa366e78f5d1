"""Matrices with a row and a column for each vector of a basis."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNKS = 8
"""torch multiplies few long rows on one thread, but several chunks of them on all threads: in half the time on two."""


def identity(like: Tensor) -> Tensor:
    """Make the identity matrix with as many rows as `like`, of its type and on its device."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def inner_products(a: Tensor, b: Tensor) -> Tensor:
    """Compute AB' for few long rows. The number of threads does not change the result."""
    length = a.shape[1] // CHUNKS
    whole = length * CHUNKS
    rows = a[:, :whole].unflatten(1, (CHUNKS, length)).transpose(0, 1)
    columns = b[:, :whole].unflatten(1, (CHUNKS, length)).permute(1, 2, 0)
    result = torch.bmm(rows, columns).sum(0)
    return result if whole == a.shape[1] else result + a[:, whole:] @ b[:, whole:].T
