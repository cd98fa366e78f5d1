"""The kinds of options that methods have: what each accepts, and how it is written in a short string.

A check takes the name of an option and its value. It returns the value in its one normal form, or raises InputError.
Nothing here needs torch, so that the command line can list its options at once.
"""

from __future__ import annotations

import numbers
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from secondsight.errors import InputError, shown

Check: TypeAlias = Callable[[str, Any], Any]
"""From the name and the value of an option to the value in its normal form."""

Value: TypeAlias = str | float | bool | tuple["Value", ...] | None
"""What options are made of, so that they can be compared, printed and stored."""


LARGEST = 2**63 - 1
"""Torch has no larger whole numbers."""


@dataclass(frozen=True)
class Option:
    """What is known about one option of a method.

    Attributes:
        check: accepts or refuses a value.
        help: what it does, for the command line and the documentation.
        metavar: what it takes, in the words of the command line.
        default: the default in words, where the value alone does not say it.
    """

    check: Check
    help: str
    metavar: str
    default: str | None = None


def option(value: Any, check: Check, help: str, metavar: str = "NUMBER", default: str | None = None) -> Any:
    """Declare an option as the field of a dataclass, `value` being its default."""
    return field(default=value, metadata={"option": Option(check, help, metavar, default)})


def number(least: float, inclusive: bool = False, optional: bool = False) -> Check:
    """Accept a finite number above `least`, or at least that if `inclusive`; None if `optional`."""
    may_be = f"a finite number {'of at least' if inclusive else 'above'} {least:g}"

    def check(name: str, value: Any) -> float | None:
        if value is None and optional:
            return None
        value = plain(value)
        if not is_number(value) or not (value >= least if inclusive else value > least):
            raise InputError(name, may_be, shown(value))
        return float(value)

    return check


