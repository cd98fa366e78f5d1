"""Methods side by side on one photograph: figure 4 of the paper, with the cost and the certificate of each map."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure
from torch import Tensor

from secondsight.baselines import clipped
from secondsight.call import Cautions, explain_all
from secondsight.config import CASO, METHODS, Gradient, Method, method_of
from secondsight.errors import InputError, shown
from secondsight.groups import zero_share
from secondsight.model.classifier import Classifier, Item, Target, require_classifier
from secondsight.operators.linearisation import linearise
from secondsight.option_types import file_name, flag, plain, split_outside
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture, png
from secondsight.plotting.shades import normalise
from secondsight.results import sentences
from secondsight.results.explanation import Explanation
from secondsight.results.storage import save_figure
from secondsight.viewer.notebook import frame
from secondsight.viewer.page import Tab, save_page

CLIPPED = "clipped-gradient"
"""The one column that is no method of `explain`: the gradient's largest pixels, in the number that CASO keeps."""

COLUMNS = ("gradient", CLIPPED, *(name for name in METHODS if name != "gradient"))
"""The methods that "all" stands for, in the order of the columns."""

CLIPPED_TITLE = "Gradient, clipped"
"""What figures call the column `CLIPPED`."""

MOST_SHEET_ROWS = 100
"""The most rows of a contact sheet: many programs cannot open a taller picture."""

PANEL_WIDTH = 1.9
"""Inches for each column, so that a caption such as "Integrated Gradients" fits above its map."""

M = TypeVar("M", bound=Method)
"""The config of a method."""

REPEATS = 3
"""Gradients that are timed: the median of three ignores one that was interrupted."""


@dataclass(frozen=True)
class Entry:
    """One method on one network, in a comparison.

    Example:
        >>> import secondsight as ss
        >>> entry = ss.compare(ss.load_model(), ss.example_photograph(), ["cafo"]).rows[0][0]
        >>> entry.method, entry.explanation.label
        ('cafo', 'tiger cat')

    Attributes:
        method: the name of the column.
        explanation: the map.
        gradient_equivalents: the cost of the map: its time divided by the time of one gradient of the loss.
    """

    method: str
    explanation: Explanation
    gradient_equivalents: float

    def summary(self) -> dict[str, Any]:
        """List everything but the arrays, ready for JSON.

        Returns:
            The record of the map, with the name of the column and the cost.
        """
        return self.explanation.summary() | {
            "method": self.method,
            "gradient_equivalents": self.gradient_equivalents,
        }

    def tab(self, with_model: bool) -> Tab:
        """Return the map as a tab of the viewer. Its title names the network if `with_model`."""
        title = title_of(self.method)
        if with_model:
            title = f"{self.explanation.model}, {title}"
        return Tab(self.explanation, title, {"gradient_equivalents": self.gradient_equivalents})

    def caption(self) -> str:
        """Return the lines above this map in the figure: the method, the share of zeros, the certificate."""
        e = self.explanation
        zero = f"{e.sparsity:.1%} zero" if e.sparsity else "dense"
        return f"{title_of(self.method)}\n{', '.join(filter(None, [zero, sentences.proof(e)]))}"


