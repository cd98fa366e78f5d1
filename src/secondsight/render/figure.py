"""Figures from plain arrays: what was seen, the maps beside it, and the strip of maps along lambda1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAP_COLOURS = "inferno"
CHOSEN = "#2ca02c"
WIDTH, TITLE, GUTTER = 12.0, 0.45, 0.1
STRIP_COLUMNS = 8
FOR, AGAINST = "#3b6fb6", "#c8452f"


@dataclass(frozen=True)
class Panel:
    """One picture with its caption: a map (H, W) in [0, 1], or a picture (H, W, 3)."""

    image: Array
    caption: str
    chosen: bool = False


def picture(pixels: NDArray[np.floating]) -> Array:
    """(C, H, W) pixels in [0, 1] as an (H, W, 3) picture; transparency is laid on white."""
    image = np.moveaxis(np.asarray(pixels, dtype=np.float64), 0, -1)
    if image.shape[-1] == 4:
        alpha = image[..., 3:]
        image = image[..., :3] * alpha + 1 - alpha
    if image.shape[-1] != 3:
        image = np.repeat(image[..., :1], 3, axis=-1)
    return np.clip(image, 0, 1)


def overlay(image: Array, shades: Array) -> Array:
    """The map's shades, in a warm colour, on a dimmed grey copy of the picture."""
    grey = image.mean(-1, keepdims=True) * 0.45
    weight = shades[..., None] ** 0.7
    mixed: Array = grey * (1 - weight) + np.array([1.0, 0.82, 0.18]) * weight
    return mixed


def maps_figure(title: str, panels: Sequence[Panel], strip: Sequence[Panel]) -> Figure:
    """Large panels in a row, and below them rows of small ones."""
    height, width = panels[0].image.shape[:2]
    shape = min(max(height / width, 0.4), 2.5)
    rows = [Row(panels, len(panels), caption=0.3, fontsize=10)]
    for i in range(0, len(strip), STRIP_COLUMNS):
        rows.append(Row(strip[i : i + STRIP_COLUMNS], STRIP_COLUMNS, caption=0.45, fontsize=7))
    total = TITLE + sum(row.height(shape) for row in rows)
    figure = Figure(figsize=(WIDTH, total), dpi=120)
    # Class names are no formulas.
    figure.text(0.5, 1 - TITLE / 2 / total, title, ha="center", va="center", fontsize=12, parse_math=False)
    top = total - TITLE
    for row in rows:
        for column, panel in enumerate(row.panels):
            side = row.side
            bottom = top - row.caption - side * shape
            left = column * (side + GUTTER) + GUTTER / 2
            axes = figure.add_axes((left / WIDTH, bottom / total, side / WIDTH, side * shape / total))
            _draw(axes, panel, row.fontsize)
        top -= row.height(shape)
    return figure


@dataclass(frozen=True)
class Row:
    """Panels side by side in so many columns of equal width; lengths are inches."""

    panels: Sequence[Panel]
    columns: int
    caption: float
    fontsize: int

    @property
    def side(self) -> float:
        return WIDTH / self.columns - GUTTER

    def height(self, shape: float) -> float:
        return self.caption + self.side * shape + GUTTER


def _draw(ax: Axes, panel: Panel, fontsize: int) -> None:
    ax.imshow(panel.image, cmap=MAP_COLOURS, vmin=0, vmax=1, interpolation="antialiased")
    ax.set_title(panel.caption, fontsize=fontsize, color=CHOSEN if panel.chosen else "black")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(panel.chosen)
        spine.set_color(CHOSEN)
        spine.set_linewidth(3)


def bars_figure(title: str, values: Array, captions: tuple[str, str]) -> Figure:
    """Signed bars, one per feature, for inputs that are no pictures."""
    figure = Figure(figsize=(10, 3.2), dpi=120, layout="constrained")
    ax = figure.subplots()
    # As one collection: `Axes.bar` takes a minute for the features of a text.
    left, right, base = np.arange(len(values)) - 0.4, np.arange(len(values)) + 0.4, np.zeros(len(values))
    corners = np.stack([left, base, left, values, right, values, right, base], axis=-1).reshape(-1, 4, 2)
    colours = np.where(values > 0, AGAINST, FOR)
    ax.add_collection(PolyCollection(list(corners), facecolors=colours, edgecolors=colours, linewidths=0.5))
    ax.autoscale_view()
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_title(title, fontsize=11, parse_math=False)
    ax.set_xlabel(captions[0])
    ax.set_ylabel(captions[1])
    return figure
