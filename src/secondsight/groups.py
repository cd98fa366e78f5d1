"""Groups of entries that are zero or kept together: from what a user asks for to labels, or to the side of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secondsight.errors import InputError, SecondsightError
from secondsight.optim.penalties import L1, GroupLasso, Penalty
from secondsight.optim.sliding_windows import SlidingWindows
from secondsight.option_types import GROUPS_MAY_BE, parse_groups

Groups = str | Tensor | NDArray[np.integer] | tuple[Any, ...] | None
"""What may be asked for: a word, or an array with the number of each entry's group."""

NO_PICTURES = "none or a label array for inputs that are no pictures"
"""What an error message says that groups may be where the input is no picture."""

SUPERPIXELS = 200
"""How many superpixels there are by default: parts of objects in a photograph of 224 pixels."""

COMPACTNESS = 10.0
"""SLIC's weight of nearness against likeness of colour: its usual value."""


@dataclass(frozen=True)
class Grouping:
    """The groups of one input.

    Attributes:
        labels: the number of each entry's group. None: every entry stands by itself, or groups are windows.
        window: the side of sliding windows. None: there are none.
        shape: the shape of the input.
    """

    labels: Tensor | None
    window: int | None
    shape: tuple[int, ...]

    @classmethod
    def of(cls, groups: Groups, x: Tensor) -> Grouping:
        """Find the groups that a user asks for."""
        return cls(group_labels(groups, x), window_side(groups, x.shape), tuple(x.shape))

    def penalty(self, device: torch.device | None = None) -> Penalty:
        """Make the penalty of these groups."""
        if self.window is not None:
            channels, height, width = self.shape
            return SlidingWindows((channels, height, width), self.window)
        return L1() if self.labels is None else GroupLasso(self.labels.flatten().to(device))


def window_side(groups: Groups, shape: Sequence[int]) -> int | None:
    """Read the side of sliding windows for an input of this shape. None: the groups are no windows.

    Windows of one pixel do not overlap: they are the groups "pixel".
    """
    kind, side = parse_groups(groups) if isinstance(groups, str) else ("", None)
    if kind != "window" or side is None:
        return None
    if len(shape) != 3:
        raise InputError("groups", NO_PICTURES, repr(groups))
    if side > min(shape[1:]):
        most = f"a window of at most {min(shape[1:])} pixels for an input of {shape[1]} x {shape[2]}"
        raise InputError("groups", most, repr(groups))
    return side if side > 1 else None


def group_labels(groups: Groups, x: Tensor) -> Tensor | None:
    """Number the group of each entry of x, from 0 without holes.

    None: every entry is a group of its own, or groups are sliding windows.
    """
    if groups is None or isinstance(groups, str):
        kind, number = ("none", None) if groups is None else parse_groups(groups)
        if kind == "none" or window_side(groups, x.shape) is not None:
            return None
        if x.ndim != 3:
            raise InputError("groups", NO_PICTURES, repr(groups))
        labels = _of_picture(kind, number, x).expand(x.shape)
    else:
        labels = _as_tensor(groups)
        if x.ndim == 3 and labels.shape == x.shape[1:]:
            labels = labels.expand(x.shape)
        if labels.shape != x.shape:
            raise InputError("groups", f"of the input's shape {tuple(x.shape)}", f"of shape {tuple(labels.shape)}")
        outside = int((labels < 0).sum())
        if outside:
            raise InputError("groups", "labels from 0 that cover the input", f"negative at {outside} entries")
    names, numbers = torch.unique(labels, return_inverse=True)
    return None if len(names) == x.numel() else numbers


def zero_share(delta: Tensor, groups: Tensor | None = None) -> float:
    """Sparsity eta: zero groups / groups. Without groups, a pixel's channels count as one, and other entries singly."""
    if groups is not None:
        empty = torch.ones(int(groups.max()) + 1, dtype=torch.bool, device="cpu")
        empty[groups[delta != 0]] = False
        return float(empty.double().mean())
    sizes = delta.abs().amax(0) if delta.ndim == 3 else delta
    # Booleans are counted faster than floats.
    return 1 - int(sizes.bool().count_nonzero()) / sizes.numel()


def _as_tensor(groups: Tensor | NDArray[np.integer] | tuple[Any, ...]) -> Tensor:
    try:
        labels = groups if isinstance(groups, Tensor) else torch.from_numpy(np.array(groups))
    except (TypeError, ValueError, RuntimeError):
        raise InputError("groups", GROUPS_MAY_BE, f"a {type(groups).__name__}") from None
    if labels.is_floating_point() or labels.is_complex():
        raise InputError("groups", GROUPS_MAY_BE, f"an array of {labels.dtype}")
    return labels.cpu().long()


def _of_picture(kind: str, number: int | None, x: Tensor) -> Tensor:
    height, width = x.shape[1:]
    rows, columns = torch.arange(height, device="cpu")[:, None], torch.arange(width, device="cpu")
    if kind in ("pixel", "window"):
        return rows * width + columns
    if kind == "patch" and number is not None:
        return (rows // number) * -(-width // number) + columns // number
    return _superpixels(x, number or SUPERPIXELS)


def _superpixels(x: Tensor, count: int) -> Tensor:
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise SecondsightError(
            "groups='superpixels' needs scikit-image: pip install 'secondsight[superpixels]'"
        ) from None
    from secondsight.plotting.figures import picture

    labels = slic(picture(x.numpy(force=True)), n_segments=count, compactness=COMPACTNESS, start_label=0)
    return torch.from_numpy(labels).long()
