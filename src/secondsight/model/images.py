"""From photographs to pixels in [0, 1]. A file that is damaged, too large or no image raises an ImageError."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from secondsight.errors import ImageError

Photograph = str | os.PathLike[str] | Image.Image
"""What `read` takes: a file, or a picture that Pillow has opened."""

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


def read(photograph: Photograph, channels: int = 3) -> Image.Image:
    """Read the first frame of a photograph, upright, as 8-bit L, RGB or RGBA.

    Grey levels of more than 8 bits are scaled. CMYK and palettes are converted. Transparent parts are laid on white,
    unless the network takes four channels.

    Args:
        photograph: a file, or a picture that Pillow has opened.
        channels: the number of channels that the network takes: 1, 3 or 4.

    Raises:
        ImageError: if the file is missing, damaged, too large or no image.
    """
    if isinstance(photograph, Image.Image):
        name = str(getattr(photograph, "filename", "") or "the picture")
        with _one_line_refusals(name):
            return _convert(_upright(photograph, name), MODES[channels], name)
    path = Path(photograph)
    with _one_line_refusals(str(path)):
        if not path.is_file():
            raise ImageError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
        with Image.open(path, formats=FORMATS) as picture:
            return _convert(_upright(picture, str(path)), MODES[channels], str(path))


@contextmanager
def _one_line_refusals(name: str) -> Iterator[None]:
    """Turn every error of Pillow into an ImageError of one line that names the picture."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"{name} has more than {MAX_PIXELS:,} pixels") from None
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image of a format that is opened: {', '.join(FORMATS)}") from None
    except Exception as error:
        # On damaged bytes a decoder may raise any kind of error.
        raise ImageError(f"{name} cannot be read: {' '.join(str(error).split())}") from None


def _upright(picture: Image.Image, name: str) -> Image.Image:
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"{name} has {width * height:,} pixels, more than {MAX_PIXELS:,}")
    return ImageOps.exif_transpose(picture)


def _convert(picture: Image.Image, mode: str, name: str) -> Image.Image:
    if picture.mode.startswith("I"):
        picture = _eight_bits(picture, name)
    if picture.mode == "F":
        raise ImageError(f"{name} has floating-point grey levels, which have no fixed range: pass a tensor in [0, 1]")
    if mode != "RGBA" and picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert(mode)


def _eight_bits(picture: Image.Image, name: str) -> Image.Image:
    levels = np.asarray(picture).astype(np.float64)
    low, high = levels.min(initial=0.0), levels.max(initial=0.0)
    if low < 0 or high > 65535:
        raise ImageError(f"{name} has grey levels from {low:.0f} to {high:.0f}, not 0 to 65535: pass a tensor")
    # In mode I the range may be 8 or 16 bits; only the values tell which.
    top = 65535.0 if high > 255 or picture.mode != "I" else 255.0
    return Image.fromarray(np.round(levels / top * 255).astype(np.uint8))


def fit(picture: Image.Image, size: tuple[int, int], resize: int | None, interpolation: str) -> Image.Image:
    """Scale the shorter side to `resize`, then cut the centre of `size` (height, width), in one step.

    Only the part that is kept is resampled, so a very long and narrow picture costs no more than a square one.

    Args:
        picture: what to cut from.
        size: height and width of the result.
        resize: length of the picture's shorter side before the cut. None: the cut is 0.875 of the largest part of the
            picture that has the shape of `size`.
        interpolation: a name in FILTERS.
    """
    height, width = size
    if picture.size == (width, height):
        # It is what the network takes already: a crop would lose its border.
        return picture
    if resize is None:
        scale = DEFAULT_CROP * min(picture.width / width, picture.height / height)
    else:
        scale = min(picture.size) / resize
    # If the crop is larger than the scaled picture, the whole side is taken and stretched.
    crop_width, crop_height = min(width * scale, picture.width), min(height * scale, picture.height)
    left, top = (picture.width - crop_width) / 2, (picture.height - crop_height) / 2
    box = (left, top, left + crop_width, top + crop_height)
    return picture.resize((width, height), FILTERS[interpolation], box=box)


def to_tensor(picture: Image.Image) -> Tensor:
    """Convert an 8-bit picture to a (C, H, W) float32 tensor in [0, 1]."""
    pixels = np.asarray(picture, dtype=np.float32) / 255
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def example_photograph() -> Path:
    """Return the path of the photograph that comes with secondsight: Chelsea the cat, by Stefan van der Walt (CC0)."""
    return Path(str(resources.files("secondsight") / "data" / "chelsea.jpg"))
