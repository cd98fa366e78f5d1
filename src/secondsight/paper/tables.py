"""Tables 1 to 3: the hyper-parameters, as presets that other commands take by name."""

from __future__ import annotations

import inspect
from typing import Any

from matplotlib.figure import Figure

from secondsight.paper.algorithm import backtracking_fista, power_iterations
from secondsight.paper.finding import Finding
from secondsight.presets import PRESETS

PRINTED: dict[str, dict[str, object]] = {
    "table-1": {"figure": "Figure 1", "lambda1": 0.0, "lambda2 threshold": 20},
    "table-2": {"figure": "Figure 3", "lambda1": (0.0, 1e-5, 1e-4, 1e-3, 6.25e-3, 1.25e-2, 2.5e-2, 5e-2)}
    | {"lambda2 threshold": 20},
    "table-3": {"figure": "Figure 4", "lambda1": (0.0, 1e-5, 1e-4, 1e-3, 6.25e-3, 1.25e-2, 2.5e-2, 5e-2)}
    | {"lambda2 threshold": 20, "samples": 32, "deviation": 0.15},
}
"""What differs between the tables, as printed in the paper."""

ALGORITHM: dict[str, object] = {
    "power method iterations": 10,
    "gradient descent iterations": 10,
    "backtracking decay factor": 0.5,
}
"""What the tables share, as printed in the paper. They also share batches of 32 and a start at zero."""


def tables(quick: bool = False, seed: int = 0) -> Finding:
    """Compare the presets, and the defaults of the paper's algorithm, with the printed tables.

    Args:
        quick: changes nothing.
        seed: changes nothing.
    """
    ours = {name: _as_printed(options) for name, options in PRESETS.items()}
    printed = {name: {k: v for k, v in table.items() if k != "figure"} for name, table in PRINTED.items()}
    agree = ours == printed and _algorithm() == ALGORITHM
    return Finding(
        name="tables",
        where="Tables 1 to 3, appendix G",
        claim="The hyper-parameters of figures 1, 3 and 4.",
        measured=f"The presets {', '.join(PRESETS)} {'hold' if agree else 'do not hold'} the printed values, and the "
        "paper's own algorithm here runs with its iterations and its decay factor. The threshold of 20 is 2 c1: the "
        "paper's code adds it to L before halving. Table 3 takes 32 samples where the text says 50. Batches of 32 are "
        "no parameter here, because a batch gives what its items give.",
        verdict="holds" if agree else "does not hold",
        numbers={"presets": PRESETS, "printed": PRINTED, "algorithm": _algorithm()},
        figures=[_figure()],
    )


def _as_printed(options: dict[str, Any]) -> dict[str, object]:
    shown: dict[str, object] = {"lambda1": options["lambda1"], "lambda2 threshold": 2 * options["c1"]}
    return shown | ({"samples": options["n"], "deviation": options["sigma"]} if "n" in options else {})


def _algorithm() -> dict[str, object]:
    power, descent = (inspect.signature(f).parameters for f in (power_iterations, backtracking_fista))
    values = (power["iterations"], descent["iterations"], descent["decay"])
    return dict(zip(ALGORITHM, (parameter.default for parameter in values), strict=True))


def _figure() -> Figure:
    figure = Figure(figsize=(11, 2.2), dpi=120, layout="constrained")
    ax = figure.subplots()
    ax.axis("off")
    headings = ["preset", "of", "lambda1", "lambda2 threshold", "samples", "deviation"]
    rows = []
    for name, table in PRINTED.items():
        values = table["lambda1"]
        spelled = ", ".join(f"{v:g}" for v in values) if isinstance(values, tuple) else str(values)
        rest = [str(table.get(key, "")) for key in headings[3:]]
        rows.append([name, str(table["figure"]), spelled, *rest])
    drawn = ax.table(rows, colLabels=headings, loc="center", cellLoc="left")
    drawn.auto_set_column_width(list(range(len(headings))))
    drawn.scale(1, 1.6)
    return figure
