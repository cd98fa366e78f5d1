"""What the viewer shows of a result, ready for JSON: maps along lambda1 as 8-bit shades, the certificate, words."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from secondsight.config import Baseline
from secondsight.plotting.figures import picture
from secondsight.plotting.shades import PERCENTILE, brightest, magnitudes, normalise
from secondsight.results import sentences
from secondsight.results.explanation import (
    Explanation,
    MapKind,
    PathPoint,
    PictureExplanation,
    SecondOrderExplanation,
    SparseExplanation,
)
from secondsight.results.record_schema import AbsentFields
from secondsight.results.storage import absent_fields
from secondsight.results.storage import packed as arrays_of
from secondsight.results.strengths import strengths
from secondsight.results.summary import summary
from secondsight.viewer.shade_planes import Plane, deflated, packed

MOST_ARCHIVE = 2**22
"""Bytes of exact arrays that a page takes along: those of a photograph of 500 pixels a side."""

LEFT_OUT = 'the {name} is not in the files that pages offer: e.save("map.npz") writes it'
"""Why exact arrays of a page lack what most of their bytes would be."""

JPEG_QUALITY = 92
"""At this quality no loss is seen beside a map, and the file has a fifth of the bytes of a PNG."""

POINT = ("lambda1", "sparsity", "objective", "relative_gap")
"""What is told of each map of the path."""

NOT_ZERO, ZERO = 1, 2
"""What the certificate proves of a place in the best map; 0 is nothing."""


def view(e: Explanation, archive: bool = True, path: bool = True) -> dict[str, Any]:
    """List what the viewer shows of a result.

    Args:
        e: the result.
        archive: whether the exact arrays of the chosen map are in it, for download.
        path: whether all maps of the path are in it, or only the chosen one.
    """
    maps = _path(e) if path else (_chosen(e),)
    is_picture = e.delta.ndim == 3
    height, width = (int(side) for side in e.delta.shape[1:]) if is_picture else (1, e.delta.numel())
    data = {
        "heading": e.label,
        "picture": is_picture,
        "height": height,
        "width": width,
        "against": not isinstance(e.method, Baseline) or e.method.score == "loss",
        "unit": _unit(e),
        "summary": summary(e),
        "points": [{name: getattr(point, name) for name in POINT} for point in maps],
        "chosen": _place(e, maps),
        "shades": {kind: _shades(e, maps, kind) for kind in _kinds(e)},
        "certificate": None,
        "second_order": None,
        "ritz_values": e.ritz_values if isinstance(e, SecondOrderExplanation) else [],
        "archive": _archive(e) if archive else None,
    }
    if isinstance(e, SparseExplanation):
        data["certificate"] = {
            "words": sentences.certificate(e),
            "basis": sentences.basis(e),
            "support": deflated(_support(e).tobytes()),
        }
    if isinstance(e, (PictureExplanation, SecondOrderExplanation)):
        data["second_order"] = e.second_order.sentence
    return data


def photograph(e: Explanation, quality: int = JPEG_QUALITY, side: int | None = None) -> str | None:
    """Return what the network saw as a data URI; None for inputs that are no pictures, or were not stored.

    Args:
        e: the result.
        quality: of the JPEG.
        side: pixels of the longer side at most; None: as many as the network saw.
    """
    if e.delta.ndim != 3 or not hasattr(e, "input"):
        return None
    return jpeg(picture(e.input.numpy()), quality, side)


def jpeg(pixels: NDArray[np.float64], quality: int, side: int | None = None) -> str:
    """Write an (H, W, 3) picture in [0, 1] as a data URI, made smaller if it has more than `side` pixels a side."""
    from PIL import Image

    file = io.BytesIO()
    image = Image.fromarray(np.rint(pixels * 255).astype(np.uint8))
    if side is not None:
        image.thumbnail((side, side))
    image.save(file, format="JPEG", quality=quality, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def _path(e: Explanation) -> tuple[PathPoint, ...]:
    """The maps from the sparsest to the densest. Where there is no path, or none was stored, it is the one map."""
    if not isinstance(e, SparseExplanation):
        return (_chosen(e),)
    return e.path if hasattr(e, "path") else (_chosen(e),)


def _chosen(e: Explanation) -> PathPoint:
    """The chosen map, as it is in the path, but without what only the path knows."""
    if not isinstance(e, SparseExplanation):
        return PathPoint(math.nan, e.sparsity, math.nan, None, e.delta)
    gap = e.certificate.relative_gap
    return PathPoint(e.lambda1, e.sparsity, math.nan, gap, e.delta, e.window_norms)


def _place(e: Explanation, maps: Sequence[PathPoint]) -> int:
    """The place of the chosen map in the path."""
    return [point.lambda1 for point in maps].index(e.lambda1) if isinstance(e, SparseExplanation) else 0


def _unit(e: Explanation) -> str:
    """What sparsity counts."""
    if isinstance(e, SparseExplanation) and e.window:
        return "windows"
    # Groups that a result from a run lacks were counted all the same.
    if isinstance(e, SparseExplanation) and getattr(e, "groups", 0) is not None:
        return "groups"
    return "pixels" if e.delta.ndim == 3 else "features"


def _kinds(e: Explanation) -> list[MapKind]:
    return ["groups", "entries"] if _grouped(e) and not e.method.times_input else ["entries"]


def _grouped(e: Explanation) -> TypeGuard[SparseExplanation]:
    """Whether there are groups or windows, and it was stored which."""
    if not isinstance(e, SparseExplanation):
        return False
    return e.window is not None or (hasattr(e, "groups") and e.groups is not None)


def _shades(e: Explanation, maps: Sequence[PathPoint], kind: MapKind) -> dict[str, Any]:
    """The maps of one kind, and the value of the brightest shade of each."""
    # Bars are as long as their values. Of shades, a few extreme ones would darken all others.
    percentile = PERCENTILE if e.delta.ndim == 3 else 100.0
    planes, brightest_values = [], []
    for point in maps:
        sizes = magnitudes(_flat(strengths(e, kind, point)))
        planes.append(Plane.of(normalise(sizes, percentile), _net(e, point.delta, kind)))
        brightest_values.append(brightest(sizes, percentile))
    return {"maps": packed(planes), "brightest": brightest_values}


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    """An input that is no picture becomes one row, whatever its shape; norms of pixels have two dimensions."""
    return values if values.ndim in (2, 3) else values.reshape(1, -1)


def _net(e: Explanation, delta: Tensor, kind: MapKind) -> NDArray[np.float64]:
    """The sum of a map over the channels of each place, or over each group: its sign is what the viewer shows."""
    if kind == "groups" and isinstance(e, SparseExplanation) and e.groups is not None:
        labels = e.groups.flatten().numpy()
        sums = np.bincount(labels, weights=delta.double().flatten().numpy())
        values = sums[labels].reshape(delta.shape)
    else:
        values = delta.double().numpy()
    net: NDArray[np.float64] = values.sum(0) if values.ndim == 3 else values
    return net


def _support(e: SparseExplanation) -> NDArray[np.uint8]:
    """What is proven of each place: not zero, if one of its channels is not; zero, if all of them are."""
    support = e.certificate.support
    not_zero, zero = support.nonzero, support.zero
    if not_zero.ndim == 3:
        not_zero, zero = not_zero.any(0), zero.all(0)
    return np.where(not_zero, NOT_ZERO, np.where(zero, ZERO, 0)).astype(np.uint8)


def _archive(e: Explanation) -> str | None:
    """An NPZ file of the result with its chosen map, for `Explanation.load`; None if it is too large for a page."""
    absent = absent_fields(e)
    if isinstance(e, SparseExplanation):
        absent |= {name: LEFT_OUT.format(name=name) for name in ("gradient", "path")}
    known = {one.name: getattr(e, one.name) for one in fields(e) if one.name not in absent}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays_of(type(e).from_source(known, AbsentFields(absent))))
    return base64.b64encode(file.getvalue()).decode() if file.tell() <= MOST_ARCHIVE else None
