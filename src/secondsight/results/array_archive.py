"""NPZ files that a stranger may have written: arrays of numbers and text, in no more memory than the archive announces.

numpy allocates whatever size the header of an array claims. So the header is read first. It must claim exactly as many
bytes as the archive announces for that array.
"""

from __future__ import annotations

import math
import os
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from secondsight.errors import SecondsightError, shown

KINDS = "bfiU"
"""Kinds of numpy's types that results are made of: booleans, numbers and text."""

MOST_ARRAYS = 2**16 - 2
"""Arrays in an archive: as many as ZIP counts without its extension for large archives."""

MOST_DIRECTORY = 2**23
"""Bytes of an archive's list of contents: enough for the most arrays. zipfile's objects take ten times as much."""


def open_archive(file: IO[bytes]) -> ZipFile:
    """Open an archive. Refuse one whose list of contents is larger than numpy writes it."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 42))
    # The locator of the extension for large archives, if there is one, and the end record with the size of the list.
    locator, end = (tail := file.read(42))[:-22], tail[-22:]
    if not end.startswith(b"PK\5\6") or not end.endswith(b"\0\0"):
        raise SecondsightError("it does not end as numpy's archives do")
    if locator.startswith(b"PK\6\7") or int.from_bytes(end[12:16], "little") > MOST_DIRECTORY:
        raise SecondsightError("its list of contents is too long")
    return ZipFile(file)


def entries_of(archive: ZipFile) -> dict[str, ZipInfo]:
    """List the arrays of an archive by name."""
    entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    if len(entries) < len(archive.infolist()):
        raise SecondsightError("two arrays have the same name")
    return entries


def read_array(archive: ZipFile, entry: ZipInfo) -> NDArray[Any]:
    """Read one array.

    Raises:
        SecondsightError: if it is not as numpy writes it.
        Exception: whatever damaged bytes raise on their way through zipfile.
    """
    name = shown(entry.filename)
    # Other compressions may ask for gigabytes before they unpack anything.
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise SecondsightError(f"{name} is compressed in a way that numpy does not use")
    with archive.open(entry) as file:
        if npy.read_magic(file) != (1, 0):
            raise SecondsightError(f"{name} is of another version of numpy's format")
        shape, _, dtype = npy.read_array_header_1_0(file)
        if dtype.kind not in KINDS or math.prod(shape) * dtype.itemsize != entry.file_size - file.tell():
            raise SecondsightError(f"{name} is no array of numbers, or not as long as its shape says")
    with archive.open(entry) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    if dtype == np.bool_ and bool((array.view(np.uint8) > 1).any()):
        raise SecondsightError(f"{name} has bytes that are neither true nor false")
    return array
