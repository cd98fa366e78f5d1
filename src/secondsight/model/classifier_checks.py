"""Checks of what a Classifier is given and what its network returns: shapes, sizes, statistics, labels, logits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from secondsight.errors import InputError, shown
from secondsight.model.images import MODES
from secondsight.option_types import is_number, plain

MOST_LENGTH = 2**31 - 1
"""The most entries that an input may have along one dimension. Many operations of torch count no further."""


def require_dense(argument: str, value: object) -> None:
    """Raise InputError unless this is a dense tensor with values: not sparse, nested or on the meta device."""
    if not isinstance(value, Tensor):
        raise InputError(argument, "a tensor of floats", f"a {type(value).__name__}")
    what = _why_not_dense(value)
    if what is not None:
        raise InputError(argument, "a dense tensor with values", what)


def _why_not_dense(tensor: Tensor) -> str | None:
    if tensor.is_meta or tensor.is_nested:
        return "a meta tensor" if tensor.is_meta else "a nested tensor"
    return None if tensor.layout == torch.strided else str(tensor.layout)


def why_no_logits(logits: object, inputs: int) -> str | None:
    """Say what a network returned instead of a row of logits for each input. None: it returned such logits."""
    if not isinstance(logits, Tensor):
        return f"a {type(logits).__name__}"
    if (what := _why_not_dense(logits)) is not None:
        return what
    fits = logits.ndim == 2 and logits.shape[1] >= 2 and len(logits) == inputs and not logits.is_complex()
    return None if fits else f"a tensor of {logits.dtype} of shape {tuple(logits.shape)}"


def label_of(label: object) -> str:
    """Turn one of `labels` into text. Raise InputError for a list, because a list of names is no name."""
    if isinstance(label, (list, tuple)):
        raise InputError("labels", "a list of names", f"with {shown(label)}")
    return str(label)


def lengths_of(argument: str, value: Iterable[int], may_be: str) -> tuple[int, ...]:
    """Accept one or more positive whole numbers, and return them as a tuple.

    Args:
        argument: the name of the argument, for the message of the error.
        value: the numbers.
        may_be: what would be accepted, for the message of the error.

    Raises:
        InputError: if the numbers cannot be lengths of an input.
    """
    lengths: Any = plain(value)
    if not isinstance(lengths, tuple) or not lengths or not all(map(is_length, lengths)):
        raise InputError(argument, may_be, shown(value))
    return lengths


def is_length(value: Any) -> bool:
    """Whether an input may have this many entries along a dimension."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_LENGTH


def height_and_width(size: int | tuple[int, int]) -> tuple[int, int]:
    """Accept `size`, one number for both sides or two, and return height and width."""
    may_be = "a positive whole number or two of them, height and width"
    sides = plain(size)
    lengths = lengths_of("size", sides if isinstance(sides, tuple) else (sides, sides), may_be)
    if len(lengths) != 2:
        raise InputError("size", may_be, shown(size))
    return lengths[0], lengths[1]


def per_channel(
    argument: str, value: float | Sequence[float] | None, features: tuple[int, ...] | None
) -> Tensor | None:
    """Accept `mean` or `std`, and return a float64 tensor that can be subtracted from a batch, or divide it.

    Args:
        argument: the name of the argument, for the message of the error.
        value: one number, or one for each channel of a picture or for each entry of the last axis of other inputs.
        features: the shape of one input that is no picture. None: the inputs are pictures.

    Raises:
        InputError: if the value is anything else.
    """
    if value is None:
        return None
    given = plain(value)
    several = isinstance(given, tuple)
    fits = not several or features is None or len(given) == features[-1]
    if not fits or not all(map(is_number, given if several else (given,))):
        what = "channel" if features is None else "feature"
        raise InputError(argument, f"a number or one number per {what}", shown(value))
    with torch.inference_mode(False):
        tensor = torch.tensor(given, dtype=torch.float64, device="cpu")
    return tensor.reshape(-1, 1, 1) if features is None and tensor.ndim else tensor


def channels_of(channels: int | None, *statistics: Tensor | None) -> int:
    """Find the number of channels: as given, or as many as the statistics (mean, std) have, else 3."""
    lengths = {len(t) for t in statistics if t is not None and t.ndim}
    if channels is not None:
        lengths.update(lengths_of("channels", [channels], "1, 3 or 4 for pictures (else give input_shape)"))
    if len(lengths) > 1:
        raise InputError("channels", "the length of mean and of std", sorted(lengths))
    count = lengths.pop() if lengths else 3
    if count not in MODES:
        raise InputError("channels", "1, 3 or 4 for pictures (else give input_shape)", count)
    return count
