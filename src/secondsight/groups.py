"""Which entries of an input stand or fall together: from what a user asks for to the group number of each entry."""

from __future__ import annotations

import re

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secondsight.errors import InputError, SecondsightError
from secondsight.plotting.figures import picture

Groups = str | Tensor | NDArray[np.integer] | None
"""What a user may ask for: a word, or an array with the number of each entry's group."""

GROUPS_MAY_BE = "none, pixel, patch:SIDE, superpixels, superpixels:COUNT, or an array of whole numbers"
"""What an error message says that groups may be."""

SUPERPIXELS = 200
"""How many superpixels there are by default: parts of objects in a photograph of 224 pixels."""

COMPACTNESS = 10.0
"""SLIC's weight of nearness against likeness of colour: its usual value."""


def check_groups(groups: Groups) -> None:
    """Raise InputError for what is wrong for every input."""
    if isinstance(groups, str):
        _parse(groups)
    elif groups is not None:
        _as_tensor(groups)


def group_labels(groups: Groups, x: Tensor) -> Tensor | None:
    """Number the group of each entry of x, from 0 without holes. None: every entry is a group of its own."""
    if groups is None or isinstance(groups, str):
        kind, number = ("none", 0) if groups is None else _parse(groups)
        if kind == "none":
            return None
        if x.ndim != 3:
            raise InputError("groups", "none or a label array for inputs that are no pictures", repr(groups))
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


def _parse(groups: str) -> tuple[str, int]:
    found = re.fullmatch(r"(none|pixel|patch|superpixels)(?::(\d+))?", groups.strip())
    if found is None:
        raise InputError("groups", GROUPS_MAY_BE, repr(groups))
    kind, text = found.groups()
    number = SUPERPIXELS if text is None else int(text)
    if (kind == "patch" and text is None) or (kind in ("none", "pixel") and text is not None) or number < 1:
        raise InputError("groups", GROUPS_MAY_BE, repr(groups))
    return kind, number


def _as_tensor(groups: Tensor | NDArray[np.integer]) -> Tensor:
    try:
        labels = groups if isinstance(groups, Tensor) else torch.from_numpy(np.array(groups))
    except (TypeError, ValueError, RuntimeError):
        raise InputError("groups", GROUPS_MAY_BE, f"a {type(groups).__name__}") from None
    if labels.is_floating_point() or labels.is_complex():
        raise InputError("groups", GROUPS_MAY_BE, f"an array of {labels.dtype}")
    return labels.cpu().long()


def _of_picture(kind: str, number: int, x: Tensor) -> Tensor:
    height, width = x.shape[1:]
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    if kind == "pixel":
        return rows * width + columns
    if kind == "patch":
        return (rows // number) * -(-width // number) + columns // number
    return _superpixels(x, number)


def _superpixels(x: Tensor, count: int) -> Tensor:
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise SecondsightError(
            "groups='superpixels' needs scikit-image: pip install 'secondsight[superpixels]'"
        ) from None
    labels = slic(picture(x.numpy(force=True)), n_segments=count, compactness=COMPACTNESS, start_label=0)
    return torch.from_numpy(labels).long()
