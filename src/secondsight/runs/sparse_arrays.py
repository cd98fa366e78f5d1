"""Arrays with many zeros: the places of the other entries, and their values in float32.

>>> found = sparse(torch.tensor([[0.0, 0.5], [0.0, -2.0]]))
>>> found["indices"].tolist(), found["values"].tolist(), found["scale"]
([1, 3], [0.5, -2.0], 1.0)
>>> dense(found, (2, 2), np.dtype("float32"))
tensor([[ 0.0000,  0.5000],
        [ 0.0000, -2.0000]])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST_VALUE = 2.0**96
"""A float64 array is scaled if its largest entry is above this or below its inverse: float32 ends at 2^128, and loses
digits below 2^-126."""


def sparse(tensor: Tensor) -> dict[str, Any]:
    """Keep the entries of an array that are not zero. Entries that are not finite are kept, too.

    Returns:
        The places of these entries in the flat array (`indices`), and the entries over `scale` (`values`).
    """
    flat = tensor.numpy().ravel()
    indices = np.flatnonzero(flat)
    values, scale = flat[indices], 1.0
    if values.dtype != np.float32:
        finite = np.abs(values[np.isfinite(values)])
        largest = float(finite.max(initial=0.0))
        if largest and not 1 / LARGEST_VALUE < largest < LARGEST_VALUE:
            scale = 2.0 ** math.floor(math.log2(largest))
        values = (values / scale).astype(np.float32)
    return {"indices": indices.astype(np.int32), "values": values, "scale": scale}


def dense(stored: Mapping[str, Any], shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    """Make the whole array from what `sparse` has kept.

    Args:
        stored: what `sparse` gave.
        shape: of the array.
        dtype: of the array.
    """
    full = np.zeros(math.prod(shape), dtype)
    full[stored["indices"]] = np.asarray(stored["values"], dtype) * dtype.type(stored["scale"])
    return torch.from_numpy(full.reshape(tuple(shape)))
