"""Activations that are linear on either side of a kink: a fixed mask at given inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from secondsight.operators.tape.linear_steps import Mask, layout
from secondsight.operators.tape.rules.registry import Call, Outcome, elementwise, rule

Limit = float | Tensor
"""A number, perhaps as a tensor without dimensions."""


@elementwise("relu.default")
def _relu(call: Call, x: Tensor) -> Outcome:
    return Mask(_passed(x, (torch.gt, 0)))


@elementwise("leaky_relu.default")
def _leaky_relu(call: Call, x: Tensor, slope: float = 0.01) -> Outcome:
    return Mask(_passed(x, (torch.gt, 0)), slope)


@elementwise("threshold.default")
def _threshold(call: Call, x: Tensor, threshold: float, value: float) -> Outcome:
    return Mask(_passed(x, (torch.gt, threshold)))


@elementwise("hardtanh.default")
def _hardtanh(call: Call, x: Tensor, low: float = -1.0, high: float = 1.0) -> Outcome:
    return Mask(_passed(x, (torch.gt, low), (torch.lt, high)))


@elementwise("relu6.default")
def _relu6(call: Call, x: Tensor) -> Outcome:
    return _hardtanh(call, x, 0.0, 6.0)


@elementwise("clamp.default", "clamp_min.default")
def _clamp(call: Call, x: Tensor, min: Limit | None = None, max: Limit | None = None) -> Outcome:
    # The derivative of clamp at a limit is 1, unlike that of hardtanh.
    conditions = [(torch.ge, min), (torch.le, max)]
    return Mask(_passed(x, *((compare, limit) for compare, limit in conditions if limit is not None)))


@elementwise("clamp_max.default")
def _clamp_max(call: Call, x: Tensor, max: float) -> Outcome:
    return _clamp(call, x, None, max)


@elementwise("clamp.Tensor")
def _clamp_between(call: Call, x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Outcome:
    numbers = all(limit.ndim == 0 for limit in (min, max) if limit is not None)
    return _clamp(call, x, min, max) if numbers else None


@rule("maximum.default", "minimum.default", only_first=False, anywhere=True)
def _larger(call: Call, a: Tensor, b: Tensor) -> Outcome:
    """Choose between an activation and a constant. Where they are equal, autograd's derivative is a half: no mask."""
    if len(call.inputs) > 1 or call.result.shape != call.inputs[0].shape or bool((a == b).any()):
        return None
    chosen = (call.result == call.inputs[0]).to(torch.int8)
    return Mask(call.placement.first(chosen).contiguous(memory_format=layout(chosen)))


def _passed(x: Tensor, *conditions: tuple[Callable[..., Tensor], Limit]) -> Tensor:
    """1 where x meets all conditions, else 0."""
    # Compared into a float tensor first: on the CPU this is several times as fast.
    scratch = torch.empty_like(x)
    passed = [compare(x, limit, out=scratch).to(torch.int8) for compare, limit in conditions]
    for other in passed[1:]:
        passed[0].mul_(other)
    return passed[0].contiguous(memory_format=layout(x))
