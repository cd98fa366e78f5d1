"""Sums along dimensions: means, norms, variances, and the largest entry."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from secondsight.operators.tape.curved_steps import Norm, Variance, WeightedSum
from secondsight.operators.tape.linear_steps import Mean, Step
from secondsight.operators.tape.placement import Placement
from secondsight.operators.tape.rules.registry import Call, Outcome, Placed, rule


@rule("mean.dim", "sum.dim_IntList", anywhere=True)
def _mean(call: Call, x: Tensor, dims: list[int] | None, keepdim: bool = False, *, dtype: Any = None) -> Outcome:
    dims = [dim % x.ndim for dim in dims or []]
    if not dims or any(map(call.placement.mixes, dims)):
        return None
    placement = call.placement if keepdim else call.placement.without(dims)
    if 0 not in dims:
        factor = 1 / prod(x.shape[dim] for dim in dims) if call.name == "aten.mean.dim" else 1.0
        before, after = call.shape[1:], placement.of_one(call.result.shape)[1:]
        return Placed([Mean(factor, [dim - x.ndim for dim in dims], before, after)], placement)
    # Dimension 0 of a tangent also runs over directions.
    function, later = call.function, [dim + 1 for dim in dims]
    return Placed([call.on_each(lambda each: function(each, later, keepdim), call.result, placement)], placement)


class Reduction(NamedTuple):
    """A reduction along dimensions whose step holds a tensor of the size of its argument.

    Attributes:
        a: the argument, in the order of its tangent.
        dims: the dimensions, counted from the end.
        shape: the shape of a row of the result.
        placement: where the result counts the inputs.
    """

    a: Tensor
    dims: list[int]
    shape: tuple[int, ...]
    placement: Placement

    def placed(self, step: Step) -> Placed:
        """Tell where the result of this step counts the inputs."""
        return Placed([step], self.placement)


def _reduction(call: Call, x: Tensor, dims: Sequence[int] | None, keepdim: bool, result: Tensor) -> Reduction | None:
    """Look at a reduction. None: it is along the rows of tangents, or it mixes inputs."""
    dims = [dim % x.ndim for dim in dims or []]
    if not dims or 0 in dims or any(map(call.placement.mixes, dims)):
        return None
    placement = call.placement if keepdim else call.placement.without(dims)
    shape = placement.of_one(result.shape)[1:]
    return Reduction(call.laid_out(x), [dim - x.ndim for dim in dims], shape, placement)


@rule("linalg_vector_norm.default", anywhere=True)
def _norm(
    call: Call, x: Tensor, order: float = 2, dims: list[int] | None = None, keepdim: bool = False, **named: Any
) -> Outcome:
    found = _reduction(call, x, dims, keepdim, call.result)
    if found is None or order != 2:
        return None
    inverse = 1 / found.a.norm(dim=found.dims, keepdim=True)
    if not bool(torch.isfinite(inverse).all()):
        return None
    return found.placed(Norm(found.a * inverse, found.dims, found.shape, inverse))


@rule("var.correction", anywhere=True)
def _variance(
    call: Call, x: Tensor, dims: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Outcome:
    found = _reduction(call, x, dims, keepdim, call.result)
    if found is None:
        return None
    count = prod(found.a.shape[dim] for dim in found.dims) - (1 if correction is None else correction)
    if count <= 0:
        return None
    u = (found.a - found.a.mean(found.dims, keepdim=True)).mul_(2 / count)
    return found.placed(Variance(u, found.dims, found.shape, 2 / count))


@rule("amax.default", "amin.default", anywhere=True)
def _largest(call: Call, x: Tensor, dims: list[int], keepdim: bool = False) -> Outcome:
    """Let entries that are equally large share the derivative, as autograd does."""
    found = _reduction(call, x, dims, keepdim, call.result)
    if found is None:
        return None
    chosen = found.a == call.function(found.a, found.dims, True)
    count = chosen.sum(found.dims, keepdim=True)
    # Bytes suffice where one entry has the whole derivative.
    u = chosen.to(torch.int8) if bool((count == 1).all()) else chosen.to(x.dtype) / count
    return found.placed(WeightedSum(u, found.dims, found.shape))


@rule("max.dim", "min.dim", anywhere=True)
def _chosen(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> Outcome:
    """Give the derivative to the entry that torch names, also where others are equally large."""
    found = _reduction(call, x, [dim], keepdim, call.result[0])
    if found is None:
        return None
    index = found.placement.first(call.result[1])
    index = index if keepdim else index.unsqueeze(found.dims[0])
    u = torch.zeros_like(found.a, dtype=torch.int8).scatter_(found.dims[0], index, 1)
    return found.placed(WeightedSum(u, found.dims, found.shape))
