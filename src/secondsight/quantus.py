"""Our maps for the metrics of Quantus, which call an `explain_func` for each batch.

    metric(model=net, x_batch=x, y_batch=y, explain_func=secondsight.quantus.explain_func,
           explain_func_kwargs={"method": "caso"}, device="cpu")

Pictures are as the network takes them, normalised; maps raise the loss, so positive works against the class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from secondsight import captum
from secondsight.errors import InputError

METHODS = {
    "cafo": captum.CAFO,
    "caso": captum.CASO,
    "smooth-cafo": captum.SmoothCAFO,
    "smooth-caso": captum.SmoothCASO,
}


def explain_func(
    model: nn.Module,
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    method: str = "caso",
    device: str | None = None,
    **options: Any,
) -> NDArray[np.floating]:
    """One map for each input, of its shape.

    Args:
        model: the network, from a batch to logits.
        inputs, targets: arrays (or tensors) of inputs and of their classes.
        method: cafo, caso, smooth-cafo or smooth-caso.
        device: where the inputs go; None: where the network is.
        options: of `secondsight.explain`.
    """
    if method not in METHODS:
        raise InputError("method", f"one of {', '.join(METHODS)}", repr(method))
    where = device or next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    x = torch.as_tensor(np.array(inputs), dtype=torch.float32, device=where)
    y = torch.as_tensor(np.array(targets)).long()
    maps = METHODS[method](model).attribute(x, target=y, **options)
    result: NDArray[np.floating] = maps.numpy(force=True)
    return result
