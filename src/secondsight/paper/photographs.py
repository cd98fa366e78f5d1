"""The photographs of a run, and a file with the record of each, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from secondsight.errors import ImageError, InputError, SecondsightError
from secondsight.model import images

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".tif", ".tiff")
"""Files that count as photographs: the usual formats, which Pillow reads without plug-ins."""

Record = dict[str, Any]
"""What was measured of one photograph, ready for JSON."""


def photographs(folder: Path, option: str = "--images") -> list[Path]:
    """List the images of a folder, sorted by name.

    Args:
        folder: where to look.
        option: the command's option that named the folder, for the message.

    Raises:
        InputError: if there is no such folder, or no image in it.
    """
    if not folder.is_dir():
        raise InputError(option, "a folder", repr(str(folder)))
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(option, f"a folder with images ({', '.join(SUFFIXES)})", f"{str(folder)!r}, which has none")
    return files


def readable(files: Iterable[Path], left_out: Callable[[str], None], option: str = "--images") -> list[Path]:
    """Return the photographs that can be read, so that a run of hours does not end at a damaged one.

    Args:
        files: the photographs.
        left_out: called with a sentence for each that cannot be read.
        option: the command's option that named the folder, for the message.

    Raises:
        InputError: if none can be read.
    """
    kept = []
    for file in files:
        try:
            images.PictureReader().read(file)
        except ImageError as error:
            left_out(f"left out: {error}")
        else:
            kept.append(file)
    if not kept:
        raise InputError(option, "a folder with images that can be read", "one without any")
    return kept


class Ledger:
    """A file of JSON lines with a record of each photograph. Its first line holds the settings of the measurement.

    Attributes:
        path: the file.
        records: by file name of the photograph.
    """

    def __init__(self, path: Path, settings: Record) -> None:
        """Open the file and read the records of an earlier run.

        If the file has other settings, its records are dropped. So is a line that an interrupt cut short.

        Args:
            path: the file; it is created with its folders if it is not there.
            settings: everything that the records depend on, ready for JSON.

        Raises:
            SecondsightError: if the file cannot be written.
        """
        self.path = path
        self.records: dict[str, Record] = {}
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        kept = [record for record in map(_parsed, lines) if record is not None]
        if kept and kept[0] == settings:
            self.records = {record.pop("photograph"): record for record in kept[1:] if "photograph" in record}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.new")
            head = [settings, *({"photograph": name} | record for name, record in self.records.items())]
            temporary.write_text("".join(json.dumps(line) + "\n" for line in head), "utf-8")
            temporary.replace(path)
        except OSError as error:
            raise SecondsightError(f"{path} cannot be written: {error.strerror or error}") from None

    def fill(
        self, files: Iterable[Path], measure: Callable[[Path], Record], done: Callable[[int], None]
    ) -> list[Record]:
        """Measure the photographs that have no record yet. Each new record is on the disk before the next is measured.

        Args:
            files: the photographs.
            measure: makes the record of one.
            done: called after each with the number of photographs done.

        Returns:
            One record for each photograph, old or new.
        """
        found = []
        for number, file in enumerate(files):
            if file.name not in self.records:
                self._add(file.name, measure(file))
            found.append({"photograph": file.name} | self.records[file.name])
            done(number + 1)
        return found

    def _add(self, name: str, record: Record) -> None:
        self.records[name] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"photograph": name} | record) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _parsed(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_labels(folder: Path) -> dict[str, int]:
    """Read the class of each photograph from labels.csv, or else boxes.csv (columns file and class_index).

    Each is looked for in this folder, then in the one above.

    Returns:
        The class indices by file name; empty if there is no such file.

    Raises:
        SecondsightError: if a column is missing or not filled in.
    """
    for path in (parent / name for name in ("labels.csv", "boxes.csv") for parent in (folder, folder.parent)):
        if path.is_file():
            try:
                with path.open(newline="", encoding="utf-8") as file:
                    return {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}
            except (KeyError, TypeError, ValueError) as error:
                raise SecondsightError(f"{path} must have the columns file and class_index ({error!r})") from None
    return {}
