"""Sums, products and quotients. attention.py makes the steps of products and quotients of two activations."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.operators.tape.linear_steps import Add, Scale
from secondsight.operators.tape.rules.attention import products, quotients
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


@rule("add.Tensor", "add.Scalar", only_first=False, anywhere=True)
def _add(call: Call, a: Tensor | float, b: Tensor | float, alpha: float = 1) -> Outcome:
    if not call.depends(b):
        return "same"
    if not call.depends(a):
        return _scaled(call, float(alpha))
    spread = call.spread()
    return None if spread is None else Add(alpha, spread)


@rule("sub.Tensor", "sub.Scalar", only_first=False, anywhere=True)
def _sub(call: Call, a: Tensor | float, b: Tensor | float, alpha: float = 1) -> Outcome:
    return _add(call, a, b, -alpha)


@rule("rsub.Scalar", "rsub.Tensor", anywhere=True)
def _rsub(call: Call, a: Tensor, b: Tensor | float, alpha: float = 1) -> Outcome:
    return Scale(-1.0) if call.result.shape == a.shape and alpha == 1 else None


@rule("mul.Tensor", "mul.Scalar", only_first=False, anywhere=True)
def _mul(call: Call, a: Tensor | float, b: Tensor | float) -> Outcome:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and call.depends(a) and call.depends(b):
        return products(call, a, b)
    return _scaled(call, b if call.depends(a) else a)


@rule("addcmul.default", only_first=False, anywhere=True)
def _addcmul(call: Call, added: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Outcome:
    return None if call.depends(added) else _scaled(call, value * (b if call.depends(a) else a))


@rule("div.Tensor", "div.Scalar", only_first=False, anywhere=True)
def _div(call: Call, x: Tensor | float, divisor: Tensor | float) -> Outcome:
    if isinstance(divisor, Tensor) and call.depends(divisor):
        return quotients(call, x, divisor) if isinstance(x, Tensor) and call.depends(x) else None
    if isinstance(divisor, Tensor):
        return _scaled(call, 1 / divisor.to(call.result.dtype))
    return _scaled(call, 1 / divisor) if divisor else None


@rule("neg.default", anywhere=True)
def _neg(call: Call, x: Tensor) -> Outcome:
    return Scale(-1.0)


def _scaled(call: Call, factor: Tensor | float) -> Outcome:
    if len(call.inputs) > 1:
        return None
    shape = call.inputs[0].shape
    if not isinstance(factor, Tensor):
        return Scale(factor) if call.result.shape == shape else None
    ndim = call.result.ndim
    lengths = (1,) * (ndim - factor.ndim) + factor.shape
    # A factor that differs from input to input would not fit the tangents.
    if ndim != len(shape) or (lengths[call.placement.axis] > 1 and call.placement.inputs > 1):
        return None
    if call.result.shape == shape and lengths[0] == 1:
        return Scale(factor)
    if call.written or call.result.shape != torch.broadcast_shapes(shape, factor.shape):
        return None
    return call.on_each(lambda each: each * factor, call.result, call.placement, factor.detach())
