"""How far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass
class Standing:
    """How far a run is.

    Attributes:
        total: the items of the list.
        before: how many were done when this start began.
        done: how many this start has done.
        failed: how many of these have an error.

    Example:
        >>> Standing(total=100, before=20, done=30).seconds_left > 0
        True
    """

    total: int
    before: int
    done: int = 0
    failed: int = 0
    _since: float = field(default_factory=time.perf_counter, repr=False)

    def advance(self, done: int, failed: int) -> None:
        """Count items that are done now."""
        self.done, self.failed = self.done + done, self.failed + failed

    @property
    def seconds(self) -> float:
        """The time in seconds since this start began to explain."""
        return time.perf_counter() - self._since

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the time left in seconds, by the pace of this start; None until an item is done."""
        left = self.total - self.before - self.done
        return self.seconds / self.done * left if self.done else None


Report: TypeAlias = Callable[[Standing], None] | None
"""Called before the first item of a run is explained, then after each batch (with Ray, after each chunk)."""
