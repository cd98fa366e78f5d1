"""Maps that are kept while a path is solved, in little memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FEW = 0.5
"""The share of non-zero entries below which places and values take less memory than all entries in float32."""


@dataclass(frozen=True)
class KeptMap:
    """A flat map in little memory, because most maps of a path have few entries that are not zero.

    Attributes:
        values: the entries that are not zero, or all entries.
        places: the indices of these entries; None: all entries.
        length: the number of all entries.
    """

    values: Tensor
    places: Tensor | None
    length: int

    @classmethod
    def of(cls, delta: Tensor) -> KeptMap:
        """Keep a map, with the places of its entries if they are few."""
        places = delta.nonzero()[:, 0]
        if len(places) >= FEW * len(delta) or len(delta) > torch.iinfo(torch.int32).max:
            return cls(delta, None, len(delta))
        return cls(delta[places], places.int(), len(delta))

    def dense(self) -> Tensor:
        """Return the map."""
        if self.places is None:
            return self.values
        return self.values.new_zeros(self.length).index_copy_(0, self.places.long(), self.values)
