"""Makes a list of items of what a user names: a folder, a glob, a list in a file, tar archives, a list, a Dataset."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secondsight.errors import InputError, SecondsightError, shown
from secondsight.model.classifier import Target
from secondsight.option_types import LARGEST, plain
from secondsight.photograph_files import SUFFIXES, files_matching, is_photograph, photographs_below
from secondsight.runs.items import Files, Items, Member, Members, Objects, members_of

LISTS = (".txt", ".lst", ".csv", ".tsv", ".parquet")
"""Endings of files that are taken for lists of photographs."""

MAY_BE = "a folder, a glob, a list (PATH.txt, .csv, .tsv, .parquet), a WebDataset .tar, or a photograph"
"""What an error message says that a source may be."""


def items_of(source: Any, target: Any = None, use_labels: bool = False, limit: int | None = None) -> Items:
    """Make a list of items.

    Args:
        source: a path or a glob, a sequence of inputs, or a map-style torch Dataset.
        target: the class to explain, for all items, or one for each; None: the predicted one, or what the list says.
        use_labels: explain the labels that come with the items of a Dataset or an archive.
        limit: how many items are kept, from the first on; None: all.

    Returns:
        The list. Of folders, lists and archives the names are read, but no photograph is opened.

    Raises:
        InputError: if the source, the target or `use_labels` cannot be used.
        SecondsightError: if a list or an archive cannot be read.
    """
    items = source if isinstance(source, Items) else _items(source, use_labels)
    if not len(items):
        raise InputError("items", "at least one", "none")
    wanted = plain(target)
    if wanted is not None:
        if items.targets is not None or use_labels:
            raise InputError("target", "None, because the items have targets of their own", shown(target))
        several = isinstance(wanted, tuple)
        wrong = [one for one in (wanted if several else [wanted]) if not _is_class(one)]
        if wrong:
            raise InputError("target", "the index or the name of a class, or a list with one for each", shown(wrong[0]))
        if several and len(wanted) != len(items):
            raise InputError("target", f"one class, or a list of {len(items)}", f"a list of {len(wanted)}")
        items.targets = wanted if several else _Same(wanted, len(items))
    return items if limit is None else items.first(limit)


def _is_class(target: Any) -> bool:
    """Whether this may be a class of some network: an index, a name, or None for the predicted one."""
    is_index = isinstance(target, int) and not isinstance(target, bool) and abs(target) <= LARGEST
    return target is None or isinstance(target, str) or is_index


def _items(source: Any, use_labels: bool) -> Items:
    if isinstance(source, (str, os.PathLike)):
        return _from_path(os.fspath(source), use_labels)
    if isinstance(source, Sequence) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        if use_labels:
            raise InputError("use_labels", "False for a list of paths, which has no labels", use_labels)
        return Files([Path(one) for one in source], map(os.fspath, source))
    if not _has_a_length(source) or not hasattr(source, "__getitem__"):
        may_be = "a path, a list of inputs, or a Dataset with a length and items by number"
        raise InputError("items", may_be, f"a {type(source).__name__}")
    return Objects(source, use_labels)


def _has_a_length(source: Any) -> bool:
    """Whether `len` works. Arrays and tensors of one number have a method for it that fails."""
    try:
        len(source)
    except TypeError:
        return False
    return True


def _from_path(name: str, use_labels: bool) -> Items:
    path = Path(name)
    try:
        path.exists()
    except OSError as error:
        raise InputError("INPUT", MAY_BE, f"{shown(name)} ({error.strerror})") from None
    if path.is_dir():
        files = list(photographs_below(path))
        if not files:
            raise InputError("INPUT", f"a folder with files {', '.join(SUFFIXES)}", repr(name))
        return _no_labels(Files(files, (file.relative_to(path).as_posix() for file in files)), use_labels)
    if not path.exists():
        found = files_matching(name)
        if not found:
            raise SecondsightError(f"{name} does not exist, and matches no file as a glob: INPUT must be {MAY_BE}")
        if all(one.suffix.lower() == ".tar" for one in found):
            return _from_tars(found, use_labels)
        return _no_labels(Files(found, (one.as_posix() for one in found)), use_labels)
    suffix = path.suffix.lower()
    if suffix == ".tar":
        return _from_tars([path], use_labels)
    if suffix in LISTS:
        return _no_labels(_from_list(path, suffix), use_labels)
    if suffix in SUFFIXES:
        return _no_labels(Files([path], [name]), use_labels)
    raise InputError("INPUT", MAY_BE, repr(name))


def _no_labels(items: Items, use_labels: bool) -> Items:
    if use_labels:
        raise InputError("use_labels", "set only for archives and Datasets (a list names classes as `target`)", True)
    return items


def _from_tars(archives: Sequence[Path], use_labels: bool) -> Items:
    """List the pictures of archives in WebDataset's layout: the files of a sample share a name up to its first dot."""
    pictures: list[Member] = []
    labels: list[Target] = []
    for archive in archives:
        members = members_of(archive)
        inside = [member for name, member in members.items() if is_photograph(Path(name))]
        pictures += inside
        if use_labels:
            labels += [_label(member, members) for member in inside]
    if not pictures:
        raise InputError("INPUT", f"an archive with files {', '.join(SUFFIXES)}", str(archives[0]))
    return Members(pictures, labels if use_labels else None)


