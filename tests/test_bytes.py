"""The peak of the memory for a product with the Hessian of a network, beside the peak for one gradient.

Bytes are those that torch's allocator gives out, so they are the same on every machine. The activations of these
networks are much larger than the input. The solver's memory is not counted. It depends on the size of the input, not on
the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import secondsight as ss
from cases import lively
from secondsight.operators.exact_hessian import ExactHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.linearisation import linearise

WIDTH, HEADS, SIDE = 32, 4, 16


class Gate(nn.Module):
    """Squeeze-and-excitation: each channel is multiplied with a factor, computed from the means of all channels."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(WIDTH, WIDTH // 4, 1), nn.Conv2d(WIDTH // 4, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((2, 3), keepdim=True)
        return x * self.wide(nn.functional.silu(self.narrow(means))).sigmoid()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(n, tokens, WIDTH))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.patches(x).flatten(2).transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def pictures(*after: Callable[[], nn.Module]) -> nn.Module:
    """Make a network of four convolutions, each with these layers after it."""
    layers: list[nn.Module] = []
    for channels in (3, WIDTH, WIDTH, WIDTH):
        layers += [nn.Conv2d(channels, WIDTH, 3, padding=1), *(layer() for layer in after)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 5))


def sequences(*layers: Callable[[], nn.Module]) -> nn.Module:
    """Make a network of patches, with three times these layers after them."""
    return nn.Sequential(Tokens(), *(layer() for _ in range(3) for layer in layers), Mean(), nn.Linear(WIDTH, 5))


FAMILIES: dict[str, tuple[Callable[[], nn.Module], float, float]] = {
    "relu": (lambda: pictures(lambda: nn.BatchNorm2d(WIDTH), nn.ReLU), 0.9, 0.9),
    "gelu": (lambda: pictures(lambda: nn.BatchNorm2d(WIDTH), nn.GELU), 1.3, 1.2),
    "hard-swish": (lambda: pictures(lambda: nn.BatchNorm2d(WIDTH), nn.Hardswish), 1.3, 1.2),
    "gates": (lambda: pictures(nn.SiLU, Gate), 1.9, 1.4),
    "group-norm": (lambda: pictures(lambda: nn.GroupNorm(4, WIDTH), nn.SiLU), 2.1, 1.6),
    "layer-norm": (
        lambda: sequences(
            lambda: nn.LayerNorm(WIDTH), lambda: nn.Linear(WIDTH, 128), nn.GELU, lambda: nn.Linear(128, WIDTH)
        ),
        2.6,
        1.6,
    ),
    "attention": (lambda: sequences(Attention), 2.9, 1.25),
}
"""Networks by their kind of layers. The numbers are limits of the peak over that of a gradient: for the exact Hessian,
and for Gauss-Newton."""


def peak(work: Callable[[], object]) -> int:
    """Find the most bytes that are allocated at one time while `work` runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        result = work()
    assert watched.profiler is not None
    events = watched.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    del result
    return most


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "gauss-newton"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_peak_of_a_product_is_within_its_limit(family: str, exact: bool) -> None:
    build, *limits = FAMILIES[family]
    model = ss.Classifier(lively(build(), 0), size=SIDE)
    x = torch.rand(3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leaf, v = x[None].clone().requires_grad_(), torch.ones(x.numel(), 1, dtype=torch.float64)

    def product() -> Tensor:
        with model.ready():
            linear = linearise(model, x[None], None, record=True)
            assert linear.gradient().any()
            hessian = (ExactHessian if exact else GaussNewton)(linear)
            assert hessian.shareable
            return hessian @ v

    # The first product also pays for the checks of the network.
    product()
    one = peak(lambda: torch.autograd.grad(model(leaf).log_softmax(1).max(), leaf))
    assert one > 10 * x.nbytes
    assert peak(product) <= limits[not exact] * one


class Layouts(TorchDispatchMode):
    """Notes the layouts of the pictures that convolutions take, as torch sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.memory_format] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket in (torch.ops.aten.convolution, torch.ops.aten.convolution_backward):
            self.found.append(suggest_memory_format(args[0]))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("family", ["relu", "gelu", "hard-swish", "gates"])
def test_convolutions_copy_few_pictures(family: str, directions: int) -> None:
    """Torch may take a single picture for one whose channels do not come last, by the stride of its dimension 0."""
    model = ss.Classifier(lively(FAMILIES[family][0](), 0), size=SIDE)
    x = torch.rand(3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with model.ready():
        linear = linearise(model, x[None], None, record=True)
        hessian = (GaussNewton if linear.jacobian.piecewise_linear else ExactHessian)(linear)
        assert hessian.shareable
        with Layouts() as layouts:
            hessian @ torch.ones(x.numel(), directions, dtype=torch.float64)
    # In each backward pass, what comes from the mean over all pixels is copied.
    passes = 1 if hessian.psd else 2
    assert len(layouts.found) == 4 * (passes + 1)
    assert layouts.found.count(torch.channels_last) >= len(layouts.found) - passes
