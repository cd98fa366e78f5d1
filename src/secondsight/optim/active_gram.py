"""U_A U_A' for sets A of columns that grow and shrink by little."""

from __future__ import annotations

import torch
from torch import Tensor


class ActiveGram:
    """Computes U_A U_A' from that of the set before: only the columns that came or went are multiplied.

    From one step of Newton to the next, and from one lambda1 to the next, few columns change.

    Args:
        factor: U.
    """

    def __init__(self, factor: Tensor) -> None:
        """Start with no columns."""
        self.factor = factor
        self.active = torch.zeros(factor.shape[1], dtype=torch.bool, device=factor.device)
        self.gram = factor.new_zeros(len(factor), len(factor))

    def of(self, active: Tensor) -> Tensor:
        """Compute U_A U_A'.

        Args:
            active: whether each column is in A.
        """
        changed = (active ^ self.active).nonzero()[:, 0]
        columns = self.factor[:, changed]
        came = torch.where(active[changed], 1.0, -1.0).to(columns)
        self.active, self.gram = active, self.gram + (columns * came) @ columns.T
        return self.gram