def _label(picture: Member, members: Mapping[str, Member]) -> Target:
    """Read the class beside a picture: NAME.cls."""
    folder, slash, name = picture.name.rpartition("/")
    beside = f"{folder}{slash}{name.partition('.')[0]}.cls"
    if beside not in members:
        raise SecondsightError(f"{picture.archive} has no {beside}, and use_labels is set")
    return members[beside].read().decode("utf-8", "replace").strip()


def _from_list(file: Path, suffix: str) -> Items:
    """Read a list of photographs. Their paths are relative to the folder of the list."""
    try:
        if suffix == ".parquet":
            names, targets = _columns_of_parquet(file)
        elif suffix in (".csv", ".tsv"):
            names, targets = _columns_of_text(file, "," if suffix == ".csv" else "\t")
        else:
            data = file.read_bytes()
            # `find -print0` ends names by zeros, because a name may have newlines.
            parts = data.split(b"\0") if b"\0" in data else data.splitlines()
            names, targets = [os.fsdecode(part) for part in parts if part.strip()], None
    except (OSError, ValueError, csv.Error) as error:
        raise SecondsightError(f"{file} cannot be read as a list: {shown(error, str)}") from None
    if not names:
        raise InputError("INPUT", "a list of at least one photograph", repr(str(file)))
    return Files([file.parent / name for name in names], names, targets)


def _columns_of_text(file: Path, separator: str) -> tuple[list[str], list[Target] | None]:
    with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as opened:
        rows = csv.DictReader(opened, delimiter=separator)
        columns = list(rows.fieldnames or [])
        _require_path(file, columns)
        read = list(rows)
    names = [row["path"] or "" for row in read]
    return names, [_target(row["target"]) for row in read] if "target" in columns else None


def _columns_of_parquet(file: Path) -> tuple[list[str], list[Target] | None]:
    import pyarrow.parquet as pq

    columns = pq.read_schema(file).names
    _require_path(file, columns)
    table = pq.read_table(file, columns=[name for name in ("path", "target") if name in columns])
    names = [str(name) for name in table["path"].to_pylist()]
    return names, [_target(one) for one in table["target"].to_pylist()] if "target" in columns else None


def _require_path(file: Path, columns: Sequence[str]) -> None:
    if "path" not in columns:
        raise InputError(str(file), "a list with a column path, and perhaps a column target", f"one of {columns}")


def _target(cell: Any) -> Target:
    """Read a class. An empty cell stands for the predicted one."""
    if cell is None or cell == "" or cell != cell:
        return None
    # Where a cell is empty, pandas writes whole numbers as floats.
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if isinstance(cell, (int, str)) else str(cell)


class _Same(Sequence[Target]):
    """One class for all items."""

    def __init__(self, target: Target, length: int) -> None:
        self.target, self.length = target, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: Any) -> Any:
        return _Same(self.target, len(range(self.length)[i])) if isinstance(i, slice) else self.target
