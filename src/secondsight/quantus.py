"""Maps for the metrics of Quantus, which call an `explain_func` for each batch.

    metric(model=net, x_batch=x, y_batch=y, explain_func=secondsight.quantus.explain_func,
           explain_func_kwargs={"method": "caso"}, device="cpu")

Pass pictures as the network takes them, already normalised. A map raises the loss, so positive works against the class.
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
"""The attributions by the names that `explain` gives their methods."""


def explain_func(
    model: nn.Module,
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    method: str = "caso",
    device: str | None = None,
    **options: Any,
) -> NDArray[np.floating]:
    """Compute one map for each input, in its shape.

    Args:
        model: the network, from a batch to logits.
        inputs: an array or tensor with a batch dimension.
        targets: the class of each input, as an array or tensor.
        method: cafo, caso, smooth-cafo or smooth-caso.
        device: where the inputs go; None: where the network is.
        options: further options of `secondsight.explain`.

    Returns:
        An array in the shape of `inputs`.

    Raises:
        InputError: if the method is unknown, or an option cannot be used.
    """
    if method not in METHODS:
        raise InputError("method", f"one of {', '.join(METHODS)}", repr(method))
    where = device or next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    x = torch.as_tensor(np.array(inputs), dtype=torch.float32, device=where)
    y = torch.as_tensor(np.array(targets)).long()
    maps = METHODS[method](model).attribute(x, target=y, **options)
    result: NDArray[np.floating] = maps.numpy(force=True)
    return result
