"""Decoded pictures, converted and reduced strip by strip, so that memory never holds a large picture twice."""

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
"""Cameras and scanners of 10, 12 or 14 bits write files of 16 bits. If a grey level needs more than 14 bits, the
data have 16."""


@dataclass(frozen=True)
class GreyLevels:
    """Which of the grey levels of a picture of more than 8 bits are black and white.

    Attributes:
        black, white: the grey levels. Levels outside of them are clipped.
        notes: what was assumed or clipped.
    """

    black: float
    white: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, picture: Image.Image, name: str, value_range: tuple[float, float] | None) -> GreyLevels | None:
        """Take the levels from `value_range`, else find them out from the picture.

        Args:
            picture: the decoded picture.
            name: what messages call the picture.
            value_range: the levels of black and white. None: 0, and 255, 65535 or 1.0 as the picture shows.

        Returns:
            The levels, or None for a picture of no more than 8 bits.

        Raises:
            ImageError: if levels are not finite, or if they lie outside of the range that was found out.
        """
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
        # Whole numbers of 32 bits may hold data of 8 or of 16 bits. Only the values tell.
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
    """Cut a picture into strips, and yield each with the number of its first row.

    The height of a strip is a multiple of `multiple`, except that of the last strip.
    """
    rows = max(1, STRIP // (picture.width * multiple)) * multiple
    for top in range(0, picture.height, rows):
        yield top, picture.crop((0, top, picture.width, min(top + rows, picture.height)))


def reduced(picture: Image.Image, factor: int, mode: str, levels: GreyLevels | None) -> Image.Image:
    """Convert a picture and reduce it by a whole factor. Transparent parts are laid on white, unless the mode has them.

    Args:
        picture: the decoded picture.
        factor: how many pixels become one, in each direction.
        mode: Pillow's mode of the result, for a picture without `levels`.
        levels: black and white of a picture of more than 8 bits. The result is then in [0, 1], in Pillow's mode F.
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
