"""The paper, reproduced: one file for each result, and its own algorithm to compare with."""

from __future__ import annotations

from collections.abc import Callable

from secondsight.paper.comparison import comparison
from secondsight.paper.finding import Finding
from secondsight.paper.hessian_cost import hessian_cost
from secondsight.paper.hessian_examples import hessian_examples
from secondsight.paper.hessian_impact import hessian_impact
from secondsight.paper.input_multiplication import input_multiplication
from secondsight.paper.lambda1_sweep import lambda1_sweep
from secondsight.paper.rank_one import rank_one
from secondsight.paper.relaxation import relaxation
from secondsight.paper.theorems import theorems

SIMULATED: dict[str, Callable[..., Finding]] = {"rank-one": rank_one, "theorems": theorems, "relaxation": relaxation}
"""By the name of their command: functions of `quick` and `seed`."""

ON_PHOTOGRAPHS: dict[str, Callable[..., Finding]] = {
    "hessian-impact": hessian_impact,
    "hessian-examples": hessian_examples,
    "hessian-cost": hessian_cost,
    "lambda1-sweep": lambda1_sweep,
    "comparison": comparison,
    "input-multiplication": input_multiplication,
}
"""Functions of the model, the photographs, the folder for files, the seed, and a function that is told the progress."""
