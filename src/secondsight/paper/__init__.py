"""The paper, reproduced: one file for each result, and its own algorithm to compare with."""

from __future__ import annotations

from collections.abc import Callable

from secondsight.paper.finding import Finding
from secondsight.paper.rank_one import rank_one
from secondsight.paper.relaxation import relaxation
from secondsight.paper.theorems import theorems

RESULTS: dict[str, Callable[..., Finding]] = {"rank-one": rank_one, "theorems": theorems, "relaxation": relaxation}
"""By the name of their command: functions of `quick` and `seed`."""
