"""Pooling, padding, resizing, and patches of planes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from secondsight.operators.tape.linear_steps import Gather
from secondsight.operators.tape.moving_steps import Pad
from secondsight.operators.tape.rules.registry import Call, Outcome, rule


@rule("max_pool2d_with_indices.default", "adaptive_max_pool2d.default")
def _max_pool(call: Call, x: Tensor, *settings: Any) -> Outcome:
    if x.ndim != 4:
        return None
    index = call.result[1]
    return Gather(index.movedim(1, -1).flatten(1, 2).contiguous(), x.shape[1:], index.shape[1:])


@rule(
    "avg_pool2d.default",
    "_adaptive_avg_pool2d.default",
    "upsample_nearest2d.default",
    "upsample_nearest2d.vec",
    "upsample_bilinear2d.default",
    "upsample_bilinear2d.vec",
    "upsample_bicubic2d.default",
    "upsample_bicubic2d.vec",
    "im2col.default",
    "col2im.default",
    "reflection_pad2d.default",
    "replication_pad2d.default",
)
def _planes(call: Call, x: Tensor, *settings: Any, **named: Any) -> Outcome:
    return call.by_autograd()


@rule("constant_pad_nd.default")
def _pad(call: Call, x: Tensor, widths: list[int], value: float = 0.0) -> Outcome:
    if not any(widths):
        return "same"
    return Pad(list(widths)) if len(widths) < 2 * x.ndim else None
