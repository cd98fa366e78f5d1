"""Arguments of the command line, checked before any work begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import secondsight as ss
from secondsight.option_types import levels, literal
from secondsight.photograph_files import SUFFIXES, files_matching, is_photograph

if TYPE_CHECKING:
    from secondsight.model.classifier import Classifier


def checked_model(
    name: str, target: str | None, max_pixels: int | None = None, value_range: str | None = None
) -> Classifier:
    """Load a model and check the target, as far as that does not depend on a photograph.

    Args:
        name: of the model, as `--model` takes it.
        target: the class, as `--target` takes it.
        max_pixels: as `--max-pixels` takes it.
        value_range: as `--value-range` takes it.

    Returns:
        The classifier, with these limits set.

    Raises:
        SecondsightError: if the model cannot be loaded, has no such class, or `value_range` is no range. It is raised
            here, because otherwise each photograph would fail with it.
    """
    black_and_white = None if value_range is None else levels("--value-range", literal(f"({value_range})"))
    model = ss.load_model(name)
    model.value_range = black_and_white
    if max_pixels is not None:
        from PIL import Image

        model.max_pixels = max_pixels
        # Pillow refuses twice this number by itself.
        Image.MAX_IMAGE_PIXELS = max(max_pixels, Image.MAX_IMAGE_PIXELS or 0)
    if target is not None and model.labels is not None:
        model.target_index(target, len(model.labels))
    return model


def photographs_in(paths: Sequence[Path]) -> list[Path]:
    """Replace each folder by the photographs in it, and each glob by the files that match, sorted by name.

    Other paths stay as they are, also those of files that do not exist, and globs that no file matches. Photographs in
    folders below a folder are not included.

    Raises:
        InputError: if a folder has no photograph.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(filter(is_photograph, path.iterdir()))
        else:
            inside = ([] if path.exists() else files_matching(str(path))) or [path]
        if not inside:
            raise ss.InputError("PHOTO", f"a photograph, or a folder with files {', '.join(SUFFIXES)}", repr(str(path)))
        found += inside
    return found


def require_png(option: str, file: Path) -> None:
    """Refuse the name of a figure that does not end in .png, or that cannot be written.

    Args:
        option: the option that named the figure, for the message.
        file: the name.

    Raises:
        SecondsightError: if the name is refused.
    """
    if file.suffix.lower() != ".png" or file.is_dir():
        raise ss.InputError(option, "the name of a .png file", repr(str(file)))
    require_folder(file.parent)


def require_folder(folder: Path) -> None:
    """Refuse a folder for `--out` that cannot be made or written to. Nothing is created yet."""
    try:
        nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    except OSError as error:
        raise ss.SecondsightError(f"--out {folder} cannot be used: {error.strerror}") from None
    if not nearest.is_dir():
        raise ss.InputError("--out", "a folder" if nearest == folder else "inside a folder", f"the file {nearest}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ss.SecondsightError(f"--out {folder} cannot be used: {nearest} cannot be written to")
