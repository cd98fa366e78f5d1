"""Figure 4 and appendix H: maps by all methods, and the share of each in the object's box, where boxes are known.

The boxes come from a file boxes.csv (columns file, x0, y0, x1, y1) in the folder of the photographs or the one above.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from torch import Tensor

from secondsight.comparison import COLUMNS as ALL_COLUMNS
from secondsight.comparison import compare, title_of
from secondsight.errors import SecondsightError
from secondsight.model.classifier import Classifier
from secondsight.model.images import PictureReader
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture
from secondsight.plotting.shades import normalise
from secondsight.results.explanation import SparseExplanation
from secondsight.results.storage import write_whole

COLUMNS = tuple(name for name in ALL_COLUMNS if name != "picture")
"""The methods of the paper's figure, in the order of its columns, and the clipped gradient."""

SHOWN = 6
"""Photographs on a page of the figure: rows of nine panels, so that the page stays wider than high."""

OURS = ("cafo", "caso", "smooth-cafo", "smooth-caso")
"""The methods that the claim calls more coherent."""

RIVALS = ("gradient", "smoothgrad", "integrated-gradients")
"""The methods that the claim compares them with."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels of the photograph."""


def comparison(run: Run) -> Finding:
    """Compare all methods by the share of each map that lies in the object's box, and draw the maps.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    run.model.require_pictures()
    boxes = read_boxes(run.files[0].parent)
    maps = run.folder / "comparison-maps"
    asked = {"methods": list(COLUMNS), "options": json.loads(json.dumps(dict(run.options))), "format": 2}

    def one(file: Path) -> Record:
        return measure(run, file, boxes.get(file.name, []), maps)

    settings, records = run.records("comparison", one, boxes=bool(boxes), **asked)
    if run.shown is not None:
        run.records("comparison-shown", one, run.shown, **asked)
    with_box = [record for record in records if record["area"]]
    shares = {m: [r["inside"][m] / r["area"] for r in with_box] for m in COLUMNS} if with_box else {}
    focus = {m: fmean(values) for m, values in shares.items()}
    pairs = [(ours, rival) for ours in OURS for rival in RIVALS] if focus else []
    ahead = sum(focus[ours] > focus[rival] for ours, rival in pairs)
    clearly = sum(_clearly_above(shares[ours], shares[rival]) for ours, rival in pairs)
    in_words = "; ".join(f"{title_of(m)} {focus[m]:.2f}{_error(values)}" for m, values in shares.items())
    return Finding(
        name="comparison",
        where="Figure 4, appendix H",
        claim="CAFO, CASO, SmoothCAFO and SmoothCASO are more coherent with the object of interest than the gradient, "
        "SmoothGrad and Integrated Gradients.",
        measured=f"{run.model.name}, {len(records)} photographs. "
        + (
            f"How much of a map lies in the object's box, over what the box's area would hold by chance, "
            f"with the standard error of the mean: {in_words}. Of the {len(pairs)} pairs that the claim makes, ours is "
            f"ahead in {ahead}, and in {clearly} by more than two standard errors of the difference."
            if focus
            else "No boxes.csv was found, so only the eye can tell."
        ),
        verdict="holds"
        if pairs and clearly == len(pairs)
        else "holds in part"
        if ahead or not pairs
        else "does not hold",
        numbers={"settings": settings, "focus": focus, "photographs": records},
        figures=[
            _figure(run.model.name, run.pictures[start : start + SHOWN], maps)
            for start in range(0, min(len(run.pictures), SHOWN * run.pages), SHOWN)
        ],
    )


def _standard_error(values: list[float]) -> float:
    """Return the standard error of the mean; infinite for a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def _error(values: list[float]) -> str:
    return f" +- {_standard_error(values):.2f}" if len(values) > 1 else ""


def _clearly_above(a: list[float], b: list[float]) -> bool:
    """Tell whether the mean difference of a and b, photograph by photograph, is above two standard errors of it."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    return fmean(differences) > 2 * _standard_error(differences)


def measure(run: Run, file: Path, boxes: list[Box], maps: Path) -> Record:
    """Explain one photograph by all methods and keep the maps for the figure.

    Args:
        run: the network and the options.
        file: the photograph.
        boxes: where the objects are, in pixels of the photograph.
        maps: the folder in which the maps are kept.

    Returns:
        The share of the picture in the boxes (`area`), the share of each map in them (`inside`), and what each map
        cost.
    """
    (entries,) = compare(run.model, file, COLUMNS, seed=run.seed, **run.options).rows
    shades = {entry.method: normalise(entry.explanation.delta.numpy()) for entry in entries}
    seen = entries[0].explanation
    arrays: dict[str, Any] = {name: (255 * shade).astype(np.uint8) for name, shade in shades.items()}
    arrays["input"] = seen.input.numpy()
    write_whole(maps / f"{file.name}.npz", lambda stream: np.savez_compressed(stream, **arrays))
    inside = object_mask(run.model, file, boxes)
    weights = {entry.method: entry.explanation.delta.abs().sum(0).double() for entry in entries}
    return {
        "label": seen.label,
        "probability": seen.probability,
        "area": float(inside.double().mean()),
        "inside": {m: float(w[inside].sum() / w.sum()) if bool(w.any()) else 0.0 for m, w in weights.items()},
        "cost": {entry.method: entry.gradient_equivalents for entry in entries},
        "sparsity": {entry.method: entry.explanation.sparsity for entry in entries},
        "relative_gap": {
            entry.method: entry.explanation.certificate.relative_gap
            for entry in entries
            if isinstance(entry.explanation, SparseExplanation)
        },
    }


def object_mask(model: Classifier, file: Path, boxes: list[Box]) -> Tensor:
    """Mark the pixels of the network's input that lie in a box. Boxes are cut and scaled like the photograph."""
    _, height, width = PictureReader().read(file).values.shape
    drawn = Image.new("RGB", (width, height))
    for box in boxes:
        ImageDraw.Draw(drawn).rectangle(box, fill="white")
    return model.load(drawn)[0] > 0.5


def read_boxes(folder: Path) -> dict[str, list[Box]]:
    """Read the boxes of each photograph from boxes.csv, in this folder or the one above.

    Returns:
        The boxes by file name; empty if there is no boxes.csv.

    Raises:
        SecondsightError: if a column is missing or not filled in.
    """
    found: dict[str, list[Box]] = defaultdict(list)
    for path in (folder / "boxes.csv", folder.parent / "boxes.csv"):
        if not path.is_file():
            continue
        try:
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    found[row["file"]].append((float(row["x0"]), float(row["y0"]), float(row["x1"]), float(row["y1"])))
        except (KeyError, TypeError, ValueError) as error:
            raise SecondsightError(
                f"{path} must have the columns file, x0, y0, x1 and y1, filled in ({error!r})"
            ) from None
        break
    return found


def _figure(name: str, files: Sequence[Path], maps: Path) -> Figure:
    rows = []
    for number, file in enumerate(files):
        with np.load(maps / f"{file.name}.npz", allow_pickle=False) as arrays:
            panels = [Panel(picture(arrays["input"]))]
            panels += [Panel(arrays[m] / 255, title_of(m) if number == 0 else "") for m in COLUMNS]
        rows.append(Row(panels, len(panels), fontsize=9))
    return maps_figure(name, rows, 1.7 * (len(COLUMNS) + 1), PAPER_COLOURS)
