"""Layers with weights, and dropout: convolutions, linear layers, batch norm."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from secondsight.devices import policy
from secondsight.operators.tape.linear_steps import Convolution, Pointwise, Product, Scale
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


@rule("convolution.default")
def _convolution(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Outcome:
    if x.ndim != weight.ndim:
        return None
    stride, padding, _, transposed, _, groups = settings
    plain = groups == 1 and not transposed and not any(padding)
    if plain and weight.shape[2:] == (1, 1) and policy(x.device).pointwise_products:
        return Pointwise(weight, x.shape[1:], tuple(stride))
    return Convolution(weight, x.shape[1:], settings)


@rule("mm.default", anywhere=True)
def _mm(call: Call, x: Tensor, matrix: Tensor) -> Outcome:
    return None if call.placement.mixes(1) else Product(matrix)


@rule("addmm.default", only_first=False, anywhere=True)
def _addmm(call: Call, bias: Tensor, x: Tensor, matrix: Tensor) -> Outcome:
    return _mm(call, x, matrix) if call.only(x) else None


@rule("linear.default", anywhere=True)
def _linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Outcome:
    return Product(weight.T) if x.ndim > 1 and not call.placement.mixes(x.ndim - 1) else None


@rule(
    "native_batch_norm.default",
    "cudnn_batch_norm.default",
    "miopen_batch_norm.default",
    "_native_batch_norm_legit.default",
)
def _batch_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Outcome:
    if training or variance is None:
        return None
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    return Scale(scale.reshape(-1, *[1] * (x.ndim - 2)))


@rule("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def _fixed_batch_norm(call: Call, x: Tensor, *rest: Any) -> Outcome:
    *statistics, momentum, eps = rest
    return _batch_norm(call, x, *statistics, False, momentum, eps)


@rule("native_dropout.default", anywhere=True)
def _dropout(call: Call, x: Tensor, p: float, train: bool | None) -> Outcome:
    return "same" if train is False else None
