"""The results of the paper, measured anew: one file for each, and the paper's own algorithm to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from secondsight.paper.finding import Finding
from secondsight.paper.hessian_cost import hessian_cost
from secondsight.paper.hessian_examples import hessian_examples
from secondsight.paper.hessian_impact import hessian_impact
from secondsight.paper.hessian_survival import hessian_survival
from secondsight.paper.input_multiplication import input_multiplication
from secondsight.paper.lambda1_sweep import lambda1_sweep
from secondsight.paper.method_comparison import comparison
from secondsight.paper.non_relu import non_relu
from secondsight.paper.rank_one import rank_one
from secondsight.paper.relaxation import relaxation
from secondsight.paper.run import Run
from secondsight.paper.tables import tables
from secondsight.paper.theorems import theorems

SIMULATED: dict[str, Callable[..., Finding]] = {
    "rank-one": rank_one,
    "theorems": theorems,
    "relaxation": relaxation,
    "tables": tables,
}
"""Results that need no photographs, by the name of their command: functions of `quick` and `seed`."""


@dataclass(frozen=True)
class Measurement:
    """A result that is measured on photographs.

    Attributes:
        reproduce: measures it.
        most: how many photographs `secondsight paper all` measures at most; None: all. The command of the result alone
            takes all.
        preset: the table of the paper whose options are used by default; None: the result takes no preset.
        paged: whether the figure can have several pages.
    """

    reproduce: Callable[[Run], Finding]
    most: int | None = None
    preset: str | None = None
    paged: bool = False


ON_PHOTOGRAPHS: dict[str, Measurement] = {
    "hessian-impact": Measurement(hessian_impact),
    "hessian-examples": Measurement(hessian_examples, preset="table-1"),
    "hessian-cost": Measurement(hessian_cost, most=1),
    "lambda1-sweep": Measurement(lambda1_sweep, most=20, paged=True),
    "comparison": Measurement(comparison, most=12, preset="table-3", paged=True),
    "input-multiplication": Measurement(input_multiplication, most=10),
    "non-relu": Measurement(non_relu),
    "hessian-survival": Measurement(hessian_survival, most=10),
}
"""Results on photographs, by the name of their command. `most` bounds the slow results in `secondsight paper all`."""
