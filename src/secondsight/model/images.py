"""From photographs to pixels in [0, 1]. A file that is damaged, too large or no image raises an ImageError.

To save memory, JPEG files are decoded at a fraction of their size, and every picture is converted and reduced strip by
strip.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from secondsight.errors import ImageError
from secondsight.model.picture_strips import GreyLevels, reduced
from secondsight.option_types import file_name


@dataclass(frozen=True)
class EncodedPicture:
    """The bytes of a picture file that lies inside of another file, such as a tar.

    Attributes:
        data: the bytes.
        name: what messages call it.
    """

    data: bytes = field(repr=False)
    name: str


Photograph = str | os.PathLike[str] | Image.Image | EncodedPicture
"""What is read: the path of a file, the bytes of one, or a picture that Pillow has opened."""

MAX_PIXELS = 89_478_485
"""Larger pictures are refused before they are decoded (Pillow's own threshold for a decompression bomb)."""

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
"""The formats that are opened, whatever a file is called. Others, such as EPS, start other programs to be read."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's picture mode by the number of channels that a network takes."""

DEFAULT_CROP = 0.875
"""Side of the centre crop over the shorter side of the scaled photograph: 224 of 256, as usual for ImageNet."""

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}
"""Pillow's resampling filters by the names that torchvision and timm give them."""

FINE = 2
"""Before the filter, pictures are reduced to no fewer than this many pixels for one of the network, in each direction.
To the eye the result is then the same as by the filter alone (Pillow calls this a reducing gap)."""

Box = tuple[float, float, float, float]
"""A part of a picture, in pixels: left, top, right, bottom."""

TURNED = (5, 6, 7, 8)
"""The EXIF orientations of pictures that are stored with width and height swapped."""


@dataclass(frozen=True)
class Pixels:
    """A photograph as the network takes it.

    Attributes:
        values: (C, H, W), float32, in [0, 1].
        notes: what was lost or assumed on the way.
    """

    values: Tensor
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PictureReader:
    """Reads the first frame of photographs, upright.

    CMYK and palettes are converted. Transparent parts are laid on white, unless the network takes four channels.

    Attributes:
        channels: the number of channels that the network takes: 1, 3 or 4.
        size: height and width of the result, in pixels. None: those of the picture. A picture that already has this
            size is neither scaled nor cut.
        resize: length in pixels of the picture's shorter side before the centre of `size` is cut out. None: the cut has
            0.875 of the height and of the width of the largest part of the picture that has the shape of `size`.
        interpolation: a name in FILTERS.
        max_pixels: pictures of more pixels are refused.
        value_range: the grey levels that are black and white, for pictures of more than 8 bits. None: as
            `GreyLevels.of` finds them.
    """

    channels: int = 3
    size: tuple[int, int] | None = None
    resize: int | None = None
    interpolation: str = "bilinear"
    max_pixels: int = MAX_PIXELS
    value_range: tuple[float, float] | None = None

    def read(self, photograph: Photograph) -> Pixels:
        """Read a photograph. A picture that Pillow has opened stays as it is.

        Args:
            photograph: the path of a file, the bytes of one, or a picture that Pillow has opened.

        Returns:
            Its pixels, and notes on what was lost or assumed.

        Raises:
            ImageError: if the file is missing, damaged, too large or no image.
            InputError: if `photograph` is none of these.
        """
        if isinstance(photograph, Image.Image):
            name = str(getattr(photograph, "filename", "") or "the picture")
            with _one_line_refusals(name):
                return self._pixels(photograph, name, own=False)
        if isinstance(photograph, EncodedPicture):
            with (
                _one_line_refusals(photograph.name),
                Image.open(BytesIO(photograph.data), formats=FORMATS) as picture,
            ):
                return self._pixels(picture, photograph.name, own=True)
        path = file_name("photograph", photograph, "a path or a PIL image")
        with _one_line_refusals(str(path)):
            if not path.is_file():
                raise ImageError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
            with Image.open(path, formats=FORMATS) as picture:
                return self._pixels(picture, str(path), own=True)

    def _pixels(self, picture: Image.Image, name: str, own: bool) -> Pixels:
        count = picture.width * picture.height
        if count > self.max_pixels:
            raise ImageError(f"{name} has {count:,} pixels, more than max_pixels = {self.max_pixels:,}")
        scale, stored = self._scale(picture.size), picture.size
        if own and isinstance(picture, JpegImageFile):
            picture.draft(None, (math.ceil(stored[0] / scale), math.ceil(stored[1] / scale)))
        picture.load()
        # Pillow turns TIFF files when it loads them, and drafts have a half, a quarter or an eighth of each side.
        drafted = round(max(stored) / max(picture.size))
        factor = max(1, int(scale / drafted))
        levels = GreyLevels.of(picture, name, self.value_range)
        orientation = picture.getexif().get(ExifTags.Base.Orientation, 1)
        small, notes = reduced(picture, factor, MODES[self.channels], levels), levels.notes if levels else ()
        whole = stored if drafted > 1 else picture.size
        # Width and height of the result before it is turned upright, at the end. Turning does not move the middle of a
        # picture, which is the part that is kept.
        size = self.size if self.size is None or orientation in TURNED else (self.size[1], self.size[0])
        if size is not None and whole != size:
            box = self._box(whole, size)
            left, top, right, bottom = (side / (drafted * factor) for side in box)
            small = small.resize(size, FILTERS[self.interpolation], box=(left, top, right, bottom))
            notes += _losses(whole, box, size, orientation in TURNED)
        small.getexif()[ExifTags.Base.Orientation] = orientation
        return Pixels(_to_tensor(ImageOps.exif_transpose(small), self.channels), notes)

    def _scale(self, stored: tuple[int, int]) -> float:
        """Choose how many pixels of the picture, in one direction, may become one before the filter is used."""
        if self.size is None or self.interpolation == "nearest":
            return 1.0
        boxes = [self._box(stored, size) for size in (self.size, (self.size[1], self.size[0]))]
        sides = [side for left, top, right, bottom in boxes for side in (right - left, bottom - top)]
        return max(1.0, min(sides) / max(self.size) / FINE)

    def _box(self, whole: tuple[int, int], size: tuple[int, int]) -> Box:
        """Choose the middle part of a picture that is scaled to `size`. Here sizes are width and height."""
        scales = whole[0] / size[0], whole[1] / size[1]
        scale = DEFAULT_CROP * min(scales) if self.resize is None else min(whole) / self.resize
        # If the crop is larger than the scaled picture, the whole side is taken and stretched.
        width, height = min(size[0] * scale, whole[0]), min(size[1] * scale, whole[1])
        left, top = (whole[0] - width) / 2, (whole[1] - height) / 2
        return left, top, left + width, top + height


