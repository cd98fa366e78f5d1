"""Results as files: a figure as PNG, a page as HTML, or everything as NPZ. A file is there whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from secondsight.config import SmoothMap
from secondsight.errors import InputError, NotStoredError, SecondsightError, shown
from secondsight.groups import group_labels
from secondsight.option_types import file_name
from secondsight.results.array_archive import MOST_ARRAYS, entries_of, open_archive, read_array
from secondsight.results.explanation import (
    Explanation,
    PictureExplanation,
    SecondOrderExplanation,
    SparseExplanation,
)
from secondsight.results.record_schema import Arrays, RecordReader, RecordWriter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = "a name that ends in .png, .html or .npz"
"""The names that `save` accepts."""

FORMAT = 7
"""Version of the NPZ files: raised whenever older files cannot be read any more."""

KINDS = {kind.__name__: kind for kind in (Explanation, SparseExplanation, PictureExplanation, SecondOrderExplanation)}
"""The classes of results by name."""

MOST_BYTES = 2**30
"""Bytes of arrays that are read from a file: a photograph of 1,500 pixels a side with its path takes half of that."""

MAY_LACK = ("input", "gradient", "path", "groups")
"""Fields that a result from a run (runs/) may lack."""

HEADER = 256
"""The most bytes that numpy writes before the entries of an array."""

MOST_RECORD = 2**26
"""Bytes of the record, four for each character: Python's objects may take six times as much. Most records take
a thousandth."""


def save(e: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the figure of a result (.png), a page with a slider over lambda1 (.html), or everything (.npz)."""
    path = file_name("path", path, FILES)
    if path.suffix.lower() == ".png":
        save_figure(e.figure(), path)
    elif path.suffix.lower() == ".npz":
        arrays = packed(e)
        write_whole(path, lambda file: np.savez_compressed(file, **arrays))
    elif path.suffix.lower() == ".html":
        from secondsight.viewer.page import Tab, save_page

        save_page(path, [Tab(e)])
    else:
        raise InputError("path", FILES, repr(str(path)))


def load(path: str | os.PathLike[str]) -> Explanation:
    """Read a result that was saved as .npz."""
    path = file_name("path", path, "the name of a file that `save` wrote")
    try:
        with path.open("rb") as file, open_archive(file) as archive:
            return _unpacked(archive)
    except FileNotFoundError:
        raise SecondsightError(f"{path} does not exist") from None
    except _OtherFileError as error:
        raise SecondsightError(f"{path} {_printable(error)}") from None
    except Exception as error:
        # Damaged bytes may raise anything on their way through zip, numpy and JSON.
        raise SecondsightError(f"{path} is no explanation saved by secondsight ({_printable(error)})") from None


class _OtherFileError(Exception):
    """A file that may be fine, but that this version does not read."""


def _printable(error: Exception) -> str:
    """Write an error in one line. What it quotes of a file may be meant for the terminal, or be no text at all."""
    text = shown(error, str) or type(error).__name__
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def save_figure(figure: Figure | Callable[[], Figure], path: str | os.PathLike[str]) -> None:
    """Write a PNG of a figure, or of a function that draws it. It draws only if the name of the file is right."""
    from secondsight.plotting.figures import png

    path = file_name("path", path, "a name that ends in .png")
    if path.suffix.lower() != ".png":
        raise InputError("path", "a name that ends in .png", repr(str(path)))
    picture_file = png(figure() if callable(figure) else figure)
    write_whole(path, lambda file: file.write(picture_file))


