"""Operations that only move entries: shapes, slices, joins, copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from secondsight.operators.tape.linear_steps import Step, aten
from secondsight.operators.tape.moving_steps import Cat, Reshape, Stack
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
    anywhere=True,
)
def _reshape(call: Call, x: Tensor, *shape: Any) -> Outcome:
    placement = call.placement.viewed(x.shape, call.result.shape)
    if placement is None:
        return None
    return Placed([Reshape(call.shape[1:], placement.of_one(call.result.shape)[1:])], placement)


@rule("permute.default", anywhere=True)
def _permute(call: Call, x: Tensor, dims: list[int]) -> Outcome:
    return _moved(call, [dim % x.ndim for dim in dims])


@rule("transpose.int", "swapaxes.default", anywhere=True)
def _transpose(call: Call, x: Tensor, a: int, b: int) -> Outcome:
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return _moved(call, dims)


@rule("t.default", anywhere=True)
def _t(call: Call, x: Tensor) -> Outcome:
    return _moved(call, list(range(x.ndim))[::-1])


def _moved(call: Call, dims: list[int]) -> Outcome:
    placement, order = call.placement.permuted(dims), [0, *(dim + 1 for dim in dims)]
    return Placed([call.on_each(lambda each: each.permute(order), call.result, placement)], placement)


@rule("unbind.int", anywhere=True)
def _unbind(call: Call, x: Tensor, dim: int = 0) -> Outcome:
    return _picked(call, dim % x.ndim, call.result, range(x.shape[dim]))


@rule("select.int", anywhere=True)
def _select(call: Call, x: Tensor, dim: int, index: int) -> Outcome:
    return _picked(call, dim % x.ndim, [call.result], [index])


def _picked(call: Call, dim: int, results: Sequence[Tensor], indices: Iterable[int]) -> Outcome:
    if call.placement.mixes(dim):
        return None
    placement = call.placement.without([dim])

    def step(index: int, result: Tensor) -> Step:
        return call.on_each(lambda each: each.select(dim + 1, index), result, placement)

    return Placed([step(*pair) for pair in zip(indices, results, strict=True)], placement)


@rule("expand.default", anywhere=True)
def _expand(call: Call, x: Tensor, sizes: list[int]) -> Outcome:
    if len(sizes) != x.ndim:
        return None
    repeated = [dim for dim, length in enumerate(call.result.shape) if length != x.shape[dim]]
    if any(map(call.placement.mixes, repeated)):
        return None
    # Attention expands to sizes that include the number of inputs, even where nothing is repeated. No step is recorded
    # for that, because joined tapes must not differ in it.
    if not repeated:
        return "same"
    lengths = call.placement.of_one(call.result.shape)
    return call.on_each(lambda each: each.expand(-1, *lengths), call.result, call.placement)


@rule("repeat.default", anywhere=True)
def _repeat(call: Call, x: Tensor, counts: list[int]) -> Outcome:
    if len(counts) != x.ndim or any(call.placement.mixes(dim) for dim, count in enumerate(counts) if count != 1):
        return None
    return call.on_each(lambda each: each.repeat(1, *counts), call.result, call.placement)


@rule("unfold.default", anywhere=True)
def _unfold(call: Call, x: Tensor, dim: int, size: int, step: int) -> Outcome:
    dim %= x.ndim
    if call.placement.mixes(dim):
        return None
    # Windows that overlap share memory. Without a copy, a later step that overwrites its tangent would do so twice.
    return call.on_each(lambda each: each.unfold(dim + 1, size, step).contiguous(), call.result, call.placement)


@rule("index.Tensor", anywhere=True)
def _index(call: Call, x: Tensor, indices: list[Tensor | None]) -> Outcome:
    *before, index = indices
    if index is None or any(other is not None for other in before):
        return None
    dim = len(before)
    if index.ndim != 1 or call.placement.mixes(dim):
        return None
    places = [None, *before, index]
    return call.on_each(lambda each: aten.index(each, places), call.result, call.placement, index)


@rule("slice.Tensor", anywhere=True)
def _slice(call: Call, x: Tensor, dim: int = 0, *bounds: Any) -> Outcome:
    dim %= x.ndim
    if call.result.shape == x.shape:
        return "same"
    if call.placement.mixes(dim):
        return None
    return call.on_each(lambda each: aten.slice(each, dim + 1, *bounds), call.result, call.placement)


@rule("split.Tensor", "split_with_sizes.default", anywhere=True)
def _split(call: Call, x: Tensor, sizes: int | list[int], dim: int = 0) -> Outcome:
    dim %= x.ndim
    if call.placement.mixes(dim):
        return None
    steps, start = list[Step](), 0
    for piece in call.result:
        steps.append(_narrow(call, piece, dim, start))
        start += piece.shape[dim]
    return steps


def _narrow(call: Call, piece: Tensor, dim: int, start: int) -> Step:
    length = piece.shape[dim]
    return call.on_each(lambda each: each.narrow(dim + 1, start, length), piece, call.placement)


@rule("cat.default", only_first=False, anywhere=True)
def _cat(call: Call, tensors: list[Tensor], dim: int = 0) -> Outcome:
    ndim = call.inputs[0].ndim
    if call.placement.mixes(dim % ndim) or any(tensor.ndim != ndim for tensor in tensors):
        return None
    lengths = [tensor.shape[dim] for tensor in tensors]
    return Cat(dim % ndim, lengths, [call.depends(tensor) for tensor in tensors])


@rule("stack.default", only_first=False, anywhere=True)
def _stack(call: Call, tensors: list[Tensor], dim: int = 0) -> Outcome:
    dim %= call.result.ndim
    widened = call.inputs[0].unsqueeze(dim).shape
    placement = call.placement.viewed(call.inputs[0].shape, widened)
    if placement is None:
        return None
    depends = [call.depends(tensor) for tensor in tensors]
    step = Stack(dim, [1] * len(tensors), depends, call.shape[1:], placement.of_one(widened)[1:])
    return Placed([step], placement)


@rule("clone.default", "alias.default", "contiguous.default", "_to_copy.default", anywhere=True)
def _copy(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "same"


@rule("as_strided.default", anywhere=True)
def _as_strided(call: Call, x: Tensor, size: list[int], stride: list[int], offset: int | None = None) -> Outcome:
    """Accept it only where no entry moves: strides may change only in dimensions of length 1."""
    alike = all(a == b or length == 1 for a, b, length in zip(x.stride(), stride, x.shape, strict=True))
    return "same" if tuple(size) == x.shape and alike and offset in (None, x.storage_offset()) else None


@rule("roll.default", anywhere=True)
def _roll(call: Call, x: Tensor, shifts: list[int], dims: list[int]) -> Outcome:
    dims = [dim % x.ndim for dim in dims]
    if not dims or any(map(call.placement.mixes, dims)):
        return None
    return call.on_each(lambda each: each.roll(shifts, [dim + 1 for dim in dims]), call.result, call.placement)


DETACH = "detach.default"
"""The operation whose result autograd does not follow, although its value depends on x."""

CONSTANT = [
    DETACH,
    *(f"{name}.default" for name in ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")),
]
"""Operations whose results autograd does not follow, although an argument depends on x."""


@rule(*CONSTANT, anywhere=True)
def _constant(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "constant"
