"""A run as other files: NPZ files, figures, or a dataset for FiftyOne.

Files are called after the place of the item and its name, because names may hold anything: slashes, dots, new lines.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from secondsight.errors import InputError, NotStoredError, SecondsightError
from secondsight.plotting.figures import picture
from secondsight.results.explanation import Explanation
from secondsight.results.storage import write_whole
from secondsight.runs.stored_run import StoredRun

LONGEST_STEM = 100
"""Characters of an item's name that are kept in the name of a file, because some file systems take only 143 bytes."""

NUMBERS = ("prediction", "sparsity", "lambda1", "relative_gap", "certified", "products", "second_order_angle")
"""Columns that become fields of FiftyOne's samples."""

FORMATS = ("npz", "png", "fiftyone")
"""What a run can be exported to."""

Started = Callable[[int, str], None]
"""Called with the number and the id of the item that is exported next."""


def export(run: StoredRun, to: str, out: Path, overwrite: bool, started: Started) -> list[str]:
    """Write the maps of a run.

    Args:
        run: the run.
        to: one of FORMATS.
        out: the folder: a new or an empty one, unless `overwrite` is set.
        overwrite: whether files there may be written over.
        started: called before each map.

    Returns:
        The ids of the items that were left out, because their input cannot be read again. FiftyOne shows the input, and
        a figure may need it to find superpixels.

    Raises:
        InputError: if there is no such format, or FiftyOne is asked for and the maps are no pictures.
        SecondsightError: if the folder has files already, or a file cannot be written.
    """
    if to not in FORMATS:
        raise InputError("--to", f"one of {', '.join(FORMATS)}", repr(to))
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise SecondsightError(f"{out} has files already: --overwrite writes over them, --out names another folder")
    if to == "fiftyone":
        return _to_fiftyone(run, out, started)
    left_out = []
    for name, row, e in _each(run, started):
        try:
            e.save(out / f"{name}.{to}")
        except NotStoredError:
            left_out.append(row["id"])
    return left_out


def _each(run: StoredRun, started: Started) -> Iterator[tuple[str, dict[str, Any], Explanation]]:
    """Go through the maps: for each a name for its files, its row and the map."""
    for number, (row, e) in enumerate(zip(run.table().to_pylist(), run, strict=True)):
        started(number, row["id"])
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(row["id"]).stem)[:LONGEST_STEM]
        yield f"{row['position']:06d}-{stem}", row, e


def _to_fiftyone(run: StoredRun, out: Path, started: Started) -> list[str]:
    """Write a dataset in the layout of `fiftyone.types.FiftyOneDataset`, without the documents of its database.

    The pictures of the dataset are what the network saw, because a map covers only that part of a photograph.
    """
    samples, left_out = [], []
    for name, row, e in _each(run, started):
        if e.delta.ndim != 3:
            raise InputError("--to", "npz or png, because these maps are no pictures", "fiftyone")
        try:
            seen = picture(e.input.numpy())
        except NotStoredError:
            left_out.append(row["id"])
            continue
        _save_picture(seen, out / "data" / f"{name}.png")
        _save_picture(e.map(), out / "fields" / "map" / f"{name}.png")
        samples.append(_sample(name, row, e))
    _save_json(
        {"name": run.path.name, "media_type": "image", "info": {"method": str(run.method)}}, out / "metadata.json"
    )
    _save_json({"samples": samples}, out / "samples.json")
    return left_out


def _sample(name: str, row: dict[str, Any], e: Explanation) -> dict[str, Any]:
    numbers = {key: value for key in NUMBERS if (value := row[key]) is not None and math.isfinite(value)}
    return {
        "filepath": f"data/{name}.png",
        "tags": [],
        "item": row["id"],
        "photograph": row["path"],
        "explained": {"_cls": "Classification", "label": e.label, "confidence": e.probability},
        "map": {"_cls": "Heatmap", "map_path": f"fields/map/{name}.png"},
        **numbers,
    }


def _save_picture(shades: Any, path: Path) -> None:
    """Write numbers in [0, 1] as a picture of 8 bits."""
    levels = Image.fromarray(np.round(np.asarray(shades) * 255).astype(np.uint8))
    write_whole(path, lambda file: levels.save(file, "PNG"))


def _save_json(record: Any, path: Path) -> None:
    text = json.dumps(record, indent=1, allow_nan=False)
    write_whole(path, lambda file: file.write(text.encode()))
