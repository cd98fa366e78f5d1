"""Read weights from files, without running code that a file holds, and fill networks with exactly those weights."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from secondsight.errors import ModelError

Net = TypeVar("Net", bound=nn.Module)

SHOWN = 3
"""Names of tensors that a message shows of each kind of misfit: enough to see a pattern, few enough for one line."""


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by their names.

    Raises:
        ModelError: if the file cannot be read or has another format.
    """
    try:
        return load_file(file)
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise ModelError(f"the weights file {file} cannot be read: {why}") from None
    except SafetensorError as error:
        raise ModelError(f"{file} is not a safetensors file ({error})") from None


def read_checkpoint(file: Path) -> dict[str, Tensor]:
    """Read the weights of a file from a hub: safetensors, or a pickle. A pickle that would run code is refused.

    Raises:
        ModelError: if the file cannot be read, or is refused.
    """
    if file.suffix == ".safetensors":
        return read_safetensors(file)
    try:
        weights: dict[str, Tensor] = torch.load(file, weights_only=True, map_location="cpu")
    except Exception as error:
        # Damaged bytes may raise any kind of error.
        raise ModelError(f"the weights file {file} cannot be read: {str(error).splitlines()[0]}") from None
    return weights


def filled(net: Net, weights: dict[str, Tensor], source: str) -> Net:
    """Fill a network with exactly these weights, in eval mode with frozen parameters.

    Args:
        net: the network; it is changed and returned.
        weights: one tensor for each of the network's. Counters of batches, which only training needs, may be missing.
        source: where the weights come from, for the message.

    Raises:
        ModelError: if a tensor is missing, unknown, of another shape, or of whole numbers instead of floats.
    """
    # The weights are put into this dictionary, because it carries torch's version marks. Some networks look at these
    # marks when they load weights.
    wanted = net.state_dict()
    # Some files leave out the counters of batches that only training needs.
    missing = [key for key in wanted if key not in weights and not key.endswith("num_batches_tracked")]
    unknown = [key for key in weights if key not in wanted]
    other = [
        f"{key} {_shape(tensor)} in the file, {_shape(wanted[key])} in the network"
        for key, tensor in weights.items()
        if key in wanted and tensor.shape != wanted[key].shape
    ]
    rounded = [
        f"{key} of {str(tensor.dtype).removeprefix('torch.')}"
        for key, tensor in weights.items()
        if key in wanted and wanted[key].is_floating_point() and not tensor.is_floating_point()
    ]
    misfits = [
        f"{len(names)} {what} ({_some(names)})"
        for what, names in (
            ("missing", missing),
            ("unknown", unknown),
            ("of another shape", other),
            ("not of floats", rounded),
        )
        if names
    ]
    if misfits:
        raise ModelError(f"{source} does not fit {type(net).__name__}: of its tensors {'; '.join(misfits)}")
    wanted.update(weights)
    net.load_state_dict(wanted)
    return net.eval().requires_grad_(False)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _some(names: list[str]) -> str:
    return ", ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])
