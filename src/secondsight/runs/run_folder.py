"""The folder of a run: run.json says what was asked, and maps/ has one Parquet file for each chunk of the list.

A file is there whole or not at all, under a name that says which chunk it is. Nothing else records what is done, so
that no record can disagree with the files.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from secondsight.errors import InputError, SecondsightError, shown
from secondsight.results.storage import write_whole
from secondsight.runs.map_columns import Row, schema
from secondsight.runs.run_settings import Settings, differences

FORMAT = 1
"""Version of run folders: raised whenever older ones cannot be read any more."""

PART = re.compile(r"part-(\d{6,})\.parquet")
"""The name of the file of a chunk."""

TEMPORARY = re.compile(r"\.[0-9a-f]{12}")
"""The name of a file that is being written."""

ROW_GROUP = 16
"""Rows that are read together. One map is then read without the thousands beside it."""


class RunFolder:
    """The files of a run.

    Args:
        path: the folder. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        """Only remember the names. Nothing is read or made."""
        self.path, self.maps, self.record, self.dense = path, path / "maps", path / "run.json", path / "dense.zarr"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder, if it is not there, and keep other processes out of it.

        Raises:
            InputError: if the folder has no run.json, but files of another kind. It is left as it is.
            SecondsightError: if another process has the folder, or the folder cannot be made.
        """
        own = {self.maps.name, self.record.name, self.dense.name, ".lock"}
        try:
            others = self.path.is_dir() and not self.record.exists() and {f.name for f in self.path.iterdir()} - own
            if others:
                raise InputError("--out", "a new folder, or that of a run", f"{self.path}, which has other files")
            self.maps.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise SecondsightError(
                f"another process works on {self.path}: wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise SecondsightError(f"--out {shown(self.path, str)} cannot be used: {error.strerror or error}") from None
        try:
            yield
        finally:
            lock.release()

    def begin(self, settings: Settings) -> None:
        """Write the settings, or require that they are those of earlier starts. Remove files that were half-written.

        Other settings replace those of earlier starts if no chunk is done yet.

        Raises:
            SecondsightError: if the folder has maps of a run with other settings.
        """
        if not self.record.exists():
            self.write_record({"format": FORMAT, "settings": settings, "sessions": []})
        found = self.read_record()
        changed = differences(found["settings"], json.loads(json.dumps(settings)))
        if changed and not any(PART.fullmatch(file.name) for file in self.maps.iterdir()):
            # No map is there that could disagree: perhaps the first start named a class that the network does not have.
            shutil.rmtree(self.dense, ignore_errors=True)
            self.write_record(found | {"settings": settings})
        elif changed:
            hint = "Ask as before to go on, or choose another --out"
            raise SecondsightError(f"{self.path} was begun with other settings: {changed}. {hint}")
        for file in self.maps.iterdir():
            if TEMPORARY.fullmatch(file.name):
                # A process that was killed has left it.
                file.unlink()

    def read_record(self) -> dict[str, Any]:
        """Read run.json.

        Raises:
            SecondsightError: if run.json is not there, cannot be read, or has another format.
        """
        try:
            found = json.loads(self.record.read_bytes())
        except FileNotFoundError:
            raise SecondsightError(f"{self.path} is no run: it has no run.json") from None
        except (OSError, ValueError) as error:
            raise SecondsightError(f"{self.record} cannot be read: {shown(error, str)}") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            has = shown(found.get("format") if isinstance(found, dict) else found, str)
            raise SecondsightError(f"{self.record} has format {has}; this version reads format {FORMAT}")
        return found

    def write_record(self, record: dict[str, Any]) -> None:
        """Write run.json."""
        text = json.dumps(record, indent=1)
        write_whole(self.record, lambda file: file.write(text.encode()), durable=True)

    def begin_session(self, session: dict[str, Any]) -> list[dict[str, Any]]:
        """Add a record of this start to run.json, and return the records of earlier starts."""
        record = self.read_record()
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.write_record(record | {"sessions": [*record["sessions"], {"started": started} | session]})
        earlier: list[dict[str, Any]] = record["sessions"]
        return earlier

    def end_session(self, found: dict[str, Any]) -> None:
        """Add to the record of this start how it went. If run.json cannot be written (full disk), it stays as it is."""
        with suppress(SecondsightError):
            record = self.read_record()
            record["sessions"][-1] |= found
            self.write_record(record)

    def part(self, chunk: int) -> Path:
        """Return the file of a chunk."""
        return self.maps / f"part-{chunk:06d}.parquet"

    def commit(self, chunk: int, rows: Sequence[Row], with_path: bool) -> None:
        """Write the rows of a chunk. When this returns, they survive a power cut.

        Args:
            chunk: its number.
            rows: one for each item.
            with_path: whether the file has PATH_COLUMNS.

        Raises:
            SecondsightError: if the rows cannot be written, as on a full disk. The folder is then as it was before.
        """
        columns = schema(with_path)

        def write(file: Any) -> None:
            with pq.ParquetWriter(
                file, columns, compression="zstd", write_page_checksum=True, **_encodings(columns)
            ) as to:
                for start in range(0, len(rows), ROW_GROUP):
                    some = rows[start : start + ROW_GROUP]
                    arrays = [pa.array([row.get(one.name) for row in some], one.type) for one in columns]
                    to.write_table(pa.Table.from_arrays(arrays, schema=columns))

        write_whole(self.part(chunk), write, durable=True)

    def done(self, sizes: Sequence[int]) -> set[int]:
        """List the chunks that are done.

        Args:
            sizes: how many items each chunk has.

        Returns:
            The numbers of the chunks whose file is whole and has one row for each item.
        """
        found = set()
        for file in self.maps.iterdir():
            number = PART.fullmatch(file.name)
            chunk = int(number[1]) if number else -1
            if 0 <= chunk < len(sizes) and rows_in(file) == sizes[chunk]:
                found.add(chunk)
        return found

    def errors(self, chunk: int) -> list[int]:
        """List the positions of the items of a chunk that have an error."""
        table = pq.read_table(self.part(chunk), columns=["position", "error"])
        found: list[int] = table.filter(table["error"].is_valid())["position"].to_pylist()
        return found


def rows_in(file: Path) -> int:
    """Count the rows of a Parquet file by its footer; -1 if the footer cannot be read."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return -1


def _encodings(columns: pa.Schema) -> dict[str, Any]:
    """Choose how columns are written. Indices rise, so their differences take few bits."""
    large = {"map_indices": "DELTA_BINARY_PACKED", "map_values": "BYTE_STREAM_SPLIT"}
    return {
        "use_dictionary": ["label", "basis", "error"],
        "column_encoding": {f"{name}.list.element": encoding for name, encoding in large.items()},
    }
