"""Which penalty belongs to which groups."""

from __future__ import annotations

from torch import Tensor

from secondsight.optim.penalties import L1, GroupLasso, Penalty
from secondsight.optim.sliding_windows import SlidingWindows


def penalty_of(labels: Tensor | None, window: int | None = None, shape: tuple[int, ...] = ()) -> Penalty:
    """Make the penalty of groups.

    Args:
        labels: the number of each entry's group. None: every entry is a group of its own, or groups are windows.
        window: the side of the windows. None: there are none.
        shape: channels, height and width of a picture with windows.
    """
    if window is not None:
        channels, height, width = shape
        return SlidingWindows((channels, height, width), window)
    return L1() if labels is None else GroupLasso(labels.flatten())
