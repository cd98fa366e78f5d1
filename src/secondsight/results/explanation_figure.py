"""The figures of results: the input beside its map, an overlay, and the maps along lambda1."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from secondsight.config import Baseline
from secondsight.option_types import number
from secondsight.plotting.figures import Array, Panel, Row, bars_figure, maps_figure, overlay, picture
from secondsight.plotting.shades import blurred, normalise
from secondsight.results import sentences
from secondsight.results.explanation import (
    Explanation,
    MapKind,
    PathPoint,
    SecondOrderExplanation,
    SparseExplanation,
)
from secondsight.results.first_order import first_order
from secondsight.results.strengths import Drawn, require_kind, strengths

STRIP_MAPS = 6
"""Maps of the path that a figure shows: enough to see it grow, and each large enough to look at."""


def explanation_figure(e: Explanation, kind: MapKind | None = None, blur: float = 0.0) -> Figure:
    """Draw a result: pictures as panels, other inputs as bars.

    Args:
        e: the result.
        kind: what a shade stands for, as for `Explanation.map`.
        blur: blur maps by a Gaussian of this many pixels, for the eye only.
    """
    require_kind(kind)
    blur = number(0.0, inclusive=True)("blur", blur)
    if e.delta.ndim != 3:
        against = not isinstance(e.method, Baseline) or e.method.score == "loss"
        what = "delta" if isinstance(e, SparseExplanation) else "score"
        axes = ("feature", f"{what} (positive: {'against' if against else 'for'} the class)")
        values = e.delta.double().flatten().numpy()
        return bars_figure(f"{sentences.title(e)}, {e.method.title}", values, axes, against)
    panels = _panels(e, kind, blur)
    rows = [Row(panels, len(panels), fontsize=10), *_strip(e, kind, blur)]
    return maps_figure(sentences.title(e), rows, subtitle=sentences.subtitle(e))


def demo_figure(pictured: Explanation, exact: Explanation) -> Figure:
    """Draw a map to look at and its path of lambda1, with the paper's map of the same photograph between them."""
    first, second = _panels(pictured, None, 0.0), _panels(exact, None, 0.0)[1:]
    rows = [Row(first, len(first), fontsize=10), Row(second, len(first), fontsize=10), *_strip(pictured, None, 0.0)]
    return maps_figure(sentences.title(pictured), rows, subtitle=sentences.subtitle(pictured))


def _panels(e: Explanation, kind: MapKind | None, blur: float) -> list[Panel]:
    shades = _shades(e, kind, blur)
    # A result from a run may lack its input and its gradient.
    seen = picture(e.input.numpy()) if hasattr(e, "input") else None
    panels = [] if seen is None else [Panel(seen, "input")]
    if isinstance(e, SecondOrderExplanation) and hasattr(e, "gradient"):
        first = e.method.first_order.title
        panels.append(Panel(_shades(e, kind, blur, first_order(e)), f"{first}, same penalties"))
    caption = sentences.caption(e) + (f"\nblurred for display, sigma = {blur:g} pixels" if blur else "")
    return [*panels, Panel(shades, caption), *([] if seen is None else [Panel(overlay(seen, shades), "overlay")])]


def _shades(e: Explanation, kind: MapKind | None, blur: float, drawn: Drawn | None = None) -> Array:
    return blurred(normalise(strengths(e, kind, drawn)), blur)


def _strip(e: Explanation, kind: MapKind | None, blur: float) -> list[Row]:
    if not isinstance(e, SparseExplanation) or not hasattr(e, "path"):
        return []
    panels = [
        Panel(
            _shades(e, kind, blur, point),
            f"lambda1 = {point.lambda1:.2g}\n{point.sparsity:.2%} zero",
            point.lambda1 == e.lambda1,
        )
        for point in telling(e.path, e.lambda1)
    ]
    return [Row(panels, STRIP_MAPS, fontsize=8)]


def telling(path: tuple[PathPoint, ...], chosen: float, count: int = STRIP_MAPS) -> list[PathPoint]:
    """Pick maps of a path: the chosen one, and others such that the kept share grows evenly from map to map.

    The logarithm of the kept share counts, because paths begin with a few pixels and end with most of them.

    Args:
        path: the maps by falling lambda1.
        chosen: the lambda1 of the chosen map.
        count: how many to pick at most.
    """
    shown = [point for point in path if point.sparsity < 1 or point.lambda1 == chosen] or list(path[:1])
    if len(shown) <= count:
        return shown
    kept = np.array([math.log(max(1 - point.sparsity, 1e-9)) for point in shown])
    picked = {next(i for i, point in enumerate(shown) if point.lambda1 == chosen)}
    while len(picked) < count:
        # The map that is farthest from all that were picked.
        distances = [min(abs(kept[i] - kept[j]) + abs(i - j) / len(shown) for j in picked) for i in range(len(shown))]
        picked.add(int(np.argmax(distances)))
    return [shown[i] for i in sorted(picked)]
