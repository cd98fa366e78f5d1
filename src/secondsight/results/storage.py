"""Results as files: a figure as PNG, or everything as NPZ. A file is there whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from secondsight.config import Method
from secondsight.errors import InputError, SecondsightError
from secondsight.optim.proof import Support
from secondsight.results.certificate import Certificate
from secondsight.results.explanation import (
    Explanation,
    PathPoint,
    PictureExplanation,
    SecondOrder,
    SecondOrderExplanation,
    Smoothing,
    SparseExplanation,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 4
"""Version of the NPZ files: raised whenever older files cannot be read any more."""

KINDS = {kind.__name__: kind for kind in (Explanation, SparseExplanation, PictureExplanation, SecondOrderExplanation)}
"""The classes of results by name."""

MOST_BYTES = 2**30
"""Bytes of arrays that are read from a file: a photograph of 1,500 pixels a side with its path takes half of that."""

ELSEWHERE = ("method", "certificate", "path", "second_order", "smoothing", "notes")
"""Fields that are neither arrays nor plain values, and are stored each in its own way."""


def save(e: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the figure of a result (.png) or everything (.npz)."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("path", "a name that ends in .png or .npz", repr(path))
    path = Path(path)
    if path.suffix.lower() == ".png":
        save_figure(e.figure(), path)
    elif path.suffix.lower() == ".npz":
        arrays = _arrays(e)
        write_whole(path, lambda file: np.savez_compressed(file, **arrays))
    else:
        raise InputError("path", "a name that ends in .png or .npz", repr(str(path)))


def load(path: str | os.PathLike[str]) -> Explanation:
    """Read a result that was saved as .npz."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            _refuse_bomb(arrays, path)
            record = json.loads(str(arrays["record"]))
            if record["format"] != FORMAT:
                raise SecondsightError(f"{path} has format {record['format']}; this version reads format {FORMAT}")
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "record"}
            return _result(record, tensors)
    except FileNotFoundError:
        raise SecondsightError(f"{path} does not exist") from None
    except Exception as error:
        if isinstance(error, SecondsightError) and ("format" in str(error) or "bytes" in str(error)):
            raise
        # Damaged bytes may raise anything on their way through zip, numpy and JSON.
        why = " ".join(str(error).split())
        raise SecondsightError(f"{path} is no explanation saved by secondsight ({why})") from None


def _refuse_bomb(arrays: Any, path: object) -> None:
    """Refuse a file whose arrays would fill the memory, before they are unpacked."""
    size = sum(entry.file_size for entry in arrays.zip.infolist())
    if size > MOST_BYTES:
        raise SecondsightError(f"{path} unpacks to {size:,} bytes, more than {MOST_BYTES:,}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG."""
    from secondsight.plotting.figures import png

    if path.suffix.lower() != ".png":
        raise InputError("path", "a name that ends in .png", repr(str(path)))
    picture_file = png(figure)
    write_whole(path, lambda file: file.write(picture_file))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write under a temporary name and rename, so that a reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            write(file)
        temporary.replace(path)
    except OSError as error:
        raise SecondsightError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _arrays(e: Explanation) -> dict[str, Any]:
    values = {one.name: getattr(e, one.name) for one in fields(e) if one.name not in ELSEWHERE}
    arrays = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    record: dict[str, Any] = {name: value for name, value in values.items() if name not in arrays}
    record |= {
        "format": FORMAT,
        "kind": type(e).__name__,
        "method": e.method.to_json(),
        "notes": [str(note) for note in e.notes],
    }
    if isinstance(e, SparseExplanation):
        certificate = dict(vars(e.certificate))
        support = certificate.pop("support")
        arrays |= {"support_nonzero": support.nonzero, "support_zero": support.zero}
        arrays["path_deltas"] = torch.stack([point.delta for point in e.path])
        norms = [point.window_norms for point in e.path if point.window_norms is not None]
        arrays |= {"path_window_norms": torch.stack(norms)} if norms else {}
        record["certificate"] = certificate
        record["smoothing"] = None if e.smoothing is None else asdict(e.smoothing)
        record["path"] = [[p.lambda1, p.sparsity, p.objective, p.relative_gap] for p in e.path]
    if isinstance(e, (PictureExplanation, SecondOrderExplanation)):
        record["second_order"] = asdict(e.second_order)
    # Numbers of numpy are not JSON.
    text = np.array(json.dumps(record, default=lambda number: number.item()))
    return {"record": text} | {name: array.numpy() for name, array in arrays.items()}


def _result(record: dict[str, Any], arrays: dict[str, Tensor]) -> Explanation:
    kind = KINDS[record["kind"]]
    stored: dict[str, Any] = record | arrays
    values = {one.name: stored[one.name] for one in fields(kind) if one.name not in ELSEWHERE}
    values |= {"method": Method.from_json(record["method"]), "notes": tuple(record["notes"])}
    if issubclass(kind, SparseExplanation):
        support = Support(arrays["support_nonzero"], arrays["support_zero"])
        values["certificate"] = Certificate(**record["certificate"], support=support)
        values["smoothing"] = None if record["smoothing"] is None else Smoothing(**record["smoothing"])
        norms = arrays.get("path_window_norms", [None] * len(record["path"]))
        points = zip(record["path"], arrays["path_deltas"], norms, strict=True)
        values["path"] = tuple(
            PathPoint(lambda1, sparsity, objective, relative_gap, delta, windows)
            for (lambda1, sparsity, objective, relative_gap), delta, windows in points
        )
    if "second_order" in record:
        values["second_order"] = SecondOrder(**record["second_order"])
    return kind(**values)
