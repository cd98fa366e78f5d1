"""Activations that are curved: the slope at the input is stored, the second derivative is computed when needed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from secondsight.operators.tape.curved_steps import Elementwise
from secondsight.operators.tape.linear_steps import aten, layout
from secondsight.operators.tape.rules.registry import Call, Outcome, elementwise

Function = Callable[[Tensor], Tensor]
"""An elementwise function of torch."""


@elementwise("gelu.default")
def _gelu(call: Call, x: Tensor, approximate: str = "none") -> Outcome:
    slope = aten.gelu_backward(torch.ones_like(x), x, approximate=approximate)
    return _curved(call, x, slope, lambda a: functional.gelu(a, approximate=approximate))


@elementwise("silu.default")
def _silu(call: Call, x: Tensor) -> Outcome:
    return _curved(call, x, aten.silu_backward(torch.ones_like(x), x), functional.silu)


@elementwise("mish.default")
def _mish(call: Call, x: Tensor) -> Outcome:
    return _curved(call, x, aten.mish_backward(torch.ones_like(x), x), functional.mish)


@elementwise("sigmoid.default")
def _sigmoid(call: Call, x: Tensor) -> Outcome:
    return _curved(call, x, aten.sigmoid_backward(torch.ones_like(x), x.sigmoid()), torch.sigmoid)


@elementwise("tanh.default")
def _tanh(call: Call, x: Tensor) -> Outcome:
    return _curved(call, x, aten.tanh_backward(torch.ones_like(x), x.tanh()), torch.tanh)


@elementwise("softplus.default")
def _softplus(call: Call, x: Tensor, beta: float = 1, threshold: float = 20) -> Outcome:
    slope = aten.softplus_backward(torch.ones_like(x), x, beta, threshold)
    return _curved(call, x, slope, lambda a: functional.softplus(a, beta, threshold))


@elementwise("elu.default")
def _elu(call: Call, x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Outcome:
    slope = aten.elu_backward(torch.ones_like(x), alpha, scale, input_scale, False, x)
    return _curved(call, x, slope, lambda a: aten.elu(a, alpha, scale, input_scale))


@elementwise("celu.default")
def _celu(call: Call, x: Tensor, alpha: float = 1) -> Outcome:
    return _elu(call, x, alpha, 1, 1 / alpha)


@elementwise("exp.default")
def _exp(call: Call, x: Tensor) -> Outcome:
    return _curved(call, x, x.exp(), torch.exp)


@elementwise("pow.Tensor_Scalar")
def _pow(call: Call, x: Tensor, exponent: float) -> Outcome:
    slope = exponent * x.pow(exponent - 1)
    return _curved(call, x, slope, lambda a: a.pow(exponent)) if bool(torch.isfinite(slope).all()) else None


@elementwise("sqrt.default")
def _sqrt(call: Call, x: Tensor) -> Outcome:
    return _pow(call, x, 0.5)


@elementwise("rsqrt.default")
def _rsqrt(call: Call, x: Tensor) -> Outcome:
    return _pow(call, x, -0.5)


@elementwise("reciprocal.default")
def _reciprocal(call: Call, x: Tensor) -> Outcome:
    return _pow(call, x, -1.0)


@elementwise("hardswish.default")
def _hardswish(call: Call, x: Tensor) -> Outcome:
    slope = aten.hardswish_backward(torch.ones_like(x), x)
    # torch has no second derivative of hardswish.
    return _step(call, x, slope, lambda a: ((a > -3) & (a < 3)).to(a.dtype) / 3)


@elementwise("hardsigmoid.default")
def _hardsigmoid(call: Call, x: Tensor) -> Outcome:
    slope = aten.hardsigmoid_backward(torch.ones_like(x), x)
    return Elementwise(slope.contiguous(memory_format=layout(x)))


def _curved(call: Call, x: Tensor, slope: Tensor, function: Function) -> Outcome:
    return _step(call, x, slope, lambda a: _second_derivative(function, a))


def _step(call: Call, x: Tensor, slope: Tensor, second: Function) -> Outcome:
    value = x.detach().clone() if call.written else x.detach()
    form = layout(x)
    return Elementwise(slope.contiguous(memory_format=form), value.contiguous(memory_format=form), second)


def _second_derivative(function: Function, a: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = a.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
        return torch.autograd.grad(slope.sum(), leaf)[0]