@dataclass(frozen=True)
class Comparison:
    """The maps of several methods on one photograph. In a notebook it shows them in the viewer.

    Example:
        >>> import secondsight as ss
        >>> found = ss.compare(ss.load_model(), ss.example_photograph(), ["gradient", "cafo"])
        >>> [entry.method for entry in found.rows[0]]
        ['gradient', 'cafo']

    Attributes:
        name: the file name of the photograph; empty if there is none.
        rows: one row for each network, with one entry for each method.
        times_input: whether the figure also shows each map multiplied by the input.
    """

    name: str
    rows: tuple[tuple[Entry, ...], ...]
    times_input: bool = False

    def summaries(self) -> list[dict[str, Any]]:
        """List everything but the arrays, ready for JSON.

        Returns:
            One record for each map.
        """
        return [entry.summary() for row in self.rows for entry in row]

    def figure(self) -> Figure:
        """Draw a row for each network: its input, then the maps. `times_input` adds a row of maps times the input.

        Returns:
            A figure of matplotlib.
        """
        rows = []
        for entries in self.rows:
            first = entries[0].explanation
            seen = picture(first.input.numpy())
            header = Panel(seen, sentences.title(first).replace(": ", "\n", 1))
            panels = [Panel(e.explanation.map(), e.caption()) for e in entries]
            columns = len(entries) + 1
            rows.append(Row([header, *panels], columns, fontsize=8))
            if self.times_input:
                times = [Panel(normalise(_times_input(e.explanation).numpy()), "times input") for e in entries]
                rows.append(Row([replace(header, caption=""), *times], columns, fontsize=8))
        return maps_figure(self.name, rows, PANEL_WIDTH * (len(self.rows[0]) + 1), PAPER_COLOURS)

    def sheet_rows(self) -> list[Row]:
        """Return a row of a contact sheet for each network: short captions, and pictures instead of results."""
        rows = []
        for entries in self.rows:
            first = entries[0].explanation
            seen = Panel(picture(first.input.numpy()), below=f"{first.label}, p = {first.probability:.2g}"[:34])
            maps = [Panel(e.explanation.map(), below=e.caption().partition("\n")[2]) for e in entries]
            rows.append(Row([seen, *maps], len(entries) + 1, fontsize=7))
        return rows

    def tabs(self) -> list[Tab]:
        """Return the maps as tabs of the viewer."""
        return [entry.tab(with_model=len(self.rows) > 1) for row in self.rows for entry in row]

    def _repr_html_(self) -> str:
        """Return the viewer, which a notebook shows."""
        return frame(self.tabs(), self.name)

    def _repr_png_(self) -> bytes:
        """Return the figure as a picture, for notebooks that show no HTML."""
        return png(self.figure())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure (.png), or a page with a slider over lambda1 (.html). The page has no maps times the input.

        Args:
            path: the name of the file. Its ending says what is written.

        Raises:
            InputError: if the name has another ending.
            SecondsightError: if the file cannot be written.
        """
        path = file_name("path", path, "a name that ends in .png or .html")
        if path.suffix.lower() == ".html":
            save_page(path, self.tabs(), self.name)
        elif path.suffix.lower() == ".png":
            save_figure(self.figure, path)
        else:
            raise InputError("path", "a name that ends in .png or .html", repr(str(path)))


def sheet_figure(title: str, rows: Sequence[Row], columns: Sequence[str]) -> Figure:
    """Draw a contact sheet: a row for each photograph and network, a column for each method.

    Args:
        title: the line above all.
        rows: from `Comparison.sheet_rows`, of one photograph after the other.
        columns: the names of the columns.
    """
    titles = ["input", *map(title_of, columns)]
    named = [replace(p, caption=title) for p, title in zip(rows[0].panels, titles, strict=True) if p is not None]
    top = replace(rows[0], panels=named, fontsize=8)
    return maps_figure(title, [top, *rows[1:]], PANEL_WIDTH * len(titles))


def compare(
    models: Classifier | Sequence[Classifier],
    x: Item,
    methods: str | Sequence[Method | str] = "all",
    target: Target = None,
    *,
    times_input: bool = False,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    started: Callable[[str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Explain one photograph by several methods, for one network or several.

    Args:
        models: a Classifier or several. They must take pictures.
        x: one photograph, as for `explain`.
        methods: configs or strings as for `explain`, as a sequence or separated by commas, or "all". Besides the
            methods of `explain` there is "clipped-gradient": the gradient's largest pixels, in the number that CASO
            keeps.
        target: the class to explain; None: what each network predicts.
        times_input: show each map a second time, multiplied by the input. Integrated Gradients, which multiplies by
            default, is then computed without the factor, so that the first row has no factor anywhere.
        seed: of all random numbers.
        progress: called with the number of Hessian products that the current method has taken.
        started: called with the name of each method when it begins.
        **options: options of methods, such as c1. Each goes to the methods that have it.

    Returns:
        The maps, with a figure and a record of costs.

    Raises:
        InputError: if an argument or an option cannot be used, a method is unknown, or no method has an option.
        ImageError: if a file cannot be read as a picture.
        ModelError: if a network cannot be explained as it is.

    Warns:
        SecondsightWarning: as `explain` does, once for all maps.

    Example:
        >>> import secondsight as ss
        >>> found = ss.compare(ss.load_model(), ss.example_photograph(), ["clipped-gradient", "cafo", "caso"])
        >>> sparsities = [entry.explanation.sparsity for entry in found.rows[0]]
        >>> abs(sparsities[0] - sparsities[2]) < 0.001
        True
    """
    if flag("times_input", times_input):
        options = options | {"times_input": False}
    chosen = columns_of(methods, **options)
    classifiers: list[Any] = list(models) if isinstance(models, (list, tuple)) else [models]
    if not classifiers:
        raise InputError("models", "at least one", "none")
    if started is not None and not callable(started):
        raise InputError("started", "None or a function of a name", shown(started))
    for model in classifiers:
        require_classifier(model)
        model.require_pictures()
    run = _Run(x, chosen, _configured(Gradient(), options), target, seed, progress, started or (lambda method: None))
    rows = tuple(run.entries(model) for model in classifiers)
    Cautions().warn([entry.explanation for row in rows for entry in row])
    name = Path(x).name if isinstance(x, (str, os.PathLike)) else ""
    return Comparison(name, rows, times_input)


