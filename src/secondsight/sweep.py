"""Maps along lambda1: figure 3 of the paper, at its eight values and along the automatic path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from secondsight.api import explain
from secondsight.baselines import clipped
from secondsight.model.classifier import Classifier, Item, Target
from secondsight.optim.lambda_choice import LAMBDA1_VALUES
from secondsight.plotting.figures import PAPER_COLOURS, STRIP_COLUMNS, Panel, Row, maps_figure, picture, png
from secondsight.plotting.shades import normalise
from secondsight.results.explanation import Explanation, PathPoint, save_figure, zero_share

PANEL_WIDTH = 1.7
"""Inches for each column: nine columns make a figure of 15 inches."""


@dataclass(frozen=True)
class Sweep:
    """CAFO and CASO at equal lambda2, along two sets of values of lambda1.

    Attributes:
        name: the file name of the photograph; empty if there is none.
        paper: CAFO and CASO at the eight values of the paper's tables.
        path: CAFO and CASO along the automatic path.
    """

    name: str
    paper: tuple[Explanation, Explanation]
    path: tuple[Explanation, Explanation]

    def summaries(self) -> list[dict[str, Any]]:
        """Return one record for each chosen map, with the sparsity at every value of lambda1, ready for JSON."""
        pairs = {"paper": self.paper, "path": self.path}
        return [
            e.summary() | {"values": values, "path": [{"lambda1": p.lambda1, "sparsity": p.sparsity} for p in e.path]}
            for values, pair in pairs.items()
            for e in pair
        ]

    def figure(self) -> Figure:
        """Draw blocks of three rows: CAFO, CASO, and the gradient clipped to CASO's sparsity; eta below each map."""
        caso = self.path[1]
        blocks = [("The paper's values of lambda1", self.paper), ("The automatic path", self.path)]
        rows = [row for heading, pair in blocks for row in _block(heading, pair)]
        title = f"{caso.settings['model']}: {caso.label}, p = {caso.probability:.3g}"
        title = f"{self.name}, {title}" if self.name else title
        return maps_figure(title, rows, PANEL_WIDTH * (STRIP_COLUMNS + 1), PAPER_COLOURS)

    def _repr_png_(self) -> bytes:
        """Return the picture that a notebook shows."""
        return png(self.figure())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure to a PNG file."""
        save_figure(self.figure(), Path(path))


def sweep(model: Classifier, x: Item, target: Target = None, **options: Any) -> Sweep:
    """Compute CAFO and CASO at the eight values of lambda1 of the paper's tables, and along the automatic path.

    Args:
        model: a Classifier that takes pictures.
        x: one photograph, as for `explain`.
        target: the class to explain; None: the predicted one.
        options: further options of `explain`, except method and lambda1.

    Returns:
        The maps, with a figure and a record of each chosen map.
    """
    model.require_pictures()
    tensor = model.tensor(x)
    name = Path(x).name if isinstance(x, (str, os.PathLike)) else ""
    by_paper = _pair(model, tensor, target, LAMBDA1_VALUES, options)
    return Sweep(name, by_paper, _pair(model, tensor, target, "auto", options))


def _pair(
    model: Classifier, x: Tensor, target: Target, lambda1: str | tuple[float, ...], options: dict[str, Any]
) -> tuple[Explanation, Explanation]:
    caso: Explanation = explain(model, x, "caso", target, lambda1, **options)
    cafo: Explanation = explain(model, x, "cafo", target, lambda1, **(options | {"lambda2": caso.lambda2}))
    return cafo, caso


def _block(heading: str, pair: tuple[Explanation, Explanation]) -> list[Row]:
    cafo, caso = pair
    assert caso.gradient is not None
    rows = []
    for start in range(0, len(caso.path), STRIP_COLUMNS):
        some = slice(start, start + STRIP_COLUMNS)
        first = [_panel(p, cafo, f"lambda1 = {p.lambda1:.2g}") for p in cafo.path[some]]
        second = [_panel(p, caso) for p in caso.path[some]]
        shares = [zero_share(point.delta) for point in caso.path[some]]
        third = [
            Panel(normalise(clipped(caso.gradient, share).numpy()), below=f"eta = {share:.4f}") for share in shares
        ]
        seen = Panel(picture(caso.input.numpy()))
        rows += [
            Row([seen, *first], STRIP_COLUMNS + 1, heading=heading, name="CAFO"),
            Row([None, *second], STRIP_COLUMNS + 1, name="CASO"),
            Row([None, *third], STRIP_COLUMNS + 1, name="gradient, clipped"),
        ]
        heading = ""
    return rows


def _panel(point: PathPoint, e: Explanation, caption: str = "") -> Panel:
    chosen = point.lambda1 == e.lambda1
    return Panel(normalise(point.delta.numpy()), caption, chosen, below=f"eta = {point.sparsity:.4f}")