def _losses(whole: tuple[int, int], box: Box, size: tuple[int, int], turned: bool) -> tuple[str, ...]:
    """Say which part of a photograph the network sees, and at which size. Empty: all of it, not made smaller."""
    part = round(box[2] - box[0]), round(box[3] - box[1])
    all_of, some_of, scaled = (f"{b} x {a}" if turned else f"{a} x {b}" for a, b in (whole, part, size))
    if part != whole:
        return (f"the network sees the middle {some_of} of the photograph's {all_of} pixels, scaled to {scaled}",)
    if whole[0] > size[0] or whole[1] > size[1]:
        return (f"the network sees the photograph's {all_of} pixels, scaled to {scaled}",)
    return ()


@contextmanager
def _one_line_refusals(name: str) -> Iterator[None]:
    """Turn every error of Pillow into an ImageError of one line that names the picture."""
    try:
        with warnings.catch_warnings():
            # `max_pixels` is the limit here.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    except ImageError:
        raise
    except Image.DecompressionBombError:
        raise ImageError(f"{name} has more pixels than Pillow opens (PIL.Image.MAX_IMAGE_PIXELS)") from None
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image of a format that is opened: {', '.join(FORMATS)}") from None
    except Exception as error:
        # On damaged bytes a decoder may raise any kind of error.
        raise ImageError(f"{name} cannot be read: {' '.join(str(error).split())}") from None


def _to_tensor(picture: Image.Image, channels: int) -> Tensor:
    """Convert an 8-bit picture, or grey levels in [0, 1], to a (C, H, W) float32 tensor in [0, 1]."""
    levels = torch.from_numpy(np.array(picture, dtype=np.float32))
    if picture.mode != "F":
        planes = levels[:, :, None] if levels.ndim == 2 else levels
        return planes.permute(2, 0, 1).contiguous().div_(255)
    # At edges a filter gives values below 0 or above 1.
    grey = levels.clamp_(0, 1)
    colours = min(channels, 3)
    return torch.cat([grey.expand(colours, *grey.shape), grey.new_ones(channels - colours, *grey.shape)])


def example_photograph() -> Path:
    """Find the photograph that comes with secondsight: Chelsea the cat, by Stefan van der Walt (CC0).

    Returns:
        The path of the file.

    Example:
        >>> example_photograph().name
        'chelsea.jpg'
    """
    return Path(str(resources.files("secondsight") / "data" / "chelsea.jpg"))
