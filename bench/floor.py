"""The floor: what caso would cost if its H-products were its only work and took no more than plain passes do."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import torch
from torch import Tensor

import secondsight as ss
from bench.measure import REPEATS, timed, timing
from bench.row import Row

NOTE = (
    "Floor: one gradient, and for each H-product of caso one forward pass without a graph (as long as a tangent pass "
    "at its best) and one backward pass through a kept graph; all three are timed, everything else is taken as free."
)


def floor(model: ss.Classifier, inputs: Iterable[Tensor], products: list[int]) -> Row:
    """One photograph for each number of products."""
    row = Row("floor", products=list(products), note=NOTE)
    for x, count in zip(inputs, products, strict=True):
        passes = timing(model, x, lambda x=x: product_seconds(model, x))
        seconds = passes.unit + count * passes.result
        row.seconds.append(seconds)
        row.costs.append(seconds / passes.unit)
    return row


def product_seconds(model: ss.Classifier, x: Tensor) -> float:
    """Of a forward pass without a graph and a backward pass through a kept one."""
    with model.ready():
        leaf = x[None].clone().requires_grad_()
        logits = model.logits(leaf)
        weights = torch.ones_like(logits)

        def forward() -> None:
            with torch.no_grad():
                model.logits(leaf)

        def backward() -> None:
            torch.autograd.grad(logits, leaf, weights, retain_graph=True)

        return sum(statistics.median(timed(one) for _ in range(REPEATS)) for one in (forward, backward))
