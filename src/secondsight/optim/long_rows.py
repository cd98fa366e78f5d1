"""A growing matrix of few rows, each as long as a map."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from secondsight.optim.small_matrices import inner_products

FIRST_ROOM = 8
"""Rows that there is room for at first: most maps take fewer products."""

PIECE = 2**15
"""Entries of each row that are converted to float64 at a time: what all rows have of them fits into a CPU's cache."""


class LongRows:
    """Rows that are kept in the precision of the network that they come from.

    Each row is kept over a power of two, so that tiny and huge rows stay within the range of that precision.

    Args:
        like: a float64 vector of the length and device of the rows.
        dtype: the precision that rows are rounded to.

    Attributes:
        length: the number of entries of a row.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype) -> None:
        """Start with no rows."""
        self.length = len(like)
        self._kept = like.new_empty(0, len(like), dtype=dtype)
        self._room = self._kept
        self._units = like.new_empty(0)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._kept)

    def __getitem__(self, index: int) -> Tensor:
        """Return a row in float64."""
        return self._kept[index].double() * self._units[index]

    def append(self, row: Tensor) -> None:
        """Round a row and write it behind the others. The room doubles, because copying all rows each time is slow."""
        count = len(self)
        if count == len(self._room):
            room = self._kept.new_empty(max(FIRST_ROOM, 2 * count), self.length)
            room[:count] = self._kept
            self._room = room
        largest = float(row.abs().max())
        unit = 2.0 ** math.floor(math.log2(largest)) if 0 < largest < math.inf else 1.0
        self._room[count] = row / unit
        self._kept = self._room[: count + 1]
        self._units = torch.cat([self._units, self._units.new_tensor([unit])])

    def tensor(self) -> Tensor:
        """Return all rows in float64."""
        return self._kept.double() * self._units[:, None]

    def copy_to(self, target: Tensor) -> None:
        """Write all rows into a tensor of any precision."""
        target.copy_(self._kept)
        target.mul_(self._units[:, None].to(target))

    def inner(self, vectors: Tensor) -> Tensor:
        """Compute the inner products of each row with each of some float64 vectors: (rows, vectors)."""
        pairs = zip(self._kept.split(PIECE, 1), vectors.split(PIECE, 1), strict=True)
        total = torch.stack([inner_products(rows.double(), columns) for rows, columns in pairs]).sum(0)
        return total * self._units[:, None]

    def combine(self, coefficients: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Compute linear combinations of the rows: those of (combinations, rows) coefficients.

        Args:
            coefficients: in float64.
            dtype: the precision of the arithmetic and of the result.
        """
        scaled = (coefficients * self._units).to(dtype)
        if self._kept.dtype == dtype:
            return scaled @ self._kept
        result = scaled.new_empty(len(scaled), self.length)
        for rows, columns in zip(self._kept.split(PIECE, 1), result.split(PIECE, 1), strict=True):
            columns.copy_(scaled @ rows.to(dtype))
        return result
