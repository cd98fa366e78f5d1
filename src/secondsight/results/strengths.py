"""What a drawn map shows at each pixel: its entries, or the norm of its group."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from secondsight.errors import InputError, shown
from secondsight.results.explanation import Explanation, MapKind, PathPoint, SparseExplanation
from secondsight.results.first_order import FirstOrder

Drawn = PathPoint | FirstOrder
"""A map that is drawn instead of the chosen one: one of the path, or CAFO's."""


def strengths(e: Explanation, kind: MapKind | None = None, drawn: Drawn | None = None) -> NDArray[Any]:
    """Return the values that shades are made of, not yet scaled.

    Args:
        e: the result.
        kind: "entries" or "groups". None: groups where there are any.
        drawn: a map with the groups of this result. None: its chosen map.
    """
    require_kind(kind)
    delta = e.delta if drawn is None else drawn.delta
    norms = None if kind == "entries" else _group_norms(e, delta, drawn)
    if kind == "groups" and norms is None:
        raise InputError("kind", "'entries', because this map has no groups or was multiplied by the input", "'groups'")
    shown: NDArray[Any] = (delta if norms is None else norms).numpy()
    return shown


def require_kind(kind: MapKind | None) -> None:
    """Raise InputError unless this is a kind of shades."""
    if kind is not None and (not isinstance(kind, str) or kind not in ("entries", "groups")):
        raise InputError("kind", "entries or groups", shown(kind))


def _group_norms(e: Explanation, delta: Tensor, drawn: Drawn | None) -> Tensor | None:
    """The norm of each pixel's group. None: there are no groups, or each entry was multiplied by its own input."""
    if not isinstance(e, SparseExplanation) or e.method.times_input:
        return None
    windows = e.window_norms if drawn is None else drawn.window_norms
    # A result from a run may lack its groups.
    groups = getattr(e, "groups", None)
    if windows is not None or groups is None:
        return windows
    squares = delta.double().square().flatten()
    labels = groups.flatten()
    norms = torch.zeros(int(labels.max()) + 1, dtype=torch.float64, device="cpu").index_add_(0, labels, squares).sqrt_()
    each = norms[labels].reshape(delta.shape)
    # The channels of a pixel may belong to several groups.
    return each.amax(0) if each.ndim == 3 else each
