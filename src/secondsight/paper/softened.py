"""A piecewise-linear network made smooth: softplus(beta) in place of each ReLU, with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from secondsight.errors import ModelError
from secondsight.model.classifier import Classifier

RELUS = {functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_}
"""Every function of torch that is ReLU. `relu6` is replaced by a difference of two softplus."""


class _Softplus(TorchFunctionMode):
    """While this is active, ReLU is softplus and ReLU6 is the difference of two softplus.

    Attributes:
        replaced: how many calls were replaced so far.
    """

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.replaced = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in RELUS or func is functional.relu6:
            self.replaced += 1
            x = args[0] if args else kwargs["input"]
            soft = functional.softplus(x, self.beta)
            return soft if func in RELUS else soft - functional.softplus(x - 6, self.beta)
        return func(*args, **kwargs)


class _Softened(nn.Module):
    """The logits of a classifier, computed with smooth activations."""

    def __init__(self, model: Classifier, beta: float) -> None:
        super().__init__()
        self.net = model.net
        self.logits, self.beta = model.logits, beta

    def forward(self, x: Tensor) -> Tensor:
        with _Softplus(self.beta) as mode:
            logits = self.logits(x)
        if not mode.replaced:
            raise ModelError("no ReLU was met that softplus could stand for")
        return logits


def softened(model: Classifier, beta: float) -> Classifier:
    """Return the same network and preprocessing with smooth activations.

    Args:
        model: the piecewise-linear network; its weights are shared.
        beta: of softplus; the larger, the nearer to ReLU.

    Raises:
        ModelError: on its first use, if the network calls no ReLU that can be replaced.
    """
    return Classifier(
        _Softened(model, beta),
        size=model.size,
        labels=model.labels,
        channels=model.channels,
        resize=model.resize,
        interpolation=model.interpolation,
        name=f"{model.name}-softplus-{beta:g}",
        piecewise_linear=False,
    )