def whole(least: int, most: int | None = None, optional: bool = False) -> Check:
    """Accept a whole number of at least `least` and at most `most`, or LARGEST; None if `optional`."""
    highest = LARGEST if most is None else most

    def check(name: str, value: Any) -> int | None:
        if value is None and optional:
            return None
        value = plain(value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not least <= value <= highest:
            limit = f" and at most {highest}" if is_whole and value > highest else ""
            raise InputError(name, f"a whole number of at least {least}{limit}", shown(value))
        return int(value)

    return check


def whole_or_auto(least: int, most: int) -> Check:
    """Accept a whole number of at least `least` and at most `most`, or "auto"."""
    check = whole(least, most)

    def check_or_auto(name: str, value: Any) -> int | str:
        if isinstance(value, str):
            if value != "auto":
                raise InputError(name, f"auto or a whole number of at least {least}", shown(value))
            return value
        return int(check(name, value))

    return check_or_auto


def one_of(*choices: str) -> Check:
    """Accept one of these words."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InputError(name, f"one of {', '.join(choices)}", shown(value))
        return choices[choices.index(value)]

    return check


def flag(name: str, value: Any) -> bool:
    """Accept True or False."""
    value = plain(value)
    if not isinstance(value, bool):
        raise InputError(name, "True or False", shown(value))
    return value


def file_name(name: str, value: Any, may_be: str) -> Path:
    """Accept the name of a file, as text or as a path."""
    try:
        text = os.fsencode(value) if isinstance(value, (str, os.PathLike)) else b"\0"
    except (TypeError, ValueError):
        text = b"\0"
    # No file has a zero byte in its name.
    if b"\0" in text:
        raise InputError(name, may_be, shown(value))
    return Path(os.fsdecode(text))


def share(what: str, optional: bool = False) -> Check:
    """Accept a number above 0 and below 1; None if `optional`. `what` says in messages what the number is."""

    def check(name: str, value: Any) -> float | None:
        value = plain(value)
        if value is None and optional:
            return None
        if not is_number(value) or not 0 < value < 1:
            raise InputError(name, f"between 0 and 1, {what}", shown(value))
        return float(value)

    return check


def levels(name: str, value: Any) -> tuple[float, float] | None:
    """Accept None, or two finite numbers low < high."""
    value = plain(value)
    if value is None:
        return None
    fits = isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value))
    if not fits or not value[0] < value[1]:
        raise InputError(name, "None or two numbers, low < high", shown(value))
    return float(value[0]), float(value[1])


def share_range(name: str, value: Any) -> tuple[float, float]:
    """Accept two numbers 0 <= low < high <= 1."""
    value = plain(value)
    fits = isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value))
    if not fits or not 0 <= value[0] < value[1] <= 1:
        raise InputError(name, "two numbers 0 <= low < high <= 1", shown(value))
    return float(value[0]), float(value[1])


def sparsity_weight(name: str, value: Any) -> str | float | tuple[float, ...]:
    """Accept lambda1: "auto", "paper", a share of lambda1_max such as "10%", a number, or several numbers."""
    value = plain(value)
    if isinstance(value, str):
        found = re.fullmatch(r"(.+)%", value.strip())
        percent: Any = literal(found[1]) if found else None
        if found and is_number(percent) and 0 <= percent <= 100:
            return f"{_shortest(percent)}%"
        if value not in ("auto", "paper"):
            raise InputError(
                name, 'one of auto, paper or a number or a share of lambda1_max such as "10%"', shown(value)
            )
        return value
    if isinstance(value, tuple) and not value:
        raise InputError(name, "at least one number", "an empty list")
    check = number(0.0, inclusive=True)
    return tuple(check(name, one) for one in value) if isinstance(value, tuple) else check(name, value)


def distance_from_edge(name: str, value: Any) -> str | float:
    """Accept c1: "auto", a number, or a number of times L such as "0.25L"."""
    value = plain(value)
    if not isinstance(value, str):
        return float(number(0.0)(name, value))
    found = re.fullmatch(r"(.+?)\s*L", value.strip())
    times: Any = literal(found[1]) if found else None
    if found and is_number(times) and times > 0:
        return f"{_shortest(times)}L"
    if value != "auto":
        raise InputError(name, 'auto, a number above 0, or a number of times L such as "0.25L"', shown(value))
    return value


DEEPEST = 16
"""Levels of nested lists that are read: an array of groups has as many as the input has dimensions. A list that holds
itself has no end."""

GROUPS_MAY_BE = "none, pixel, patch:SIDE, window:SIDE, superpixels, superpixels:COUNT, or an array of whole numbers"
"""What an error message says that groups may be."""


def group_labels_or_word(name: str, value: Any) -> Value:
    """Accept groups: a word, or an array with one whole number for each entry, which becomes nested tuples."""
    if value is None:
        return "none"
    if isinstance(value, str):
        parse_groups(value)
        return value.strip()
    kind = str(getattr(value, "dtype", ""))
    labels = plain(value)
    if not isinstance(labels, tuple) or not _all_whole(labels):
        raise InputError(name, GROUPS_MAY_BE, f"an array of {kind}" if kind else f"a {type(value).__name__}")
    return labels


def parse_groups(groups: str) -> tuple[str, int | None]:
    """Split a word for groups into its kind and its number."""
    found = re.fullmatch(r"(none|pixel|patch|window|superpixels)(?::(\d{1,9}))?", groups.strip())
    if found is None:
        raise InputError("groups", GROUPS_MAY_BE, repr(groups))
    kind, text = found.groups()
    count = None if text is None else int(text)
    if (kind in ("patch", "window") and text is None) or (kind in ("none", "pixel") and text is not None) or count == 0:
        raise InputError("groups", GROUPS_MAY_BE, repr(groups))
    return kind, count


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Turn arrays, lists and numbers of numpy or torch into tuples and numbers of Python. Other values stay."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        try:
            value = value.tolist()
        except (RuntimeError, TypeError):
            # A tensor without values, or a sparse one.
            return value
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)) and depth:
        return tuple(plain(item, depth - 1) for item in value)
    # `tolist` leaves numpy's long floats as they are.
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational) else value


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    # Whole numbers may be too large to be turned into a float.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _shortest(number: float) -> str:
    """Write a number so that no digit is lost, 10.0 as 10."""
    return f"{float(number)!r}".removesuffix(".0")


def _all_whole(labels: Any) -> bool:
    if isinstance(labels, tuple):
        return bool(labels) and all(map(_all_whole, labels))
    return isinstance(labels, (int, bool))


def literal(text: str, depth: int = DEEPEST) -> Any:
    """Read a word of a short string or of the command line: a number, none, true, false, (A,B), or just a word."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and depth:
        return tuple(literal(part, depth - 1) for part in split_outside(text[1:-1]))
    known: dict[str, Value] = {"none": None, "true": True, "false": False}
    if text.lower() in known:
        return known[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def word(value: Value) -> str:
    """Write a value so that `literal` reads it back."""
    if isinstance(value, tuple):
        return f"({','.join(map(word, value))}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value!r}" if isinstance(value, (int, float)) else value


def split_outside(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses. A comma at the end adds no empty part."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if not parts[-1].strip():
        parts.pop()
    return [part.strip() for part in parts]
