"""Decoded pictures, converted and reduced strip by strip, so that a large one is never there twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from secondsight.errors import ImageError

STRIP = 2**20
"""Pixels that are converted at a time: a few megabytes beside the picture."""

MOST_BITS = 14
"""Cameras and scanners of 10, 12 or 14 bits write files of 16. Brighter pictures have 16 bits for sure."""


@dataclass(frozen=True)
class GreyLevels:
    """Which of the grey levels of a picture of more than 8 bits are black and white.

    Attributes:
        black, white: the grey levels. What lies outside is clipped.
        notes: what was assumed or clipped.
    """

    black: float
    white: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, picture: Image.Image, name: str, value_range: tuple[float, float] | None) -> GreyLevels | None:
        """Find them out from the picture, unless they are given. None: the picture has no more than 8 bits."""
        if not (picture.mode.startswith("I") or picture.mode == "F"):
            return None
        ends = [_ends(np.asarray(strip)) for _, strip in strips(picture)]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if not math.isfinite(low) or not math.isfinite(high):
            raise ImageError(f"{name} has grey levels that are not finite")
        if value_range is not None:
            black, white = value_range
            clipped = f"grey levels from {low:g} to {high:g} were clipped to value_range = ({black:g}, {white:g})"
            return cls(black, white, (clipped,) if low < black or high > white else ())
        is_float = picture.mode == "F"
        # Whole numbers of 32 bits may stand for 8 or for 16. Only the values tell.
        white = 1.0 if is_float else 255.0 if picture.mode == "I" and high <= 255 else 65535.0
        if low < 0 or high > white:
            kind = "floating-point" if is_float else "whole"
            raise ImageError(
                f"{name} has {kind} grey levels from {low:g} to {high:g}, not 0 to {white:g}: give the Classifier (or "
                "the command) those that are black and white as value_range"
            )
        bits = int(high).bit_length()
        if is_float or white == 255.0 or not 0 < bits <= MOST_BITS:
            return cls(0.0, white)
        note = (
            f"no grey level of this 16-bit picture is above {high:g}: if its data have fewer bits, it is darker than "
            f"it should be, and value_range = (0, {2 ** max(bits, 8) - 1}) mends that"
        )
        return cls(0.0, white, (note,))

    def to_unit(self, strip: Image.Image) -> Image.Image:
        """Scale the grey levels of a strip to [0, 1]."""
        levels = (np.asarray(strip).astype(np.float64) - self.black) / (self.white - self.black)
        return Image.fromarray(levels.clip(0, 1).astype(np.float32))


def strips(picture: Image.Image, multiple: int = 1) -> Iterator[tuple[int, Image.Image]]:
    """Cut a picture into strips whose height is a multiple of a number, except the last. Give their tops, too."""
    rows = max(1, STRIP // (picture.width * multiple)) * multiple
    for top in range(0, picture.height, rows):
        yield top, picture.crop((0, top, picture.width, min(top + rows, picture.height)))


def reduced(picture: Image.Image, factor: int, mode: str, levels: GreyLevels | None) -> Image.Image:
    """Convert a picture and reduce it by a whole factor: to a mode, or to [0, 1] where it has more grey levels.

    Transparent parts are laid on white, unless the mode has an alpha channel.
    """
    small = Image.new("F" if levels else mode, (-(-picture.width // factor), -(-picture.height // factor)))
    for top, strip in strips(picture, factor):
        converted = levels.to_unit(strip) if levels else _converted(strip, mode)
        small.paste(converted.reduce(factor), (0, top // factor))
    return small


def _converted(picture: Image.Image, mode: str) -> Image.Image:
    if mode != "RGBA" and picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert(mode)


def _ends(levels: np.ndarray) -> tuple[float, float]:
    return float(levels.min()), float(levels.max())
