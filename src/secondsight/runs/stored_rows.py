"""Rows of a run's Parquet files, read one at a time as arrays of numpy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from secondsight.errors import SecondsightError, shown
from secondsight.runs.map_columns import COLUMNS, PATH_COLUMNS, Row

LIGHT = tuple(name for name in COLUMNS if name not in PATH_COLUMNS)
"""The columns that every run has."""


@dataclass(frozen=True)
class StoredRow:
    """A row of a file.

    Attributes:
        file: the file.
        row: its number there.
        group: how many rows of the file are read together.
    """

    file: Path
    row: int
    group: int

    def read(self) -> Row:
        """Read all columns but PATH_COLUMNS."""
        # The time of the last change is part of the cache's key: items with an error may have been done again.
        table = _group(self.file, self.file.stat().st_mtime_ns, self.row // self.group)
        return self._of(table, LIGHT)

    def column(self, name: str) -> Any:
        """Read one column; None if the file does not have it."""
        if name not in pq.read_schema(self.file).names:
            return None
        return self._of(_read_group(self.file, self.row // self.group, [name]), [name])[name]

    def _of(self, table: pa.Table, names: Sequence[str]) -> Row:
        return {name: _value(table[name][self.row % self.group]) for name in names}


@functools.lru_cache(maxsize=2)
def _group(file: Path, written: int, number: int) -> pa.Table:
    """Read one group of rows. Groups are cached, because rows are usually read one after the other."""
    return _read_group(file, number, list(LIGHT))


def _read_group(file: Path, number: int, columns: list[str]) -> pa.Table:
    """Read one group of rows, and compare it with the check sums that were written beside it."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            return opened.read_row_group(number, columns=columns)
    except (pa.ArrowException, OSError) as error:
        hint = "delete it, and start the run again"
        raise SecondsightError(f"{file} cannot be read ({shown(error, str)}): {hint}") from None


def _value(scalar: Any) -> Any:
    """Turn a value of Arrow into Python's. Lists of numbers become arrays of numpy, which is far faster."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(scalar[name]) for name in scalar}
    if isinstance(scalar, pa.ListScalar):
        values = scalar.values
        if pa.types.is_struct(values.type):
            return [_value(one) for one in values]
        if pa.types.is_string(values.type):
            return values.to_pylist()
        return values.to_numpy(zero_copy_only=False)
    return scalar.as_py()