def columns_of(methods: str | Sequence[Method | str], **options: Any) -> dict[str, Method]:
    """Return the method of each column that was asked for, by the name of the column.

    Args:
        methods: "all", strings separated by commas, or a sequence of configs or strings.
        **options: options of methods. Each goes to the methods that have it.

    Raises:
        InputError: if a method is unknown, or there is none, or none has an option.
    """
    if isinstance(methods, str):
        methods = COLUMNS if methods == "all" else split_outside(methods)
    methods = plain(methods)
    if not isinstance(methods, tuple) or not methods:
        what = "none" if isinstance(methods, tuple) else shown(methods)
        raise InputError("methods", f"all, or some of {', '.join(COLUMNS)}", what)
    # The clipped gradient takes the options of CASO, whose number of pixels it keeps.
    pairs = [(one, CASO() if isinstance(one, str) and one == CLIPPED else method_of(one)) for one in methods]
    made = {str(one): method for one, method in pairs}
    methods_asked = [*made.values(), *([Gradient()] if CLIPPED in made else [])]
    for name, value in options.items():
        if not any(method.has(name) for method in methods_asked):
            # Raises an InputError that says which methods have it.
            methods_asked[0].with_options(**{name: value})
    return {name: _configured(method, options) for name, method in made.items()}


def title_of(column: str) -> str:
    """Name a column as figures do, with the options that it was given."""
    if column == CLIPPED:
        return CLIPPED_TITLE
    method = method_of(column)
    options = str(method).removeprefix(method.name)
    return f"{method.title} {options}" if options else method.title


def owned(methods: str | Sequence[Method | str], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that at least one of the methods has."""
    columns = columns_of(methods).values()
    return {name: value for name, value in options.items() if any(method.has(name) for method in columns)}


def _configured(method: M, options: dict[str, Any]) -> M:
    return method.with_options(**{key: value for key, value in options.items() if method.has(key)})


@dataclass(frozen=True)
class _Run:
    """One comparison: what is the same for all networks."""

    x: Item
    columns: dict[str, Method]
    gradient: Gradient
    target: Target
    seed: int
    progress: Callable[[float], None] | None
    started: Callable[[str], None]

    def entries(self, model: Classifier) -> tuple[Entry, ...]:
        """Explain the photograph by each method."""
        pixels = model.read(self.x)
        unit = gradient_seconds(model, pixels.values)
        entries: dict[Method, Entry] = {}

        def entry(method: Method, name: str) -> Entry:
            if method not in entries:
                self.started(name)
                (e,) = explain_all(model, [pixels], method, [self.target], self.seed, self.progress)
                entries[method] = Entry(name, e, e.seconds / unit)
            return replace(entries[method], method=name)

        def column(name: str, method: Method) -> Entry:
            if name == CLIPPED:
                return _clipped(entry(self.gradient, "gradient"), entry(method, "caso").explanation)
            return entry(method, name)

        return tuple(column(name, method) for name, method in self.columns.items())


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
