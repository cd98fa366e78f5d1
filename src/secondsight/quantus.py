"""Maps for the metrics of Quantus, which call an `explain_func` for each batch.

    metric(model=net, x_batch=x, y_batch=y, explain_func=secondsight.quantus.explain_func,
           explain_func_kwargs={"method": "caso(lambda1=10%)"}, device="cpu")

Pass pictures as the network takes them, already normalised. A map raises the loss, so positive works against the class;
sign="score" turns that around.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from secondsight.captum import ATTRIBUTIONS
from secondsight.config import CAFO, method_of
from secondsight.errors import InputError, shown
from secondsight.model.classifier_checks import require_dense


def explain_func(
    model: nn.Module,
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    method: CAFO | str = "caso",
    sign: Literal["loss", "score"] = "loss",
    seed: int = 0,
    device: str | None = None,
    **options: Any,
) -> NDArray[np.floating]:
    """Compute one map for each input, in its shape.

    Args:
        model: the network, from a batch to logits.
        inputs: an array or tensor with a batch dimension.
        targets: the class of each input, as an array or tensor.
        method: a config or a string: cafo, caso, smooth-cafo or smooth-caso, alone or with options.
        sign: "loss": positive works against the class. "score": positive speaks for it.
        seed: of all random numbers.
        device: where the inputs go; None: where the network is.
        **options: further options of the method, such as lambda1.

    Returns:
        An array in the shape of `inputs`.

    Raises:
        InputError: if the method is unknown, or an option cannot be used.

    Example:
        >>> net = torch.nn.Linear(8, 3)
        >>> explain_func(net, np.ones((2, 8)), [0, 2], method="cafo(lambda1=10%)").shape
        (2, 8)
    """
    config = method_of(method)
    if not isinstance(config, CAFO) or config.name not in ATTRIBUTIONS:
        raise InputError("method", f"one of {', '.join(ATTRIBUTIONS)}", repr(config.name))
    if not isinstance(model, nn.Module):
        raise InputError("model", "a torch.nn.Module", f"a {type(model).__name__}")
    x = _numbers("inputs", inputs).to(_device(model, device), torch.float32)
    y = _numbers("targets", targets)
    if not bool((y == y.long()).all()):
        raise InputError("targets", "the index of a class for each input", shown(targets))
    attribution = ATTRIBUTIONS[config.name](model, sign=sign, seed=seed, **(config.changed() | options))
    maps = attribution.attribute(x, target=y.long())
    result: NDArray[np.floating] = maps.numpy(force=True)
    return result


def _numbers(argument: str, value: ArrayLike | Tensor) -> Tensor:
    """Turn an array of numbers into a tensor on the CPU, in float64."""
    if isinstance(value, Tensor):
        require_dense(argument, value)
        value = (value if value.is_complex() else value.double()).numpy(force=True)
    try:
        array = np.array(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise InputError(argument, "an array of numbers", shown(value))
    return torch.from_numpy(array.astype(np.float64))


def _device(model: nn.Module, device: Any) -> torch.device:
    if device is None:
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, TypeError, ValueError, AssertionError):
        # torch asserts that it was built for a device.
        raise InputError("device", "one that torch has here", shown(device)) from None
