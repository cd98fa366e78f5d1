"""The map of first order that a result would have without H."""

from __future__ import annotations

from torch import Tensor

from secondsight.groups import Grouping
from secondsight.results.explanation import SparseExplanation


def first_order_map(e: SparseExplanation) -> Tensor:
    """Compute the map without the second-order term, CAFO, at the lambda1 and lambda2 of a result."""
    penalty = Grouping(e.groups, e.window, tuple(e.delta.shape)).penalty()
    kept = penalty.threshold(e.gradient.double().flatten(), e.lambda1).reshape(e.delta.shape)
    delta = (kept / (2 * e.lambda2)).to(e.delta.dtype)
    return delta * e.input if e.method.times_input else delta
