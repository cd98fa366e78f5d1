"""Solvers ask for products with H and are told. Whoever runs them may take those of several in one pass."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

Asking = Generator[Tensor, Tensor, T]
"""Yields rows, is sent the exact H times each of them, and returns a T."""

Product = Callable[[Tensor], Tensor]


def answered(asking: Asking[T], product: Product) -> T:
    """What it returns once every question is answered."""
    try:
        rows = next(asking)
        while True:
            rows = asking.send(product(rows))
    except StopIteration as end:
        result: T = end.value
        return result


@dataclass
class Budget:
    """How many products may be asked for, and how many were."""

    most: int
    progress: Callable[[float], None] | None = None
    taken: int = 0

    @property
    def left(self) -> int:
        return max(0, self.most - self.taken)

    def products(self, rows: Tensor) -> Asking[Tensor]:
        """H times each row. Zero rows cost nothing."""
        result = torch.zeros_like(rows)
        filled = rows.any(1)
        if bool(filled.any()):
            result[filled] = yield rows[filled]
            self.taken += int(filled.sum())
            if self.progress is not None:
                self.progress(self.taken)
        return result
