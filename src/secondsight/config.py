"""What a user may ask of a method, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from secondsight.errors import InputError
from secondsight.groups import Groups, check_groups
from secondsight.model.classifier import Target
from secondsight.operators.hessian_choice import CHOICES

BOUNDS = ("estimated", "proven")
"""The words that `bound` takes."""

CERTIFY = ("chosen", "path")
"""The words that `certify` takes."""

LAMBDA1_RULES = ("auto", "paper")
"""The words that `lambda1` takes beside numbers."""

SCORES = ("logit", "loss")
"""The words that `score` takes."""


@dataclass(frozen=True)
class Settings:
    """One request, as the user made it. `explain` documents each field. Checked where it is made."""

    target: Target
    lambda1: str | float | tuple[float, ...]
    c1: float
    lambda2: float | None
    curvature: str
    tolerance: float
    certify: str
    max_products: int
    seed: int
    bound: str
    sparsity_range: tuple[float, float]
    path_points: int
    path_smallest: float | None
    groups: Groups
    n: int
    sigma: float
    batch_size: int | None
    score: str
    times_input: bool
    progress: Callable[[float], None] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for the first option that cannot be used."""
        if isinstance(self.lambda1, str):
            _one_of("lambda1", self.lambda1, LAMBDA1_RULES, "or a number")
        else:
            for value in self.lambda1 if isinstance(self.lambda1, tuple) else (self.lambda1,):
                _number("lambda1", value, 0.0, inclusive=True)
        if self.lambda1 == ():
            raise InputError("lambda1", "at least one number", "an empty list")
        _number("c1", self.c1, 0.0)
        if self.lambda2 is not None:
            _number("lambda2", self.lambda2, 0.0)
        _one_of("curvature", self.curvature, CHOICES)
        _number("tolerance", self.tolerance, 0.0)
        _one_of("certify", self.certify, CERTIFY)
        _one_of("bound", self.bound, BOUNDS)
        _whole("max_products", self.max_products, 1)
        _whole("seed", self.seed, 0, 2**63 - 1)
        _whole("path_points", self.path_points, 12)
        if self.path_smallest is not None and not (_is_number(self.path_smallest) and 0 < self.path_smallest < 1):
            raise InputError("path_smallest", "between 0 and 1, a share of lambda1_max", repr(self.path_smallest))
        if not _is_range(self.sparsity_range):
            raise InputError("sparsity_range", "two numbers 0 <= low < high <= 1", repr(self.sparsity_range))
        check_groups(self.groups)
        _whole("n", self.n, 1)
        _number("sigma", self.sigma, 0.0, inclusive=True)
        if self.batch_size is not None:
            _whole("batch_size", self.batch_size, 1)
        _one_of("score", self.score, SCORES)

    def asked(self) -> dict[str, Any]:
        """List the fields as they go into a result, where an array of groups has a place of its own."""
        asked = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "progress"}
        return asked if isinstance(self.groups, str) else asked | {"groups": "none" if self.groups is None else "array"}


def _one_of(argument: str, value: str, choices: tuple[str, ...], more: str = "") -> None:
    if value not in choices:
        raise InputError(argument, " ".join(filter(None, [f"one of {', '.join(choices)}", more])), repr(value))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _is_range(value: object) -> bool:
    if not isinstance(value, Sequence) or len(value) != 2 or not all(map(_is_number, value)):
        return False
    low, high = value
    return bool(0 <= low < high <= 1)


def _number(argument: str, value: float, least: float, inclusive: bool = False) -> None:
    fits = _is_number(value) and (value >= least if inclusive else value > least)
    if not fits:
        raise InputError(argument, f"a finite number {'of at least' if inclusive else 'above'} {least:g}", repr(value))


def _whole(argument: str, value: int, least: int, most: int | None = None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise InputError(argument, f"a whole number of at least {least}{upper}", repr(value))
