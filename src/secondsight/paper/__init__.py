"""The paper, reproduced: one file for each result, and its own algorithm to compare with."""

from __future__ import annotations

from collections.abc import Callable

from secondsight.paper.finding import Finding
from secondsight.paper.hessian_impact import hessian_impact
from secondsight.paper.input_multiplication import input_multiplication
from secondsight.paper.rank_one import rank_one
from secondsight.paper.relaxation import relaxation
from secondsight.paper.theorems import theorems

SIMULATED: dict[str, Callable[..., Finding]] = {"rank-one": rank_one, "theorems": theorems, "relaxation": relaxation}
"""By the name of their command: functions of `quick` and `seed`."""

ON_PHOTOGRAPHS: dict[str, Callable[..., Finding]] = {
    "hessian-impact": hessian_impact,
    "input-multiplication": input_multiplication,
}
"""Functions of the model, the photographs, the folder for files, the seed, and a function that is told the progress."""
