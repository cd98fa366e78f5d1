"""Figures from plain arrays: rows of panels with maps and pictures, pictures with a map painted over, and bars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from secondsight.plotting.shades import dilated, is_dots

Array = NDArray[np.float64]

MAP_COLOURS = "inferno"
"""Black at zero and evenly brighter from there, so that the few pixels of a sparse map stand out."""

PAPER_COLOURS = "gray"
"""The look of the paper's figures."""

CHOSEN = "#2ca02c"
"""Matplotlib's green, for the frame and the text of the chosen map; no map has this colour."""

WIDTH = 12.0
"""Inches: six maps side by side are then 1.9 inches wide each."""

TITLE = 0.45
"""Inches above all rows, for a line of 12 points."""

HEADING = 0.35
"""Inches above a row with a heading, for a line of 11 points."""

GUTTER = 0.1
"""Inches between two panels."""

LINE = 1.35 / 72
"""Inches per point of font size: a line is 1.35 font sizes high, and an inch has 72 points."""

SUBTITLE = 0.25
"""Inches for a line of 9 points below the title."""

DOT = 3
"""Side of the square that a single pixel of a map takes: dots of a figure, or pixels of the picture in an overlay. A
smaller square cannot be seen."""

ENLARGED = 2
"""Dots of an overlay for each pixel of the picture, in both directions: the line around a region is half a pixel."""

OUTLINE = (0.0, 0.9, 1.0)
"""The line around what a map keeps: cyan, which no shade of MAP_COLOURS has."""

STRIP_COLUMNS = 8
"""Maps in a row of the figure of a sweep along lambda1: the paper's tables have eight values."""

FOR, AGAINST = "#3b6fb6", "#c8452f"
"""Bars of features that speak for the class are blue, those against it red."""


@dataclass(frozen=True)
class Panel:
    """One picture of a figure, with text above and below it.

    Attributes:
        image: a map (H, W) or a picture (H, W, 3), in [0, 1].
        caption: the text above; it may have several lines.
        chosen: draw a green frame around it, and its text in green.
        below: one line of text below.
    """

    image: Array
    caption: str = ""
    chosen: bool = False
    below: str = ""


@dataclass(frozen=True)
class Row:
    """Panels side by side.

    Attributes:
        panels: from left to right; None leaves a place empty.
        columns: the number of places, of equal width, in the width of the figure.
        fontsize: of the text above and below the panels, in points.
        heading: a line above the row; empty for none.
        name: written upwards at the left of the row; empty for none.
    """

    panels: Sequence[Panel | None]
    columns: int
    fontsize: int = 7
    heading: str = ""
    name: str = ""


def picture(pixels: NDArray[np.floating]) -> Array:
    """Convert (C, H, W) pixels in [0, 1] to an (H, W, 3) picture.

    Four channels are RGB and transparency, which is laid on white. Of one, two or more than four channels the first is
    shown in grey.
    """
    image = np.moveaxis(np.asarray(pixels, dtype=np.float64), 0, -1)
    if image.shape[-1] == 4:
        alpha = image[..., 3:]
        image = image[..., :3] * alpha + 1 - alpha
    if image.shape[-1] != 3:
        image = np.repeat(image[..., :1], 3, axis=-1)
    return np.clip(image, 0, 1)


def overlay(image: Array, shades: Array) -> Array:
    """Paint a map over a paler copy of the picture. Brighter shades are more opaque.

    A line goes around the regions that the map keeps. A map of scattered single pixels has no line. Its pixels are
    drawn larger instead.

    Args:
        image: the picture, (H, W, 3).
        shades: the map, (H, W), in [0, 1].

    Returns:
        A picture of ENLARGED times the height and the width, so that the line is thin.
    """
    from matplotlib import colormaps

    dots = is_dots(shades)
    shades = _enlarged(dilated(shades, DOT) if dots else shades)
    grey = image.mean(-1, keepdims=True)
    pale = _enlarged(0.85 * (0.6 * grey + 0.4 * image) + 0.1)
    kept = (shades > 0)[..., None]
    # The darker half of the colour map would not be seen on a dark photograph.
    colour = colormaps[MAP_COLOURS](0.4 + 0.6 * shades)[..., :3]
    weight = np.where(kept, 0.35 + 0.6 * shades[..., None] ** 0.7, 0.0)
    mixed: Array = pale * (1 - weight) + colour * weight
    if not dots:
        mixed[dilated(kept[..., 0].astype(float), 3) > kept[..., 0]] = OUTLINE
    return mixed


def _enlarged(image: Array) -> Array:
    return image.repeat(ENLARGED, axis=0).repeat(ENLARGED, axis=1)


