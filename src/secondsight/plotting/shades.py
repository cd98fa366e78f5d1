"""From importance values to shades, as in appendix D of the paper; also for maps that are nearly or wholly zero."""

from __future__ import annotations

import math

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
        values: (C, H, W) is summed over C; (H, W) has one channel; (d,) becomes one row.
        percentile: a number from 0 to 100. Values from this percentile on get the brightest shade.

    Returns:
        The shades, an array of two dimensions.

    Example:
        >>> normalise(np.array([[[0.0, -2.0], [1.0, 8.0]]]), percentile=100)
        array([[0.   , 0.25 ],
               [0.125, 1.   ]])
    """
    sums = magnitudes(values)
    cap = brightest(sums, percentile)
    if cap == 0:
        return np.zeros_like(sums)
    return np.minimum(sums / cap, 1.0)


def magnitudes(values: NDArray[np.floating]) -> Array:
    """Sum absolute values over channels. The result has two dimensions."""
    sums: Array = np.abs(np.asarray(values, dtype=np.float64))
    if sums.ndim > 2:
        sums = sums.reshape(-1, *sums.shape[-2:]).sum(0)
    return np.atleast_2d(sums)


def brightest(sums: Array, percentile: float = PERCENTILE) -> float:
    """Find the value from which on `normalise` gives the brightest shade; 0 if all sums are zero."""
    cap = np.percentile(sums, percentile)
    if cap == 0 and sums.any():
        cap = np.percentile(sums[sums > 0], percentile)
    return float(cap)


def blurred(shades: Array, sigma: float) -> Array:
    """Blur shades by a Gaussian of `sigma` pixels, and scale them so that the brightest one is as bright as before.

    It is for the eye only: a blurred map loses its exact zeros, and no certificate is about it.
    """
    if sigma <= 0 or not shades.any():
        return shades
    # Beyond 3 sigma weights are negligible, and beyond the longer side there are no shades.
    reach = math.ceil(min(3 * sigma, max(shades.shape)))
    with np.errstate(over="ignore"):
        weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    soft = shades
    for axis in (0, 1):
        padded = np.pad(soft, [(reach, reach) if i == axis else (0, 0) for i in (0, 1)])
        rows = [np.take(padded, range(i, i + shades.shape[axis]), axis) for i in range(len(weights))]
        soft = np.tensordot(weights, np.stack(rows), 1)
    result: Array = soft * (shades.max() / soft.max())
    return result


def dilated(shades: Array, side: int) -> Array:
    """Let every pixel fill a square of `side` pixels around it. Where two squares overlap, the brighter one is seen."""
    grown = shades
    for axis in (0, 1):
        before, after = (side - 1) // 2, side // 2
        padded = np.pad(grown, [(after, before) if i == axis else (0, 0) for i in (0, 1)])
        rows = [np.take(padded, range(i, i + shades.shape[axis]), axis) for i in range(side)]
        grown = np.max(rows, axis=0)
    return grown


def is_dots(shades: Array) -> bool:
    """Whether a map consists of scattered single pixels, which cannot be seen in a small figure."""
    kept = shades > 0
    if not kept.any() or kept.mean() > 0.5:
        return False
    # Of a region, most pixels have all four neighbours.
    inside = kept[1:-1, 1:-1] & kept[:-2, 1:-1] & kept[2:, 1:-1] & kept[1:-1, :-2] & kept[1:-1, 2:]
    return bool(inside.sum() < 0.5 * kept.sum())
