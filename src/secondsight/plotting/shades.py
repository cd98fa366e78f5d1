"""From importance values to shades, as in appendix D of the paper; also for maps that are nearly or wholly zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PERCENTILE = 99.0
"""The paper's choice (appendix D), so that a few extreme pixels do not darken all others."""

Array = NDArray[np.float64]


def normalise(values: NDArray[np.floating], percentile: float = PERCENTILE) -> Array:
    """Scale a map to [0, 1]: absolute values, summed over channels, divided by a percentile of them, clipped at 1.

    If that percentile is zero, because nearly all sums are, it is taken over the sums that are not zero. A map of zeros
    stays zero.

    Args:
        values: (C, H, W) is summed over C; (H, W) is taken as it is; (d,) becomes one row.
        percentile: everything above it gets the brightest shade.

    Returns:
        An array of two dimensions.

    Example:
        >>> normalise(np.array([[[0.0, -2.0], [1.0, 8.0]]]), percentile=100)
        array([[0.   , 0.25 ],
               [0.125, 1.   ]])
    """
    sums: Array = np.abs(np.asarray(values, dtype=np.float64))
    if sums.ndim > 2:
        sums = sums.reshape(-1, *sums.shape[-2:]).sum(0)
    sums = np.atleast_2d(sums)
    cap = np.percentile(sums, percentile)
    if cap == 0 and sums.any():
        cap = np.percentile(sums[sums > 0], percentile)
    if cap == 0:
        return np.zeros_like(sums)
    return np.minimum(sums / cap, 1.0)
