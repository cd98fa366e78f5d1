"""Photographs in, pixels in [0, 1] out: safe against whatever a file may hold."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from secondsight.errors import ImageError

Photograph = str | os.PathLike[str] | Image.Image

MAX_PIXELS = 89_478_485
"""Larger pictures are refused before they are decoded (Pillow's own threshold for a decompression bomb)."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""The picture modes a network of so many channels can be fed with."""

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}


def read(photograph: Photograph, channels: int = 3) -> Image.Image:
    """The first frame of a photograph, upright, as 8-bit L, RGB or RGBA.

    Grey levels of more than 8 bits are scaled, CMYK and palettes converted, transparent parts laid on white (unless the
    network takes four channels).
    """
    if isinstance(photograph, Image.Image):
        return _convert(_upright(photograph, "the picture"), MODES[channels])
    path = Path(photograph)
    if not path.is_file():
        raise ImageError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
    try:
        with Image.open(path) as picture:
            return _convert(_upright(picture, str(path)), MODES[channels])
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"{path} has more than {MAX_PIXELS:,} pixels") from None
    except UnidentifiedImageError:
        raise ImageError(f"{path} is not an image that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"{path} cannot be decoded: {error}") from None


def _upright(picture: Image.Image, name: str) -> Image.Image:
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"{name} has {width * height:,} pixels, more than {MAX_PIXELS:,}")
    return ImageOps.exif_transpose(picture)


def _convert(picture: Image.Image, mode: str) -> Image.Image:
    if picture.mode.startswith("I"):
        picture = _eight_bits(picture)
    if picture.mode == "F":
        raise ImageError("pictures of floating-point grey levels have no fixed range: pass a tensor in [0, 1]")
    if mode != "RGBA" and picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert(mode)


def _eight_bits(picture: Image.Image) -> Image.Image:
    levels = np.asarray(picture).astype(np.float64)
    # Mode I also holds 16-bit files; only the values tell.
    top = 65535.0 if levels.max(initial=0.0) > 255 or picture.mode != "I" else 255.0
    return Image.fromarray(np.round(np.clip(levels / top, 0, 1) * 255).astype(np.uint8))


def fit(picture: Image.Image, size: tuple[int, int], resize: int, interpolation: str) -> Image.Image:
    """Scale the shorter side to `resize`, then cut the centre of `size` (height, width), in one step.

    Only the part that is kept is resampled, so a very long and narrow picture costs no more than a square one.
    """
    height, width = size
    scale = min(picture.size) / resize
    # A crop larger than the scaled picture is stretched to what there is.
    crop_width, crop_height = min(width * scale, picture.width), min(height * scale, picture.height)
    left, top = (picture.width - crop_width) / 2, (picture.height - crop_height) / 2
    box = (left, top, left + crop_width, top + crop_height)
    return picture.resize((width, height), FILTERS[interpolation], box=box)


def to_tensor(picture: Image.Image) -> Tensor:
    """(C, H, W) float32 in [0, 1]."""
    pixels = np.asarray(picture, dtype=np.float32) / 255
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def example_photograph() -> Path:
    """The photograph that comes with secondsight: Chelsea the cat, by Stefan van der Walt (CC0)."""
    return Path(str(resources.files("secondsight") / "data" / "chelsea.jpg"))
