"""Explain many inputs: one that fails costs no other, and where memory runs out, fewer share a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch

from secondsight.errors import SecondsightError, shown
from secondsight.model.failures import is_broken_device, is_out_of_memory

T = TypeVar("T")
"""The result of one input."""

Explain = Callable[[Sequence[Any]], Sequence[T]]
"""A function from inputs to their results."""


class FaultTolerant(Generic[T]):
    """Explains inputs in calls that are as large as memory allows.

    Args:
        explain: explains some inputs in one call.
        size: the number of inputs in a call, at first.
        failures: the errors that belong to a single input. Others end the work.

    Attributes:
        size: the number of inputs in a call. It is halved where memory runs out.
    """

    def __init__(
        self, explain: Explain[T], size: int, failures: type[Exception] | tuple[type[Exception], ...] = SecondsightError
    ) -> None:
        """Start with the full size."""
        self.explain, self.size, self.failures = explain, size, failures

    def explain_each(self, inputs: Sequence[Any]) -> list[T | Exception]:
        """Explain inputs. If one cannot be explained, its error stands in the place of its result."""
        found: list[T | Exception] = []
        while len(found) < len(inputs):
            found += self._some(inputs[len(found) : len(found) + self.size])
        return found

    def _some(self, inputs: Sequence[Any]) -> Sequence[T | Exception]:
        try:
            return self.explain(inputs)
        except Exception as error:
            no_memory = is_out_of_memory(error)
            if is_broken_device(error) or not (no_memory or isinstance(error, self.failures)):
                raise
            if len(inputs) == 1:
                why = SecondsightError(f"memory ran out: {shown(error, str)}") if no_memory else error
                return [why.with_traceback(None)]
        # From here on nothing refers to the error. Its traceback would keep everything that was computed.
        if not no_memory:
            # One of them failed: find out which, and keep the others.
            return [result for one in inputs for result in self._some([one])]
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.size = max(1, len(inputs) // 2)
        return self.explain_each(inputs)
