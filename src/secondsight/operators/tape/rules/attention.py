"""Products and quotients of two activations, softmax, and layers that normalise: attention, gates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor

from secondsight.operators.tape.curved_steps import MatrixProducts, Multiply, Normalise, Quotient, Softmax
from secondsight.operators.tape.linear_steps import FixedMatrices, Product, own
from secondsight.operators.tape.placement import Placement
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


def products(call: Call, a: Tensor, b: Tensor) -> Outcome:
    """Make the step of a b, where both depend on x. None: their tangents do not fit together."""
    a, b = _before(call, a), _before(call, b)
    spread = call.spread()
    return None if spread is None else Multiply(call.laid_out(a), call.laid_out(b), spread)


def quotients(call: Call, a: Tensor, b: Tensor) -> Outcome:
    """Make the step of a / b, where both depend on x. None: their tangents do not fit together."""
    b = _before(call, b)
    spread = call.spread()
    return None if spread is None else Quotient(call.laid_out(call.result), call.laid_out(b), spread)


def _before(call: Call, values: Tensor) -> Tensor:
    """Copy values if the operation overwrites one of its arguments, which may be these."""
    return values.detach().clone() if call.written else values


@rule("bmm.default", only_first=False, anywhere=True)
def _bmm(call: Call, a: Tensor, b: Tensor) -> Outcome:
    if call.depends(a) and call.depends(b):
        first = call.placement.first
        return None if call.placement.axis else MatrixProducts(own(first(a.detach())), own(first(b.detach())))
    fixed, along = (b, 2) if call.depends(a) else (a, 1)
    matrices = None if call.placement.mixes(along) else _of_each_input(call.placement, fixed.detach())
    if matrices is None:
        return None
    shared = fixed is b and len(matrices) == 1
    return Product(matrices[0]) if shared else FixedMatrices(matrices, left=fixed is a)


def _of_each_input(placement: Placement, fixed: Tensor) -> Tensor | None:
    """Find the fixed matrices of one input: one, or one for each part. None: they differ from input to input."""
    if len(fixed) == 1 or fixed.stride(0) == 0:
        return fixed[:1]
    # Inputs that are counted further behind share the parts in dimension 0.
    if placement.axis:
        return fixed
    if not placement.is_first:
        return None
    each = fixed.unflatten(0, (placement.inputs, -1))
    return each[0] if bool((each == each[0]).all()) else None


@rule("baddbmm.default", only_first=False, anywhere=True)
def _baddbmm(call: Call, added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Outcome:
    return None if call.depends(added) or alpha != 1 else _bmm(call, a, b)


@rule("_softmax.default", "_safe_softmax.default", anywhere=True)
def _softmax(call: Call, x: Tensor, dim: int, *settings: Any, **named: Any) -> Outcome:
    dim %= x.ndim
    if dim == 0 or call.placement.mixes(dim):
        return None
    return Softmax(call.placement.first(call.result.detach()), dim - x.ndim)


@rule("native_layer_norm.default", anywhere=True)
def _layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Outcome:
    normalised = range(x.ndim - len(shape), x.ndim)
    if 0 in normalised or any(map(call.placement.mixes, normalised)):
        return None
    x, mean, inverse = (call.placement.first(values) for values in (x.detach(), *call.result[1:]))
    view = (prod(x.shape[1 : x.ndim - len(shape)]), prod(shape))
    mean, inverse = (values.reshape(len(x), view[0], 1).to(x.dtype) for values in (mean, inverse))
    z = (x.reshape(len(x), *view) - mean).mul_(inverse)
    return Normalise(z, inverse, view, None if weight is None else weight.detach().reshape(prod(shape)))


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
