"""Methods side by side on one photograph: figure 4 of the paper, with the cost and the certificate of each map."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from secondsight.api import check_method, explain
from secondsight.baselines import clipped
from secondsight.errors import InputError
from secondsight.model.classifier import Classifier, Item, Target
from secondsight.operators.linearisation import linearise
from secondsight.pipeline import METHODS, PENALISED
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture, png
from secondsight.plotting.shades import normalise
from secondsight.results.explanation import NAMES, Explanation, save_figure, zero_share

CLIPPED = "clipped-gradient"
"""The one column that is no method of `explain`: the gradient's largest pixels, in the number that CASO keeps."""

COLUMNS = ("gradient", CLIPPED, *(name for name in METHODS if name != "gradient"))
"""The methods that "all" stands for, in the order of the columns."""

TITLES = NAMES | {CLIPPED: "Gradient, clipped"}
"""What figures call each column."""

PANEL_WIDTH = 1.9
"""Inches for each column, so that a caption such as "Integrated Gradients" fits above its map."""

REPEATS = 3
"""Gradients that are timed: the median of three ignores one that was interrupted."""


@dataclass(frozen=True)
class Entry:
    """One method on one network.

    Attributes:
        method: the name of the column.
        explanation: the map.
        gradient_equivalents: the cost of the map: its time divided by the time of one gradient of the loss.
    """

    method: str
    explanation: Explanation
    gradient_equivalents: float

    def summary(self) -> dict[str, Any]:
        """Return everything but the arrays, ready for JSON."""
        return self.explanation.summary() | {
            "method": self.method,
            "gradient_equivalents": self.gradient_equivalents,
        }

    def caption(self) -> str:
        """Return the lines above this map in the figure: the method, the share of zeros, the certificate."""
        e = self.explanation
        zero = f"{e.sparsity:.1%} zero" if e.sparsity else "dense"
        return f"{TITLES[self.method]}\n{', '.join(filter(None, [zero, e.proof]))}"


@dataclass(frozen=True)
class Comparison:
    """The maps of several methods on one photograph.

    Attributes:
        name: the file name of the photograph; empty if there is none.
        rows: one row for each network, with one entry for each method.
        times_input: whether the figure also shows each map multiplied by the input.
    """

    name: str
    rows: tuple[tuple[Entry, ...], ...]
    times_input: bool = False

    def summaries(self) -> list[dict[str, Any]]:
        """Return one record for each map, ready for JSON."""
        return [entry.summary() for row in self.rows for entry in row]

    def figure(self) -> Figure:
        """Draw a row for each network: what it saw, then the maps. With `times_input` a second row multiplies them."""
        rows = []
        for entries in self.rows:
            first = entries[0].explanation
            seen = picture(first.input.numpy())
            header = Panel(seen, f"{first.settings['model']}\n{first.label}, p = {first.probability:.3g}")
            panels = [Panel(normalise(e.explanation.delta.numpy()), e.caption()) for e in entries]
            columns = len(entries) + 1
            rows.append(Row([header, *panels], columns, fontsize=8))
            if self.times_input:
                times = [Panel(normalise(_times_input(e.explanation).numpy()), "times input") for e in entries]
                rows.append(Row([replace(header, caption=""), *times], columns, fontsize=8))
        return maps_figure(self.name, rows, PANEL_WIDTH * (len(self.rows[0]) + 1), PAPER_COLOURS)

    def _repr_png_(self) -> bytes:
        """Return the picture that a notebook shows."""
        return png(self.figure())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure to a PNG file."""
        save_figure(self.figure(), Path(path))


def compare(
    models: Classifier | Sequence[Classifier],
    x: Item,
    methods: str | Sequence[str] = "all",
    target: Target = None,
    *,
    times_input: bool = False,
    started: Callable[[str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Explain one photograph by several methods, for one network or several.

    Args:
        models: a Classifier or several. They must take pictures.
        x: one photograph, as for `explain`.
        methods: names of methods, separated by commas or as a sequence, or "all". Besides the methods of `explain`
            there is "clipped-gradient": the gradient's largest pixels, in the number that CASO keeps.
        target: the class to explain; None: what each network predicts.
        times_input: show each map a second time, multiplied by the input. Integrated Gradients, which multiplies by
            default, is then computed without the factor, so that the first row has no factor anywhere.
        started: called with the name of each method when it begins.
        options: further options of `explain`. `groups` goes only to the methods with a penalty.

    Returns:
        The maps, with a figure and a record of costs.

    Raises:
        InputError: if a method is unknown, or an option cannot be used.
    """
    chosen = check_methods(methods)
    if times_input:
        options = options | {"times_input": False}
    classifiers = [models] if isinstance(models, Classifier) else list(models)
    if not classifiers:
        raise InputError("models", "at least one", "none")
    for model in classifiers:
        model.require_pictures()
    report = started or (lambda method: None)
    rows = tuple(_entries(model, x, chosen, target, options, report) for model in classifiers)
    name = Path(x).name if isinstance(x, (str, os.PathLike)) else ""
    return Comparison(name, rows, times_input)


def check_methods(methods: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns that were asked for, each once.

    Args:
        methods: "all", names separated by commas, or a sequence of names.

    Raises:
        InputError: if a name is unknown, or there is none.
    """
    if isinstance(methods, str):
        methods = COLUMNS if methods == "all" else [name.strip() for name in methods.split(",")]
    chosen = tuple(dict.fromkeys(methods))
    for name in chosen:
        if name != CLIPPED:
            check_method(name)
    if not chosen:
        raise InputError("methods", f"all, or some of {', '.join(COLUMNS)}", "none")
    return chosen


def _entries(
    model: Classifier,
    x: Item,
    chosen: Sequence[str],
    target: Target,
    options: dict[str, Any],
    started: Callable[[str], None],
) -> tuple[Entry, ...]:
    tensor = model.tensor(x)
    unit = gradient_seconds(model, tensor)
    needed = dict.fromkeys(["gradient", "caso"] if CLIPPED in chosen else [])
    entries: dict[str, Entry] = {}
    for method in dict.fromkeys([*needed, *(name for name in chosen if name != CLIPPED)]):
        started(method)
        own = options if method in PENALISED else {k: v for k, v in options.items() if k != "groups"}
        explanation: Explanation = explain(model, tensor, method, target, **own)
        entries[method] = Entry(method, explanation, explanation.seconds / unit)
    if CLIPPED in chosen:
        entries[CLIPPED] = _clipped(entries["gradient"], entries["caso"].explanation)
    return tuple(entries[name] for name in chosen)


def _clipped(gradient: Entry, caso: Explanation) -> Entry:
    # The share of zero pixels, because CASO's own sparsity counts groups if there are groups.
    delta = clipped(gradient.explanation.delta, zero_share(caso.delta))
    explanation = replace(gradient.explanation, delta=delta, sparsity=zero_share(delta))
    return replace(gradient, method=CLIPPED, explanation=explanation)


def _times_input(e: Explanation) -> Tensor:
    return e.delta * e.input


def gradient_seconds(model: Classifier, x: Tensor) -> float:
    """Measure the wall time, in seconds, of one gradient of the loss at x: the unit of costs."""
    times = []
    with model.ready():
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            linearise(model, x[None]).gradient()
            times.append(time.perf_counter() - start)
    # The first pass does not count, because it also pays for the checks of a new network.
    return statistics.median(times[1:])
