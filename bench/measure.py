"""Seconds and gradient equivalents: what all benchmarks measure with.

A gradient equivalent (g.e.) is the wall time of one loss gradient on the same network, photograph and threads, the
median of ten taken right before and after what it is compared with.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from rich.console import Console
from torch import Tensor

import secondsight as ss
from secondsight.config import Method, class_of

T = TypeVar("T")

REPEATS = 5
console = Console(width=160)


@dataclass(frozen=True)
class Timing(Generic[T]):
    """One call: what it returned, its seconds, and the seconds of one gradient around it."""

    result: T
    seconds: float
    unit: float

    @property
    def cost(self) -> float:
        """In gradient equivalents."""
        return self.seconds / self.unit


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def loss_gradient(model: ss.Classifier, batch: Tensor) -> Callable[[], Tensor]:
    """A function that computes the gradient of the loss, summed over a batch, in the plainest way."""
    leaf = batch.clone().requires_grad_()

    def gradient() -> Tensor:
        with model.ready():
            logits = model.logits(leaf)
            loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1), reduction="sum")
            return torch.autograd.grad(loss, leaf)[0]

    return gradient


def timing(model: ss.Classifier, x: Tensor, function: Callable[[], T]) -> Timing[T]:
    """Time one call between gradients at x."""
    gradient = loss_gradient(model, x[None])
    before = [timed(gradient) for _ in range(REPEATS)]
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    after = [timed(gradient) for _ in range(REPEATS)]
    return Timing(result, seconds, statistics.median(before + after))


def method_with(name: str, **options: Any) -> Method:
    """A config by the name of its method, with those of the options that the method has."""
    method = class_of(name)
    return method(**{option: value for option, value in options.items() if option in method.options()})
