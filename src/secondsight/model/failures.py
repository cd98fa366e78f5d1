"""Errors of networks, devices and numbers: what is wrong, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from secondsight.errors import ModelError

IN_PLACE = re.compile(r"(leaf Variable|view of a leaf).*in-place", re.DOTALL)
"""What torch says of `x -= 0.5` in a network."""

SHAPE = re.compile(
    r"shapes cannot be multiplied|expected input\[|size mismatch|must match the size|[Ss]izes of tensors"
    r"|to have \d+ channels|normalized_shape|is invalid for input of size|[Ee]xpected \d+D"
)
"""What torch says of inputs that do not fit a layer."""


NO_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|Unable to allocate", re.IGNORECASE)
"""What torch and numpy say when memory runs out, on devices that have no class of errors for that."""

BROKEN_DEVICE = re.compile(r"(CUDA|HIP|MPS|XPU) error")
"""What torch says of a device on which this process cannot compute any more."""


def why_not_usable(net: object, tensors: Sequence[Tensor]) -> str | None:
    """Say why a network cannot be used at all. None: nothing is wrong with it."""
    if any(is_lazy(tensor) for tensor in tensors):
        return "the network has layers that do not know their sizes yet (such as LazyLinear): run it once on a batch"
    if isinstance(net, torch.jit.ScriptModule) and not all(hasattr(module, "training") for module in net.modules()):
        return "the network was frozen by torch.jit.freeze, which leaves no module to set up: give it as it was before"
    if any(tensor.is_inference() for tensor in tensors):
        return "the network was made in torch.inference_mode, so it has no gradients: make it outside"
    return None


def why_it_failed(error: Exception, net: object, x: Tensor, first: bool) -> str | None:
    """Say what to do about an error that a network raised. None: the error is not known here, or is about memory.

    Args:
        error: what the network raised.
        net: the network.
        x: the batch that the network was given.
        first: whether an error about shapes means that this batch does not fit the network. After a network has run,
            such an error may only mean that it cannot run in this way, and another way is tried.
    """
    text = str(error)
    if isinstance(error, TypeError) and "required positional argument" in text and isinstance(net, nn.Module):
        return f"the network takes more than a batch ({_line(text)}): wrap it in a function of the batch alone"
    if not isinstance(error, RuntimeError) or is_out_of_memory(error):
        return None
    if IN_PLACE.search(text):
        return "the network changes its input in place: write x = x - 0.5 instead of x -= 0.5"
    if first and SHAPE.search(text):
        return f"the network does not take a batch of shape {tuple(x.shape)}: {_line(text)}"
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and NO_MEMORY.search(str(error)) is not None


def is_broken_device(error: BaseException) -> bool:
    """Whether every further computation of this process on the device would fail, too."""
    return isinstance(error, RuntimeError) and not is_out_of_memory(error) and bool(BROKEN_DEVICE.search(str(error)))


@contextmanager
def telling_overflow() -> Iterator[None]:
    """Turn torch's errors about decompositions, which come of infinite entries, into a ModelError."""
    try:
        yield
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise ModelError(
            "the numbers of this problem overflow: the input, the weights or the noise are far too large, "
            "or c1 or lambda2 are far too small"
        ) from error
