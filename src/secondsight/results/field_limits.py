"""What the fields of results may hold, beyond what their types say. Files are checked against it.

>>> limits(0, 1)["limits"].in_words()
'a number from 0 to 1'
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LARGEST = sys.float_info.max
"""The largest finite number: a field is infinite only where its limits say that it may be."""

LONGEST_TEXT = 2**16
"""Characters of a label, a note or a name: far more than any has, and few enough for a table."""

Content: TypeAlias = Literal["input", "map", "pixels", "mask", "labels"]
"""What an array holds: the input, a number for each entry of it or for each pixel, booleans, or numbers of groups."""


@dataclass(frozen=True)
class Limits:
    """What a field may hold.

    Attributes:
        least: the smallest number.
        most: the largest number.
        nan: whether a number may be undefined, as where numbers overflow.
        words: what a text may be; empty: anything.
        array: what an array holds.
    """

    least: float = -LARGEST
    most: float = LARGEST
    nan: bool = False
    words: tuple[str, ...] = ()
    array: Content = "map"

    def allow(self, number: float) -> bool:
        """Whether a number is within the limits."""
        return self.nan if number != number else self.least <= number <= self.most

    def in_words(self, kind: str = "number") -> str:
        """Say what number may be there, where `kind` is "number" or "whole number"."""
        if self.most < LARGEST:
            return f"a {kind} from {self.least} to {self.most}"
        finite = "finite " if kind == "number" and self.most == LARGEST else ""
        return f"a {finite}{kind}" + (f" of at least {self.least}" if self.least > -LARGEST else "")


def limits(least: float = -LARGEST, most: float = LARGEST, **others: Any) -> dict[str, Limits]:
    """Limit a field of a dataclass, as in `probability: float = field(metadata=limits(0, 1))`."""
    return {"limits": Limits(least, most, **others)}
