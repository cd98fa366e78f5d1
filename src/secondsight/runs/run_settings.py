"""The settings of a run as one flat record: two starts of a run must agree in all of them.

>>> differences({"seed": 0, "method": "caso"}, {"seed": 1, "method": "caso"})
'seed was 0, is 1'
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np
import torch
from torch import nn

from secondsight.config import CAFO, Method
from secondsight.model.classifier import Classifier
from secondsight.model.images import PictureReader
from secondsight.runs.items import Items
from secondsight.version import __version__

Settings = dict[str, Any]
"""Names and values, ready for JSON."""

UNKNOWN = "unknown: a function, which has no weights to hash"
"""The fingerprint of a network that is no module."""

READER = ("channels", "size", "resize", "interpolation", "max_pixels", "value_range")
"""The fields of `PictureReader`: how photographs are read."""


def settings_of(model: Classifier, items: Items, method: Method, seed: int, others: Mapping[str, Any]) -> Settings:
    """List everything that the maps of a run depend on, but not versions, threads and device.

    With other versions, threads or another device, maps agree within their certificates, not to the last bit.

    Args:
        model: the network.
        items: what is explained.
        method: the config.
        seed: of all random numbers.
        others: settings of the run itself, such as the size of its chunks.

    Returns:
        The settings, ready for JSON.
    """
    config = method.resolved(model.takes_pictures) if isinstance(method, CAFO) else method
    reader = model.picture_reader() if model.takes_pictures else None
    return {
        "method": config.to_json(),
        "seed": seed,
        "model": model.name,
        "weights": fingerprint(model),
        "labels": None if model.labels is None else _hash("\0".join(model.labels)),
        "mean": None if model.mean is None else model.mean.flatten().tolist(),
        "std": None if model.std is None else model.std.flatten().tolist(),
        **{name: None if reader is None else _listed(getattr(reader, name)) for name in READER},
        "input_shape": list(model.input_shape),
        "items": len(items),
        "list": items.digest(),
        **others,
    }


def fingerprint(model: Classifier) -> str:
    """Hash the modules of a network and its weights. Equal networks have equal fingerprints on every device.

    Returns:
        The hash in hexadecimal digits, or UNKNOWN for a function.
    """
    net = model.computed
    if not isinstance(net, nn.Module):
        return UNKNOWN
    hashed = hashlib.sha256()
    for name, module in net.named_modules():
        hashed.update(f"{name} {type(module).__qualname__} {module.extra_repr()}\n".encode())
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        array = tensor.detach().cpu().contiguous()
        hashed.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        # As bytes, because numpy does not have all types of torch.
        hashed.update(bytes(array.flatten().view(torch.uint8).numpy()))
    return hashed.hexdigest()


def reader_of(settings: Settings) -> PictureReader | None:
    """Make the reader of the photographs of a run. None: its items were no photographs."""
    if settings["channels"] is None:
        return None
    found: Any = {name: tuple(one) if isinstance(one := settings[name], list) else one for name in READER}
    return PictureReader(**found)


def versions() -> dict[str, str]:
    """List the versions of what computes. With others, maps agree within their certificates, not to the last bit."""
    return {
        "secondsight": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "captum": metadata.version("captum"),
        "pillow": metadata.version("pillow"),
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in one line in which settings two starts differ. The line is empty if they differ in none."""
    found = []
    for name in [*before, *(name for name in now if name not in before)]:
        was, is_now = before.get(name), now.get(name)
        if was == is_now:
            continue
        if name == "method" and was is not None and is_now is not None:
            was, is_now = Method.from_json(was), Method.from_json(is_now)
        if name == "list":
            found.append("the list of items or of their classes is another one")
        else:
            found.append(f"{name} was {was}, is {is_now}")
    return "; ".join(found)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
