"""The figures of results: the input beside its map, an overlay, and the maps along lambda1."""

from __future__ import annotations

from matplotlib.figure import Figure

from secondsight.config import Baseline
from secondsight.plotting.figures import STRIP_COLUMNS, Panel, Row, bars_figure, maps_figure, overlay, picture
from secondsight.plotting.shades import normalise
from secondsight.results import sentences
from secondsight.results.explanation import Explanation, SecondOrderExplanation, SparseExplanation
from secondsight.results.first_order import first_order_map


def explanation_figure(e: Explanation) -> Figure:
    """Draw a result: pictures as panels, other inputs as bars."""
    if e.delta.ndim != 3:
        against = not isinstance(e.method, Baseline) or e.method.score == "loss"
        what = "delta" if isinstance(e, SparseExplanation) else "score"
        axes = ("feature", f"{what} (positive: {'against' if against else 'for'} the class)")
        values = e.delta.double().flatten().numpy()
        return bars_figure(f"{sentences.title(e)}, {e.method.title}", values, axes, against)
    panels = _panels(e)
    return maps_figure(sentences.title(e), [Row(panels, len(panels), fontsize=10), *_strip(e)])


def demo_figure(smooth: Explanation, plain: Explanation) -> Figure:
    """The smooth maps of a picture above the plain ones, and the smooth ones along lambda1."""
    first, second = _panels(smooth), _panels(plain)
    rows = [Row(first, len(first), fontsize=10), Row([None, *second[1:]], len(first), fontsize=10)]
    return maps_figure(sentences.title(smooth), [*rows, *_strip(smooth)])


def _panels(e: Explanation) -> list[Panel]:
    seen, shades = picture(e.input.numpy()), e.map()
    panels = [Panel(seen, "input")]
    if isinstance(e, SecondOrderExplanation):
        first = e.method.first_order.title
        panels.append(Panel(normalise(first_order_map(e).numpy()), f"{first}, same penalties"))
    return [*panels, Panel(shades, sentences.caption(e)), Panel(overlay(seen, shades), "overlay")]


def _strip(e: Explanation) -> list[Row]:
    if not isinstance(e, SparseExplanation):
        return []
    panels = [
        Panel(
            normalise(point.delta.numpy()),
            f"lambda1 = {point.lambda1:.2g}\n{point.sparsity:.2%} zero",
            point.lambda1 == e.lambda1,
        )
        for point in e.path
    ]
    return [Row(panels[i : i + STRIP_COLUMNS], STRIP_COLUMNS) for i in range(0, len(panels), STRIP_COLUMNS)]
