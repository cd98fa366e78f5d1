"""Sums of tensors, and products with what does not depend on the input."""

from __future__ import annotations

from torch import Tensor

from secondsight.operators.tape.linear_steps import Add, Scale
from secondsight.operators.tape.rules.attention import products
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


@rule("add.Tensor", "add.Scalar", only_first=False)
def _add(call: Call, a: Tensor | float, b: Tensor | float, alpha: float = 1) -> Outcome:
    if not call.depends(b):
        return "same"
    if not call.depends(a):
        return _scaled(call, float(alpha))
    shape, spread = call.result.shape, []
    for tensor in call.inputs:
        if tensor.ndim != len(shape) or len(tensor) != shape[0]:
            return None
        spread.append([i for i, length in enumerate(tensor.shape) if length != shape[i]])
    return Add(alpha, (spread[0], spread[1]))


@rule("sub.Tensor", "sub.Scalar", only_first=False)
def _sub(call: Call, a: Tensor | float, b: Tensor | float, alpha: float = 1) -> Outcome:
    return _add(call, a, b, -alpha)


@rule("rsub.Scalar", "rsub.Tensor")
def _rsub(call: Call, a: Tensor, b: Tensor | float, alpha: float = 1) -> Outcome:
    return Scale(-1.0) if call.result.shape == a.shape and alpha == 1 else None


@rule("mul.Tensor", "mul.Scalar", only_first=False)
def _mul(call: Call, a: Tensor | float, b: Tensor | float) -> Outcome:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and call.depends(a) and call.depends(b):
        return products(call, a, b)
    return _scaled(call, b if call.depends(a) else a)


@rule("div.Tensor", "div.Scalar")
def _div(call: Call, x: Tensor, divisor: Tensor | float) -> Outcome:
    if isinstance(divisor, Tensor):
        return _scaled(call, 1 / divisor.to(x.dtype))
    return _scaled(call, 1 / divisor) if divisor else None


@rule("neg.default")
def _neg(call: Call, x: Tensor) -> Outcome:
    return Scale(-1.0)


def _scaled(call: Call, factor: Tensor | float) -> Outcome:
    if len(call.inputs) > 1 or call.result.shape != call.inputs[0].shape:
        return None
    if isinstance(factor, Tensor) and factor.ndim == call.result.ndim and len(factor) > 1:
        return None
    return Scale(factor)
