"""Maps along lambda1: figure 3 of the paper, at its eight values and along the automatic path."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from matplotlib.figure import Figure

from secondsight.baselines import clipped
from secondsight.call import Cautions, explain_all
from secondsight.config import CASO, method_of
from secondsight.errors import InputError
from secondsight.groups import zero_share
from secondsight.model.classifier import Classifier, Item, Target, require_classifier
from secondsight.plotting.figures import PAPER_COLOURS, STRIP_COLUMNS, Panel, Row, maps_figure, picture, png
from secondsight.plotting.shades import normalise
from secondsight.presets import LAMBDA1_VALUES
from secondsight.results import sentences
from secondsight.results.explanation import PathPoint, SecondOrderExplanation, SparseExplanation
from secondsight.results.storage import save_figure
from secondsight.results.strengths import strengths

PANEL_WIDTH = 1.7
"""Inches for each column: nine columns make a figure of 15 inches."""


Pair = tuple[SparseExplanation, SecondOrderExplanation]
"""The results of CAFO and of CASO."""


@dataclass(frozen=True)
class Sweep:
    """CAFO and CASO at equal lambda2, along two sets of values of lambda1. In a notebook it shows its figure.

    Example:
        >>> import secondsight as ss
        >>> found = ss.sweep(ss.load_model(), ss.example_photograph())
        >>> cafo, caso = found.path
        >>> len(cafo.path), cafo.lambda2 == caso.lambda2
        (16, True)

    Attributes:
        name: the file name of the photograph; empty if there is none.
        paper: CAFO and CASO at the eight values of the paper's tables.
        path: CAFO and CASO along the automatic path.
    """

    name: str
    paper: Pair
    path: Pair

    def summaries(self) -> list[dict[str, Any]]:
        """List everything but the arrays, ready for JSON.

        Returns:
            One record for each chosen map, with the sparsity at every value of lambda1.
        """
        pairs = {"paper": self.paper, "path": self.path}
        return [
            e.summary() | {"values": values, "path": [{"lambda1": p.lambda1, "sparsity": p.sparsity} for p in e.path]}
            for values, pair in pairs.items()
            for e in pair
        ]

    def figure(self) -> Figure:
        """Draw blocks of three rows: CAFO, CASO, and the gradient clipped to CASO's sparsity. eta is a map's sparsity.

        Returns:
            A figure of matplotlib.
        """
        caso = self.path[1]
        blocks = [("The paper's values of lambda1", self.paper), ("The automatic path", self.path)]
        rows = [row for heading, pair in blocks for row in _block(heading, pair)]
        title = ", ".join(filter(None, [self.name, sentences.title(caso)]))
        return maps_figure(title, rows, PANEL_WIDTH * (STRIP_COLUMNS + 1), PAPER_COLOURS)

    def _repr_png_(self) -> bytes:
        """Return the picture that a notebook shows."""
        return png(self.figure())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure to a PNG file.

        Args:
            path: the name of the file.

        Raises:
            InputError: if the name does not end in .png.
            SecondsightError: if the file cannot be written.
        """
        save_figure(self.figure, path)


def sweep(
    model: Classifier,
    x: Item,
    method: CASO | str = CASO(),
    target: Target = None,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Sweep:
    """Compute CAFO and CASO at the eight values of lambda1 of the paper's tables, and along the automatic path.

    Args:
        model: a Classifier that takes pictures.
        x: one photograph, as for `explain`.
        method: the config of CASO. Its lambda1 is not used; CAFO takes the other options that it has.
        target: the class to explain; None: the predicted one.
        seed: of all random numbers.
        progress: called with the number of Hessian products that CASO has taken, for each of its two paths anew.

    Returns:
        The maps, with a figure and a record of each chosen map.

    Raises:
        InputError: if the network takes no pictures, or an argument cannot be used.
        ImageError: if a file cannot be read as a picture.
        ModelError: if the network cannot be explained as it is.

    Warns:
        SecondsightWarning: as `explain` does, once for all maps.

    Example:
        >>> import secondsight as ss
        >>> found = ss.sweep(ss.load_model(), ss.example_photograph())
        >>> sorted(point.lambda1 for point in found.paper[1].path)[:3]
        [0.0, 1e-05, 0.0001]
    """
    require_classifier(model)
    model.require_pictures()
    pixels = model.read(x)
    name = Path(x).name if isinstance(x, (str, os.PathLike)) else ""
    config = method_of(method)
    if not isinstance(config, CASO):
        raise InputError("method", "caso or smooth-caso, perhaps with options", config.name)

    def pair(lambda1: str | tuple[float, ...]) -> Pair:
        wanted = config.with_options(lambda1=lambda1)
        caso = cast("SecondOrderExplanation", explain_all(model, [pixels], wanted, [target], seed, progress)[0])
        first = wanted.without_curvature(lambda2=caso.lambda2)
        return cast("SparseExplanation", explain_all(model, [pixels], first, [target], seed, None)[0]), caso

    found = Sweep(name, pair(LAMBDA1_VALUES), pair("auto"))
    Cautions().warn([*found.paper, *found.path])
    return found


def _block(heading: str, pair: Pair) -> list[Row]:
    cafo, caso = pair
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


def _panel(point: PathPoint, e: SparseExplanation, caption: str = "") -> Panel:
    chosen = point.lambda1 == e.lambda1
    return Panel(normalise(strengths(e, drawn=point)), caption, chosen, below=f"eta = {point.sparsity:.4f}")