def maps_figure(
    title: str, rows: Sequence[Row], width: float = WIDTH, colours: str = MAP_COLOURS, subtitle: str = ""
) -> Figure:
    """Draw rows of panels below each other.

    All panels get the ratio of height to width of the first one, but at least 0.4 and at most 2.5.

    Args:
        title: the line above all rows.
        rows: from top to bottom.
        width: of the figure, in inches; the height follows.
        colours: the matplotlib colour map of the maps.
        subtitle: a smaller line below the title; empty for none.
    """
    height, across = next(panel for panel in rows[0].panels if panel is not None).image.shape[:2]
    shape = min(max(height / across, 0.4), 2.5)
    margin = 0.3 if any(row.name for row in rows) else 0.0
    places = [_Place.of(row, width - margin, shape) for row in rows]
    head = TITLE + (SUBTITLE if subtitle else 0.0)
    total = head + sum(place.height for place in places)
    figure = Figure(figsize=(width, total), dpi=120)
    # Without formulas, because a class name or a file name may contain a dollar sign.
    figure.text(0.5, 1 - TITLE / 2 / total, title, ha="center", va="center", fontsize=12, parse_math=False)
    if subtitle:
        figure.text(0.5, 1 - TITLE / total, subtitle, ha="center", va="top", fontsize=9, color="0.3", parse_math=False)
    top = total - head
    for row, place in zip(rows, places, strict=True):
        if row.heading:
            middle = (top - HEADING / 2) / total
            figure.text(GUTTER / 2 / width, middle, row.heading, va="center", fontsize=11, parse_math=False)
        bottom = top - place.above - place.side * shape
        if row.name:
            middle = (bottom + place.side * shape / 2) / total
            figure.text(margin / 2 / width, middle, row.name, rotation=90, ha="center", va="center", fontsize=10)
        for column, panel in enumerate(row.panels):
            if panel is None:
                continue
            left = margin + column * (place.side + GUTTER) + GUTTER / 2
            axes = figure.add_axes((left / width, bottom / total, place.side / width, place.side * shape / total))
            _draw(axes, panel, row.fontsize, colours, place.side * figure.dpi)
        top -= place.height
    return figure


@dataclass(frozen=True)
class _Place:
    """The space of a row, in inches: the width of a panel, the height above the panels, and the height of the row."""

    side: float
    above: float
    height: float

    @classmethod
    def of(cls, row: Row, width: float, shape: float) -> _Place:
        """Measure a row in a figure of this width, with panels of this ratio of height to width."""
        line = row.fontsize * LINE
        side = width / row.columns - GUTTER
        panels = [panel for panel in row.panels if panel is not None]
        lines = max(panel.caption.count("\n") + 1 if panel.caption else 0 for panel in panels)
        above = (HEADING if row.heading else 0.0) + lines * line + GUTTER
        below = line + GUTTER / 2 if any(panel.below for panel in panels) else 0.0
        return cls(side, above, above + side * shape + below + GUTTER / 2)


def _draw(ax: Axes, panel: Panel, fontsize: int, colours: str, width: float) -> None:
    """Draw a panel that is `width` dots of the figure wide."""
    image = panel.image
    if image.ndim == 2 and is_dots(image):
        image = dilated(image, max(1, round(DOT * image.shape[1] / width)))
    ax.imshow(image, cmap=colours, vmin=0, vmax=1, interpolation="antialiased")
    ink = CHOSEN if panel.chosen else "black"
    ax.set_title(panel.caption, fontsize=fontsize, color=ink, pad=3, parse_math=False)
    ax.set_xlabel(panel.below, fontsize=fontsize, color=ink, labelpad=4, parse_math=False)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(panel.chosen)
        spine.set_color(CHOSEN)
        spine.set_linewidth(3)


def png(figure: Figure) -> bytes:
    """Return the bytes of a PNG file of the figure."""
    file = io.BytesIO()
    # Stronger compression would take most of the time, and make the file only a tenth smaller.
    figure.savefig(file, format="png", pil_kwargs={"compress_level": 2})
    return file.getvalue()


def bars_figure(title: str, values: Array, captions: tuple[str, str], positive_is_against: bool = True) -> Figure:
    """Draw one signed bar for each feature, for inputs that are no pictures.

    Args:
        title: the line above the bars.
        values: the height of the bar of each feature.
        captions: the labels of the horizontal and the vertical axis.
        positive_is_against: whether a positive value works against the class. Bars that do are red, the others blue.
    """
    figure = Figure(figsize=(10, 3.2), dpi=120, layout="constrained")
    ax = figure.subplots()
    # As one collection, because `Axes.bar` takes a minute for inputs with very many features, such as a text.
    left, right, base = np.arange(len(values)) - 0.4, np.arange(len(values)) + 0.4, np.zeros(len(values))
    corners = np.stack([left, base, left, values, right, values, right, base], axis=-1).reshape(-1, 4, 2)
    colours = np.where((values > 0) == positive_is_against, AGAINST, FOR)
    ax.add_collection(PolyCollection(list(corners), facecolors=colours, edgecolors=colours, linewidths=0.5))
    ax.autoscale_view()
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_title(title, fontsize=11, parse_math=False)
    ax.set_xlabel(captions[0])
    ax.set_ylabel(captions[1])
    return figure
