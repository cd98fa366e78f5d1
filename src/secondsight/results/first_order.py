"""The map of first order that a result would have without H."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from secondsight.groups import Grouping
from secondsight.optim.proof import Origin
from secondsight.results.explanation import SparseExplanation


class FirstOrder(NamedTuple):
    """CAFO's map, and the mean norm of the windows of each pixel, which is None where there are no windows."""

    delta: Tensor
    window_norms: Tensor | None


def first_order_map(e: SparseExplanation) -> Tensor:
    """Compute the map without the second-order term, CAFO, at the lambda1 and lambda2 of a result."""
    return first_order(e).delta


def first_order(e: SparseExplanation) -> FirstOrder:
    """Compute CAFO's map at the lambda1 and lambda2 of a result, with the norms of its windows."""
    penalty = Grouping(e.groups, e.window, tuple(e.delta.shape)).penalty()
    g, a, dtype = e.gradient.double().flatten(), 2 * e.lambda2, e.delta.dtype
    delta = (penalty.threshold(g, e.lambda1) / a).to(dtype).reshape(e.delta.shape)
    norms = penalty.pixel_norms(Origin(g, e.lambda1, a)).to(dtype) if penalty.overlapping else None
    return FirstOrder(delta * e.input if e.method.times_input else delta, norms)
