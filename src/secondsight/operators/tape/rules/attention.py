"""Products of two activations, softmax and norms over features: attention, gates, layer and group norm."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor

from secondsight.operators.tape.curved_steps import MatrixProducts, Multiply, Normalise, Softmax
from secondsight.operators.tape.linear_steps import Product, layout
from secondsight.operators.tape.moving_steps import ByAutograd
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


def products(call: Call, a: Tensor, b: Tensor) -> Outcome:
    """The step of a b, where both depend on x."""
    shape, spread = call.result.shape, []
    for tensor in (a, b):
        if tensor.ndim != len(shape) or len(tensor) != shape[0]:
            return None
        spread.append([i for i, length in enumerate(tensor.shape) if length != shape[i]])
    if call.written:
        return None
    # Tangents have this layout. A product of two layouts is slow, and so are the steps after it.
    factors = [tensor.detach().contiguous(memory_format=layout(tensor)) for tensor in (a, b)]
    return Multiply(factors[0], factors[1], (spread[0], spread[1]))


@rule("bmm.default", only_first=False)
def _bmm(call: Call, a: Tensor, b: Tensor) -> Outcome:
    if call.depends(a) and call.depends(b):
        return MatrixProducts(a.detach(), b.detach())
    fixed = b if call.depends(a) else a
    if len(fixed) > 1 and fixed.stride(0) != 0:
        return None
    matrix = fixed[0].detach()
    return Product(matrix) if fixed is b else ByAutograd(lambda tangent: matrix @ tangent, b.shape[1:])


@rule("_softmax.default", "_safe_softmax.default")
def _softmax(call: Call, x: Tensor, dim: int, *settings: Any, **named: Any) -> Outcome:
    if not dim % x.ndim:
        return None
    return Softmax(call.result.detach(), dim % x.ndim - x.ndim)


@rule("native_layer_norm.default")
def _layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Outcome:
    size = prod(shape)
    if x.ndim <= len(shape):
        return None
    _, mean, inverse = call.result
    view = (prod(x.shape[1 : x.ndim - len(shape)]), size)
    mean, inverse = (values.reshape(len(x), view[0], 1).to(x.dtype) for values in (mean, inverse))
    z = (x.detach().reshape(len(x), *view) - mean).mul_(inverse)
    return Normalise(z, inverse, view, None if weight is None else weight.detach().reshape(size))


@rule("native_group_norm.default")
def _group_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    count: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> Outcome:
    _, mean, inverse = call.result
    view = (groups, channels // groups * pixels)
    mean, inverse = (values.reshape(len(x), groups, 1).to(x.dtype) for values in (mean, inverse))
    z = (x.detach().reshape(len(x), *view) - mean).mul_(inverse)
    spread = None if weight is None else weight.detach()[:, None].expand(channels, pixels).reshape(view)
    return Normalise(z, inverse, view, spread)