def write_whole(path: Path, write: Callable[[IO[bytes]], object], durable: bool = False) -> None:
    """Write under a temporary name and rename, so that a reader sees the old file or the new one, never half of one.

    Args:
        path: the file.
        write: writes into the file that it is given.
        durable: return only when the file survives a power cut.
    """
    # A name of its own, because one that is longer than the file's may be too long.
    temporary = path.with_name(f".{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            write(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable and os.name == "posix":
            _sync_folder(path.parent)
    except OSError as error:
        raise SecondsightError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def packed(e: Explanation) -> dict[str, Any]:
    """Turn a result into named arrays, one of which is the text of its record.

    Raises:
        InputError: if the result could not be read again, because a field of it holds what it must not.
    """
    writer, absent = RecordWriter(), absent_fields(e)
    record = {"format": FORMAT, "kind": type(e).__name__, "absent": absent} | writer.record(e, but=absent)
    text = np.array(json.dumps(record, allow_nan=False))
    arrays = {"record": text} | writer.arrays
    size = sum(array.nbytes + HEADER for array in arrays.values())
    if size > MOST_BYTES or text.nbytes + HEADER > MOST_RECORD or len(arrays) > MOST_ARRAYS:
        raise InputError("the result", f"of at most {MOST_BYTES:,} bytes, with fewer maps", f"of {size:,}")
    _result(_parsed(text), writer.arrays)
    return arrays


def absent_fields(e: Explanation) -> dict[str, str]:
    """List the fields that a result lacks because they were not stored, each with the reason."""
    absent = {}
    for name in {one.name for one in fields(e)} & set(MAY_LACK):
        try:
            getattr(e, name)
        except NotStoredError as error:
            absent[name] = str(error)
    return absent


def _unpacked(archive: ZipFile) -> Explanation:
    """Read a result. Refuse a file that would fill the memory."""
    entries = entries_of(archive)
    size = sum(entry.file_size for entry in entries.values())
    if size > MOST_BYTES:
        raise _OtherFileError(f"unpacks to {size:,} bytes, more than {MOST_BYTES:,}")
    if "record" not in entries:
        raise SecondsightError("the array record is missing")
    entry = entries.pop("record")
    if entry.file_size > MOST_RECORD:
        raise _OtherFileError(f"has a record of {entry.file_size:,} bytes, more than {MOST_RECORD:,}")
    record = _parsed(read_array(archive, entry))
    if record.get("format") != FORMAT:
        raise _OtherFileError(f"has format {shown(record.get('format'), str)}; this version reads format {FORMAT}")
    return _result(record, {name: read_array(archive, entry) for name, entry in entries.items()})


def _parsed(text: NDArray[Any]) -> dict[str, Any]:
    record = json.loads(text.item())
    if not isinstance(record, dict):
        raise InputError("the record", "an object", shown(record))
    return record


def _result(record: dict[str, Any], arrays: Arrays) -> Explanation:
    """Check a record and its arrays, and make a result of them."""
    name, absent = record.get("kind"), record.get("absent")
    if not isinstance(name, str) or name not in KINDS:
        raise InputError("kind", " or ".join(KINDS), shown(name))
    if not isinstance(absent, dict) or not all(key in MAY_LACK and isinstance(absent[key], str) for key in absent):
        raise InputError("absent", f"a reason for some of {', '.join(MAY_LACK)}", shown(absent))
    written = {key: value for key, value in record.items() if key not in ("format", "kind", "absent")}
    e: Explanation = RecordReader(arrays).result(KINDS[name], written, absent)
    if isinstance(e, SparseExplanation):
        _refuse_contradictions(e)
    return e


def _refuse_contradictions(e: SparseExplanation) -> None:
    """Refuse fields that are fine each by itself, but not together."""
    support = e.certificate.support
    if bool((support.nonzero & support.zero).any()):
        raise InputError("certificate.support", "two masks that do not overlap", "masks that do")
    if hasattr(e, "path") and e.lambda1 not in [point.lambda1 for point in e.path]:
        raise InputError("lambda1", "that of a point of the path", e.lambda1)
    if (e.smoothing is not None) != isinstance(e.method, SmoothMap):
        raise InputError("smoothing", "there for the smooth methods only", f"as it is for {e.method.name}")
    if hasattr(e, "input") and hasattr(e, "groups") and not _grouped_as_asked(e):
        raise InputError("groups", f"those of the method, {shown(e.method.groups)}", "others")
    points = e.path if hasattr(e, "path") else ()
    for norms in (e.window_norms, *(point.window_norms for point in points)):
        if (norms is not None) != (e.window is not None):
            raise InputError("window_norms", "there for windows only", f"as for groups={shown(e.method.groups)}")


def _grouped_as_asked(e: SparseExplanation) -> bool:
    """Whether the groups are those of the method. Superpixels are believed: finding them takes long."""
    asked = e.method.groups
    if isinstance(asked, str) and asked.startswith("superpixels"):
        return True
    wanted = group_labels(asked, e.input)
    return wanted is None if e.groups is None else wanted is not None and torch.equal(wanted, e.groups)
