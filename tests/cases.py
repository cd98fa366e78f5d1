"""Small networks and inputs, as data: a name, a float64 net in eval mode, an input, whether it is piecewise linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from secondsight import Classifier, Method
from secondsight.config import method_of


@dataclass(frozen=True)
class Case:
    name: str
    net: nn.Module
    x: Tensor
    piecewise_linear: bool

    def classifier(self) -> Classifier:
        return Classifier(self.net, input_shape=self.x.shape)

    def __str__(self) -> str:
        return self.name


class Attention(nn.Module):
    """Self-attention over four tokens, read out by their mean."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            y = nn.functional.scaled_dot_product_attention(x, x, x)
        else:
            y, _ = self.attention(x, x, x, need_weights=False)
        return self.head((x + y).mean(1)) / 3


class SqueezeExcite(nn.Module):
    """A convolution with SiLU, whose channels are gated by what is in all of its pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.narrow, self.wide = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.last, self.head = nn.Conv2d(8, 6, 1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        silu = nn.functional.silu
        y = silu(self.first(x))
        y = y * self.wide(silu(self.narrow(y.mean((2, 3), keepdim=True)))).sigmoid()
        return self.head(silu(self.last(y)).mean((2, 3)))


def lively(net: nn.Module, seed: int) -> nn.Module:
    """Random weights, and batch-norm statistics that are not the identity."""
    generator = torch.Generator().manual_seed(seed)
    net = net.double().eval()
    for name, tensor in net.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            positive = name.endswith("running_var") or (tensor.ndim == 1 and name.endswith("weight"))
            fan_in = tensor[0].numel() if tensor.ndim > 1 else 1
            tensor.copy_(noise.abs() + 0.5 if positive else noise * 1.5 / fan_in**0.5)
    return net


def _mlp(activation: Callable[[], nn.Module], inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), activation(), nn.Linear(16, 12), activation(), nn.Linear(12, classes))


def _conv(activation: Callable[[], nn.Module], channels: int = 3, classes: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        activation(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        activation(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, classes),
    )


def _input(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PIECEWISE_LINEAR = [
    Case("relu-mlp", lively(_mlp(nn.ReLU, 10, 4), 0), _input(10), True),
    Case("relu-two-classes", lively(_mlp(nn.ReLU, 7, 2), 1), _input(7), True),
    Case("linear", lively(nn.Linear(9, 5), 2), _input(9), True),
    Case("conv-maxpool-batchnorm", lively(_conv(nn.ReLU), 3), _input(3, 4, 6), True),
    Case("leaky-inplace", lively(_conv(lambda: nn.LeakyReLU(0.1, inplace=True)), 4), _input(3, 5, 5), True),
    Case("relu6-one-channel", lively(_conv(nn.ReLU6, channels=1), 5), _input(1, 6, 4), True),
]
CURVED = [
    Case("gelu-mlp", lively(_mlp(nn.GELU, 10, 4), 6), _input(10), False),
    Case("softplus-conv", lively(_conv(nn.Softplus), 7), _input(3, 4, 4), False),
    Case("attention", lively(Attention(fused=False), 8), _input(4, 6), False),
    Case("fused-attention", lively(Attention(fused=True), 9), _input(4, 6), False),
    Case("sigmoid-two-classes", lively(_mlp(nn.Sigmoid, 8, 2), 10), _input(8), False),
    Case("silu-squeeze-excite", lively(SqueezeExcite(), 11), _input(3, 5, 4), False),
]
CASES = PIECEWISE_LINEAR + CURVED


def configured(method: str, **options: Any) -> Method:
    """The config of a method with those of the options that it has; windows of a size that fits small pictures."""
    config = method_of(method, groups="window:2") if method == "picture" else method_of(method)
    return config.with_options(**{name: value for name, value in options.items() if config.has(name)})
