"""Operations that only move entries: shapes, slices, joins, copies."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from secondsight.operators.tape.linear_steps import Step
from secondsight.operators.tape.moving_steps import ByAutograd, Cat, Reshape
from secondsight.operators.tape.rules.registry import Call, Outcome, Placed, rule


@rule(
    "view.default",
    "_unsafe_view.default",
    "_reshape_alias.default",
    "reshape.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze.default",
)
def _reshape(call: Call, x: Tensor, *shape: Any) -> Outcome:
    return Reshape(x.shape[1:], call.result.shape[1:])


@rule("permute.default")
def _permute(call: Call, x: Tensor, dims: list[int]) -> Outcome:
    return _moved(call, x, [dim % x.ndim for dim in dims])


@rule("transpose.int", "swapaxes.default")
def _transpose(call: Call, x: Tensor, a: int, b: int) -> Outcome:
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return _moved(call, x, dims)


def _moved(call: Call, x: Tensor, dims: list[int]) -> Outcome:
    """Permute dimensions. Tangents have the inputs first, wherever these are in the tensor."""
    before = call.axis
    after = dims.index(before)
    step = ByAutograd(lambda tangent: tangent.movedim(0, before).permute(dims).movedim(after, 0), _shape(x, before))
    return Placed([step], after)


@rule("unbind.int")
def _unbind(call: Call, x: Tensor, dim: int = 0) -> Outcome:
    dim %= x.ndim
    if dim == call.axis:
        return None
    return Placed([_picked(x, call.axis, dim, i) for i in range(x.shape[dim])], call.axis - (dim < call.axis))


def _picked(x: Tensor, axis: int, dim: int, index: int) -> Step:
    after = axis - (dim < axis)
    function = lambda tangent: tangent.movedim(0, axis).select(dim, index).movedim(after, 0)  # noqa: E731
    return ByAutograd(function, _shape(x, axis))


def _shape(x: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(length for i, length in enumerate(x.shape) if i != axis)


@rule("expand.default")
def _expand(call: Call, x: Tensor, sizes: list[int]) -> Outcome:
    if len(sizes) != x.ndim or len(call.result) != len(x):
        return None
    # Attention expands to sizes that include the number of inputs, even where nothing is repeated. No step is recorded
    # for that, because joined tapes must not differ in it.
    if call.result.shape == x.shape:
        return "same"
    lengths = call.result.shape[1:]
    return ByAutograd(lambda tangent: tangent.expand(-1, *lengths), x.shape[1:])


@rule("slice.Tensor")
def _slice(call: Call, x: Tensor, dim: int = 0, *bounds: Any) -> Outcome:
    if call.result.shape == x.shape:
        return "same"
    return call.by_autograd() if dim % x.ndim else None


@rule("select.int")
def _select(call: Call, x: Tensor, dim: int, index: int) -> Outcome:
    dim %= x.ndim
    if dim == call.axis:
        return None
    return Placed([_picked(x, call.axis, dim, index)], call.axis - (dim < call.axis))


@rule("split.Tensor", "split_with_sizes.default")
def _split(call: Call, x: Tensor, sizes: int | list[int], dim: int = 0) -> Outcome:
    if not dim % x.ndim:
        return None
    steps, start = list[Step](), 0
    for piece in call.result:
        steps.append(_narrow(x, dim, start, piece.shape[dim]))
        start += piece.shape[dim]
    return steps


def _narrow(x: Tensor, dim: int, start: int, length: int) -> Step:
    return ByAutograd(lambda tangent: tangent.narrow(dim, start, length), x.shape[1:])


@rule("cat.default", only_first=False)
def _cat(call: Call, tensors: list[Tensor], dim: int = 0) -> Outcome:
    if not dim % call.inputs[0].ndim:
        return None
    if any(tensor.ndim != call.inputs[0].ndim for tensor in tensors):
        return None
    lengths = [tensor.shape[dim] for tensor in tensors]
    return Cat(dim, lengths, [call.depends(tensor) for tensor in tensors])


@rule("clone.default", "alias.default", "contiguous.default", "_to_copy.default")
def _copy(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "same"


@rule("as_strided.default")
def _as_strided(call: Call, x: Tensor, size: list[int], stride: list[int], offset: int | None = None) -> Outcome:
    """Nothing moves if only the strides of dimensions of one entry change."""
    alike = all(a == b or length == 1 for a, b, length in zip(x.stride(), stride, x.shape, strict=True))
    return "same" if tuple(size) == x.shape and alike and offset in (None, x.storage_offset()) else None


@rule("roll.default")
def _roll(call: Call, x: Tensor, shifts: list[int], dims: list[int]) -> Outcome:
    return call.by_autograd() if dims and all(dim % x.ndim for dim in dims) else None


DETACH = "detach.default"
"""The operation whose result autograd does not follow, although its value depends on x."""

CONSTANT = [
    DETACH,
    *(f"{name}.default" for name in ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")),
]
"""Operations whose results autograd does not follow, although an argument depends on x."""


@rule(*CONSTANT)
def _constant(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "constant"
