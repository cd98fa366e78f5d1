"""Finds photographs: in folders, and by globs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")
"""Endings of the files that are taken for photographs in folders and archives."""


def is_photograph(path: Path) -> bool:
    """Whether a file has the name of a photograph. Hidden files, such as the ._NAME.jpg of macOS, are none."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def photographs_below(folder: Path) -> Iterator[Path]:
    """List the photographs of a folder and of the folders below it, sorted. Hidden folders are left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (file for file in (Path(where, name) for name in sorted(files)) if is_photograph(file))


def files_matching(pattern: str) -> list[Path]:
    """List the files that a glob names, sorted. `**` stands for any folders."""
    # Path.glob takes no patterns from the root on.
    found = map(Path, sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207
    return [path for path in found if not path.is_dir()]
