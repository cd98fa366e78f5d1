"""What is asked for one input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from secondsight.config import Method
from secondsight.model.classifier import Target

M = TypeVar("M", bound=Method, covariant=True)
"""The config of a method."""


@dataclass(frozen=True)
class Request(Generic[M]):
    """One input's share of a call of `explain`.

    Attributes:
        method: how to explain it. If its c1 was "auto", it has the c1 that this stands for with this model.
        target: the class to explain.
        seed: of all random numbers.
        progress: called with the number of products taken so far.
    """

    method: M
    target: Target
    seed: int
    progress: Callable[[float], None] | None = None
