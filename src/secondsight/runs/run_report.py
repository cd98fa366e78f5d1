"""The report of a run: one HTML file with its numbers, and a gallery whose photographs open in the viewer."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secondsight.plotting.figures import MAP_COLOURS, overlay, picture
from secondsight.results.explanation import Explanation
from secondsight.results.storage import write_whole
from secondsight.viewer.page import page
from secondsight.viewer.view_data import jpeg, photograph, view

if TYPE_CHECKING:
    from secondsight.runs.stored_run import StoredRun

GALLERY = 1000
"""Photographs in the gallery at most: the photographs and maps of a thousand take some 30 MB."""

WHOLE_PATHS = 50
"""A gallery of at most this many photographs has the whole path of each, if the run has it: some 300 kB each."""

QUALITY, SIDE = 80, 224
"""Quality and longer side, in pixels, of the JPEG of a photograph: what the usual networks see, in 12 kB."""

THUMBNAIL_QUALITY, THUMBNAIL_SIDE = 72, 128
"""Quality and longer side, in pixels, of the JPEG of a thumbnail: 4 kB."""

COLUMNS = {
    "id": "id",
    "label": "label",
    "probability": "probability",
    "sparsity": "sparsity",
    "relative_gap": "relative_gap",
    "certified": "certified",
    "basis": "basis",
    "angle": "second_order_angle",
    "seconds": "seconds",
}
"""Columns of the run that the page has, by the name that its scripts know."""


def save_report(
    run: StoredRun, path: Path, gallery: int = GALLERY, progress: Callable[[int, int], None] | None = None
) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        run: from `open_run`.
        path: the file.
        gallery: how many photographs are in the gallery at most. Counts and histograms are of the whole run.
        progress: called with how many photographs are done, and of how many.

    Raises:
        SecondsightError: if the file cannot be written.
    """
    text = report_page(run, gallery, progress or (lambda done, total: None)).encode()
    write_whole(path, lambda file: file.write(text))


def report_page(run: StoredRun, gallery: int, progress: Callable[[int, int], None]) -> str:
    """Write the page of a run."""
    count = len(run)
    rows = sorted({int(row) for row in np.linspace(0, count - 1, min(count, gallery)).round()}) if count else []
    parts: dict[str, Any] = {}
    thumbnails, unit = [], "pixels"
    for done, row in enumerate(rows):
        progress(done, len(rows))
        e = run[row]
        shown = view(e, archive=False, path=len(rows) <= WHOLE_PATHS)
        parts[f"result-{row}"] = {"view": shown, "photograph": photograph(e, QUALITY, SIDE)}
        unit = shown["unit"]
        thumbnails.append(_thumbnail(e))
    failures = run.errors.select(["id", "error"]).to_pylist()
    body = {
        "name": run.path.resolve().name,
        "title": run.method.title,
        "method": str(run.method),
        "model": run.settings["model"],
        "made": f"made {datetime.date.today().isoformat()}",
        "total": run.total,
        "unfinished": run.total - count - len(failures),
        "unit": unit,
        "columns": _columns(run),
        "failures": failures,
        "gallery": rows,
        "thumbnails": thumbnails,
    }
    return page(f"{body['name']} - {body['method']}", body, parts, report=True)


def _columns(run: StoredRun) -> dict[str, list[Any]]:
    """The numbers of all maps, with four digits, because the page shows no more."""
    table = run.table([*COLUMNS.values(), "target", "prediction", "notes"])
    found = {name: _short(table[column].to_pylist()) for name, column in COLUMNS.items()}
    pairs = zip(table["target"].to_pylist(), table["prediction"].to_pylist(), strict=True)
    found["predicted"] = [target == prediction for target, prediction in pairs]
    found["notes"] = [len(notes) for notes in table["notes"].to_pylist()]
    return found


def _short(values: list[Any]) -> list[Any]:
    return [float(f"{value:.4g}") if isinstance(value, float) else value for value in values]


def _thumbnail(e: Explanation) -> str | None:
    """The map over the photograph; the map alone, where the photograph cannot be read any more."""
    if e.delta.ndim != 3:
        return None
    shades = e.map()
    if hasattr(e, "input"):
        return jpeg(overlay(picture(e.input.numpy()), shades), THUMBNAIL_QUALITY, THUMBNAIL_SIDE)
    from matplotlib import colormaps

    return jpeg(colormaps[MAP_COLOURS](shades)[..., :3], THUMBNAIL_QUALITY, THUMBNAIL_SIDE)
