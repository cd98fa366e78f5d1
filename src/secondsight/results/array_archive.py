"""NPZ files that a stranger may have written: arrays of numbers and text, and no more memory than was announced.

numpy's own reader allocates whatever the header of an array claims, and reads headers as Python. Here a header must be
one that numpy writes, and claim just the bytes that the archive has.
"""

from __future__ import annotations

import math
import os
import re
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from secondsight.errors import SecondsightError, shown

MAGIC = b"\x93NUMPY\x01\x00"
"""How each array starts. Two bytes with the length of the header follow."""

HEADER = re.compile(rb"\{'descr': '([<>|][bfiU]\d+)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n")
"""What numpy writes before the entries of an array that lies in C order: their type, and the shape."""

CHUNK = 2**20
"""Bytes that are unpacked at a time, because zipfile holds as many once more."""

MOST_ARRAYS = 2**16 - 2
"""Arrays in an archive: as many as ZIP counts without its extension for large archives."""

MOST_DIRECTORY = 2**23
"""Bytes of an archive's list of contents: enough for the most arrays. zipfile's objects take ten times as much."""


def open_archive(file: IO[bytes]) -> ZipFile:
    """Open an archive whose list of contents has a size that numpy's archives have."""
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
        start = file.read(len(MAGIC) + 2)
        header = file.read(int.from_bytes(start[len(MAGIC) :], "little"))
        found = HEADER.fullmatch(header)
        if not start.startswith(MAGIC) or found is None:
            raise SecondsightError(f"{name} does not start as numpy's arrays of numbers do")
        dtype = np.dtype(found[1].decode())
        shape = tuple(int(length) for length in found[2].split(b",") if length.strip())
        if math.prod(shape) * dtype.itemsize != entry.file_size - len(start) - len(header):
            raise SecondsightError(f"{name} is not as long as its shape says")
        array = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        for first in range(0, content.size, CHUNK):
            part = content[first : first + CHUNK]
            read = file.read(part.size)
            if len(read) < part.size:
                raise SecondsightError(f"{name} is cut off")
            part[:] = np.frombuffer(read, np.uint8)
    if dtype == np.bool_ and bool((content > 1).any()):
        raise SecondsightError(f"{name} has bytes that are neither true nor false")
    return array
