"""Maps along lambda1 as few bytes: 8-bit shades and signs of what is kept, as differences from map to map, deflated.

static/decode.js reads what `packed` writes: the bits of which places are kept, then the bits of their signs, then one
byte for each kept place. All three are differences from the map before, so that little is left where maps are alike.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

N = TypeVar("N", np.uint8, np.bool_)
"""What maps are made of: shades, or booleans."""

BRIGHTEST = 255
"""The largest shade of 8 bits."""


@dataclass(frozen=True)
class Plane:
    """One map, as it is shown.

    Attributes:
        shades: 0 where the map is exactly zero, else 1 to 255; flat.
        negative: where the map is negative; flat.
    """

    shades: NDArray[np.uint8]
    negative: NDArray[np.bool_]

    @classmethod
    def of(cls, shades: NDArray[np.float64], signed: NDArray[np.floating]) -> Plane:
        """Round shades in [0, 1] to 8 bits. What is not zero stays so.

        Args:
            shades: of each place.
            signed: numbers with the sign of each place.
        """
        flat = shades.ravel()
        rounded = np.where(flat > 0, np.maximum(np.rint(flat * BRIGHTEST), 1), 0).astype(np.uint8)
        return cls(rounded, (signed.ravel() < 0) & (rounded > 0))


def packed(planes: Sequence[Plane]) -> str:
    """Write maps of the same size as base64."""
    shades = np.stack([plane.shades for plane in planes])
    negative = np.stack([plane.negative for plane in planes])
    kept = shades > 0
    parts = [
        np.packbits(_changes(kept, np.bitwise_xor), axis=1),
        np.packbits(_changes(negative, np.bitwise_xor)[kept]),
        _changes(shades, np.subtract)[kept],
    ]
    return deflated(b"".join(part.tobytes() for part in parts))


def deflated(data: bytes) -> str:
    """Compress bytes for DecompressionStream("deflate-raw"), as base64."""
    return base64.b64encode(zlib.compress(data, 9, -zlib.MAX_WBITS)).decode()


def _changes(maps: NDArray[N], difference: np.ufunc) -> NDArray[N]:
    """Keep the first map, and of each other one its difference from the map before; bytes wrap around."""
    return np.concatenate([maps[:1], difference(maps[1:], maps[:-1])])
