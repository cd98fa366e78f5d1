"""What each operation of torch does to tangents: the linear step that it is at given inputs.

Names and arguments are those of torch's own operations (aten), as they reach a dispatch mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from secondsight.curvature.steps import (
    Add,
    Cat,
    Convolution,
    Gather,
    Mask,
    Other,
    Pad,
    Pointwise,
    Product,
    Reshape,
    Scale,
    Step,
    layout,
)

Outcome = Step | list[Step] | Literal["same", "free"] | None
"""What a rule says of an operation: its step (one for each result), or that its result has the tangent of its input, or
does not depend on x for autograd either, or (None) that it is none that we know."""


class Call:
    """One operation of the network: its arguments, which of them depend on x, and its result, computed when needed."""

    def __init__(
        self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any], slots: WeakIdKeyDictionary
    ) -> None:
        self.function, self.arguments, self.named = function, arguments, named
        self.name, in_place = _name(function)
        self.written = list(_tensors(arguments[:1] if in_place else [named.get("out")]))
        self.inputs = [tensor for tensor in _tensors([*arguments, *named.values()]) if tensor in slots]

    @cached_property
    def result(self) -> Any:
        return self.function(*self.arguments, **self.named)

    def depends(self, value: object) -> bool:
        return any(value is tensor for tensor in self.inputs)

    def only(self, value: object) -> bool:
        return len(self.inputs) == 1 and self.inputs[0] is value

    def other(self) -> Outcome:
        """The operation itself, on its first argument."""
        if self.written:
            return None
        function, rest, named = self.function, self.arguments[1:], self.named
        return Other(lambda tangent: function(tangent, *rest, **named), self.inputs[0].shape[1:])


@cache
def _name(function: Any) -> tuple[str, bool]:
    """What the operation is called, and whether it overwrites its first argument."""
    # Higher-order operations have no overload.
    space, name, overload = f"{function}..".split(".")[:3]
    in_place = name.endswith("_") and not name.endswith("__")
    return f"{space}.{name.removesuffix('_') if in_place else name}.{overload}", in_place


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


RULES: dict[str, Callable[..., Outcome]] = {}


def rule(*names: str, first: bool = True) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """What the named operations do to tangents. With `first`, only their first argument may depend on x."""

    def enter(found: Callable[..., Outcome]) -> Callable[..., Outcome]:
        def guarded(call: Call, *arguments: Any, **named: Any) -> Outcome:
            return found(call, *arguments, **named) if call.only(arguments[0]) else None

        RULES.update({f"aten.{name}": guarded if first else found for name in names})
        return found

    return enter


@rule("convolution.default")
def _convolution(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Outcome:
    if x.ndim != weight.ndim:
        return None
    stride, padding, _, transposed, _, groups = settings
    plain = groups == 1 and not transposed and not any(padding)
    if plain and weight.shape[2:] == (1, 1) and x.device.type == "cpu":
        return Pointwise(weight, x.shape[1:], tuple(stride))
    return Convolution(weight, x.shape[1:], settings)


@rule("mm.default")
def _mm(call: Call, x: Tensor, matrix: Tensor) -> Outcome:
    return Product(matrix)


@rule("addmm.default", first=False)
def _addmm(call: Call, bias: Tensor, x: Tensor, matrix: Tensor) -> Outcome:
    return Product(matrix) if call.only(x) else None


@rule("linear.default")
def _linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Outcome:
    return Product(weight.T) if x.ndim > 1 else None


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


@rule("relu.default")
def _relu(call: Call, x: Tensor) -> Outcome:
    return Mask(_passed(x, (torch.gt, 0)))


@rule("leaky_relu.default")
def _leaky_relu(call: Call, x: Tensor, slope: float = 0.01) -> Outcome:
    return Mask(_passed(x, (torch.gt, 0)), slope)


@rule("threshold.default")
def _threshold(call: Call, x: Tensor, threshold: float, value: float) -> Outcome:
    return Mask(_passed(x, (torch.gt, threshold)))


@rule("hardtanh.default")
def _hardtanh(call: Call, x: Tensor, low: float = -1.0, high: float = 1.0) -> Outcome:
    return Mask(_passed(x, (torch.gt, low), (torch.lt, high)))


@rule("relu6.default")
def _relu6(call: Call, x: Tensor) -> Outcome:
    return _hardtanh(call, x, 0.0, 6.0)


@rule("clamp.default", "clamp_min.default")
def _clamp(call: Call, x: Tensor, min: float | None = None, max: float | None = None) -> Outcome:
    # Unlike hardtanh's, its derivative at a limit is one.
    conditions = [(torch.ge, min), (torch.le, max)]
    return Mask(_passed(x, *((compare, limit) for compare, limit in conditions if limit is not None)))


@rule("clamp_max.default")
def _clamp_max(call: Call, x: Tensor, max: float) -> Outcome:
    return _clamp(call, x, None, max)


def _passed(x: Tensor, *conditions: tuple[Callable[..., Tensor], float]) -> Tensor:
    """1 where x meets all conditions, else 0."""
    # Compared into a float tensor first: on the CPU this is several times as fast.
    scratch = torch.empty_like(x)
    passed = [compare(x, limit, out=scratch).to(torch.int8) for compare, limit in conditions]
    for other in passed[1:]:
        passed[0].mul_(other)
    return passed[0].contiguous(memory_format=layout(x))


@rule("max_pool2d_with_indices.default", "adaptive_max_pool2d.default")
def _max_pool(call: Call, x: Tensor, *settings: Any) -> Outcome:
    if x.ndim != 4:
        return None
    index = call.result[1]
    return Gather(index.movedim(1, -1).flatten(1, 2).contiguous(), x.shape[1:], index.shape[1:])


@rule("add.Tensor", "add.Scalar", first=False)
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


@rule("sub.Tensor", "sub.Scalar", first=False)
def _sub(call: Call, a: Tensor | float, b: Tensor | float, alpha: float = 1) -> Outcome:
    return _add(call, a, b, -alpha)


@rule("rsub.Scalar", "rsub.Tensor")
def _rsub(call: Call, a: Tensor, b: Tensor | float, alpha: float = 1) -> Outcome:
    return Scale(-float(alpha)) if call.result.shape == a.shape and alpha == 1 else None


@rule("mul.Tensor", "mul.Scalar", first=False)
def _mul(call: Call, a: Tensor | float, b: Tensor | float) -> Outcome:
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
    return call.other() if dims[0] % x.ndim == 0 else None


@rule("transpose.int", "swapaxes.default")
def _transpose(call: Call, x: Tensor, a: int, b: int) -> Outcome:
    return call.other() if a % x.ndim and b % x.ndim else None


@rule("expand.default")
def _expand(call: Call, x: Tensor, sizes: list[int]) -> Outcome:
    if len(sizes) != x.ndim or len(call.result) != len(x):
        return None
    lengths = call.result.shape[1:]
    return Other(lambda tangent: tangent.expand(-1, *lengths), x.shape[1:])


@rule("mean.dim", "sum.dim_IntList")
def _mean(call: Call, x: Tensor, dims: list[int] | None, keepdim: bool = False, *, dtype: Any = None) -> Outcome:
    return call.other() if dims and all(dim % x.ndim for dim in dims) else None


@rule("slice.Tensor")
def _slice(call: Call, x: Tensor, dim: int = 0, *bounds: Any) -> Outcome:
    if call.result.shape == x.shape:
        return "same"
    return call.other() if dim % x.ndim else None


@rule("select.int")
def _select(call: Call, x: Tensor, dim: int, index: int) -> Outcome:
    return call.other() if dim % x.ndim else None


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
    return Other(lambda tangent: tangent.narrow(dim, start, length), x.shape[1:])


@rule("cat.default", first=False)
def _cat(call: Call, tensors: list[Tensor], dim: int = 0) -> Outcome:
    if not dim % call.inputs[0].ndim:
        return None
    if any(tensor.ndim != call.inputs[0].ndim for tensor in tensors):
        return None
    lengths = [tensor.shape[dim] for tensor in tensors]
    return Cat(dim, lengths, [call.depends(tensor) for tensor in tensors])


@rule("constant_pad_nd.default")
def _pad(call: Call, x: Tensor, widths: list[int], value: float = 0.0) -> Outcome:
    if not any(widths):
        return "same"
    return Pad(list(widths)) if len(widths) < 2 * x.ndim else None


@rule(
    "avg_pool2d.default",
    "_adaptive_avg_pool2d.default",
    "upsample_nearest2d.default",
    "upsample_nearest2d.vec",
    "upsample_bilinear2d.default",
    "upsample_bilinear2d.vec",
    "reflection_pad2d.default",
    "replication_pad2d.default",
)
def _planes(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return call.other()


@rule("clone.default", "alias.default", "contiguous.default", "_to_copy.default")
def _copy(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "same"


@rule("native_dropout.default")
def _dropout(call: Call, x: Tensor, p: float, train: bool | None) -> Outcome:
    return "same" if train is False else None


DETACH = "detach.default"
FREE = [
    DETACH,
    *(f"{name}.default" for name in ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")),
]


@rule(*FREE)
def _free(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return "free"
