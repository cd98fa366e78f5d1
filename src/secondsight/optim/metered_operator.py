"""An operator that counts its products and knows how many may still be taken."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator


class MeteredOperator(SymmetricOperator):
    """H with a budget of products.

    The budget is advice: solvers look at `left` before they ask. A product with a zero vector costs nothing.

    Args:
        operator: H itself.
        most: how many products may be taken.
        progress: called after every product, and during long ones, with the number of products taken so far.
        unit: what H is divided by, a power of two.

    Attributes:
        taken: how many products were taken.
    """

    def __init__(
        self,
        operator: SymmetricOperator,
        most: int,
        progress: Callable[[float], None] | None = None,
        unit: float = 1.0,
    ) -> None:
        """Start with nothing taken."""
        self.operator, self.most, self.report, self.unit = operator, most, progress, unit
        self.psd, self.taken = operator.psd, 0
        if progress is not None:
            operator.progress = lambda done: progress(self.taken + done)

    @property
    def size(self) -> int:
        """The number of rows and columns of H."""
        return self.operator.size

    @property
    def left(self) -> int:
        """How many products may still be taken."""
        return max(0, self.most - self.taken)

    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply H with each row, and count the rows that are not zero."""
        filled = rows.any(1)
        count = int(filled.sum())
        if count == 0:
            return torch.zeros_like(rows)
        # Picking rows copies them.
        products = self.operator.times_rows(rows if count == len(rows) else rows[filled]) / self.unit
        self.taken += count
        if self.report is not None:
            self.report(self.taken)
        return products if count == len(rows) else torch.zeros_like(rows).masked_scatter_(filled[:, None], products)
