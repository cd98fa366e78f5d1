"""What a run explains: lists of files, members of tar archives, tensors, or the items of a torch Dataset.

A list knows the names of its items. The items themselves are opened one by one, by the thread that reads ahead.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image
from torch import Tensor

from secondsight.errors import ImageError, InputError, SecondsightError, shown
from secondsight.model.classifier import Target
from secondsight.model.images import EncodedPicture, Pixels
from secondsight.option_types import plain

TAR = "tar://"
"""How the address of a member of an archive begins: tar://MEMBER::ARCHIVE, as fsspec and Hugging Face write it."""

MOST_MEMBER = 2**30
"""Bytes of a member of a tar at most: no photograph has more, and a member is read as a whole."""


class Items(ABC):
    """A list of items.

    Attributes:
        ids: the name of each, unique.
        targets: the class to explain of each; None: the list names none.
    """

    ids: Sequence[str]
    targets: Sequence[Target] | None = None

    def __len__(self) -> int:
        """Count the items."""
        return len(self.ids)

    def open(self, i: int) -> tuple[Any, Target]:
        """Open an item.

        Returns:
            What `Classifier.read` takes, and the class to explain (None: the predicted one).
        """
        return self.item(i), None if self.targets is None else self.targets[i]

    @abstractmethod
    def item(self, i: int) -> Any:
        """Open an item, without its class."""

    @abstractmethod
    def where(self, i: int) -> str | None:
        """Say where the file of an item is, for the column `path`. None: the item is in no file."""

    def first(self, count: int) -> Self:
        """Return the list of the first items only."""
        shorter = copy.copy(self)
        shorter.ids = self.ids[:count]
        shorter.targets = None if self.targets is None else self.targets[:count]
        return shorter

    def digest(self) -> str:
        """Hash the names and the classes of all items: the identity of the list."""
        hashed = hashlib.sha256()
        for i, name in enumerate(self.ids):
            target = None if self.targets is None else self.targets[i]
            hashed.update(f"{name}\0{target!r}\0".encode("utf-8", "surrogateescape"))
        return hashed.hexdigest()


class Files(Items):
    """Files of pictures.

    Args:
        paths: the files.
        ids: the name of each. A name that comes again gets a number.
        targets: the class of each.
    """

    def __init__(self, paths: Sequence[Path], ids: Iterable[str], targets: Sequence[Target] | None = None) -> None:
        """Keep the names. No file is opened."""
        self.paths, self.ids, self.targets = paths, unique(ids), targets

    def item(self, i: int) -> Path:
        """Return the path."""
        return self.paths[i]

    def where(self, i: int) -> str:
        """Return the path from the root on, because a run may be opened from another folder."""
        return str(self.paths[i].absolute())


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside of a tar.

    Attributes:
        archive: the tar.
        name: of the member.
        offset: where its bytes begin.
        size: how many bytes there are.
    """

    archive: Path
    name: str
    offset: int
    size: int

    def read(self) -> bytes:
        """Read the bytes.

        Raises:
            ImageError: if there are more than MOST_MEMBER bytes, or the archive is cut short.
            OSError: if the archive cannot be opened.
        """
        if self.size > MOST_MEMBER:
            raise ImageError(f"{self.name} in {self.archive} has {self.size:,} bytes, more than {MOST_MEMBER:,}")
        with self.archive.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if len(data) < self.size:
            raise ImageError(f"{self.name} in {self.archive} is cut short")
        return data


class Members(Items):
    """Pictures in tar archives.

    Args:
        members: the pictures.
        targets: the class of each.
    """

    def __init__(self, members: Sequence[Member], targets: Sequence[Target] | None) -> None:
        """Keep where the bytes of each are."""
        self.members, self.targets = members, targets
        self.ids = unique(f"{member.archive.name}/{member.name}" for member in members)

    def item(self, i: int) -> EncodedPicture:
        """Read the bytes of a picture."""
        member = self.members[i]
        return EncodedPicture(member.read(), f"{member.name} in {member.archive}")

    def where(self, i: int) -> str:
        """Return the address of the member."""
        member = self.members[i]
        return f"{TAR}{member.name}::{member.archive.absolute()}"


class Objects(Items):
    """Items by number, of a list or a torch Dataset: tensors, pictures, paths, each perhaps in a pair with its label.

    Args:
        source: anything with a length and items by number.
        use_labels: explain the label that comes with each item.
    """

    def __init__(self, source: Any, use_labels: bool = False) -> None:
        """Name the items by their numbers. No item is opened."""
        self.source, self.use_labels = source, use_labels
        self.ids = Numbered(len(source))

    def open(self, i: int) -> tuple[Any, Target]:
        """Open an item. Its class is its label if `use_labels` is set, else what `targets` says."""
        item, target = self.source[i], None if self.targets is None else self.targets[i]
        if not _is_pair(item):
            if self.use_labels:
                raise InputError("an item", "a pair of input and label, because use_labels is set", f"a {_kind(item)}")
            return item, target
        return item[0], plain(item[1]) if self.use_labels else target

    def item(self, i: int) -> Any:
        """Open an item, without its label."""
        return self.open(i)[0]

    def where(self, i: int) -> str | None:
        """Return the path of an item that is a path, if the source is a list. The items of a Dataset are not opened."""
        item = self.source[i] if isinstance(self.source, (list, tuple)) else None
        item = item[0] if item is not None and _is_pair(item) else item
        return str(Path(item).absolute()) if isinstance(item, (str, os.PathLike)) else None


@dataclass(frozen=True)
class Numbered(Sequence[str]):
    """The names of items that have only numbers: "0", "1", ..."""

    length: int

    def __len__(self) -> int:
        """Count the names."""
        return self.length

    def __getitem__(self, i: Any) -> Any:
        """Write the number of an item, or those of a slice."""
        numbers = range(self.length)[i]
        return [str(number) for number in numbers] if isinstance(numbers, range) else str(numbers)


def unique(names: Iterable[str]) -> list[str]:
    """Add a number to each name that came before: "cat.jpg", "cat.jpg#2"."""
    taken: dict[str, int] = {}
    found = []
    for name in names:
        new = name
        while new in taken:
            taken[name] += 1
            new = f"{name}#{taken[name]}"
        taken[new] = 1
        found.append(new)
    return found


def item_at(where: str) -> Path | EncodedPicture:
    """Return the item that the column `path` names: a path, or the bytes of a member of an archive.

    Raises:
        SecondsightError: if the archive or its member is not there any more.
    """
    if not where.startswith(TAR):
        return Path(where)
    name, _, archive = where.removeprefix(TAR).rpartition("::")
    member = members_of(Path(archive)).get(name)
    if member is None:
        raise SecondsightError(f"{archive} has no {name}")
    return EncodedPicture(member.read(), f"{name} in {archive}")


def members_of(archive: Path) -> Mapping[str, Member]:
    """List the files of a tar by name, in their order.

    Raises:
        SecondsightError: if the file cannot be read, or is no uncompressed tar.
    """
    try:
        written = archive.stat()
    except OSError as error:
        raise SecondsightError(f"{archive} cannot be read: {error.strerror}") from None
    return _members(archive, written.st_mtime_ns, written.st_size)


@functools.lru_cache(maxsize=8)
def _members(archive: Path, written: int, size: int) -> Mapping[str, Member]:
    """List the files of a tar. `written` and `size` are in the cache's key, so that a tar that changed is read anew."""
    try:
        with tarfile.open(archive, "r:") as opened:
            return {one.name: Member(archive, one.name, one.offset_data, one.size) for one in opened if one.isreg()}
    except (tarfile.TarError, OSError) as error:
        why = shown(error, str)
        raise SecondsightError(f"{archive} is no uncompressed tar ({why}): members are read in any order") from None


def content_hash(item: Any) -> str:
    """Hash the content of an item: the bytes of a file, or numbers with their type and shape."""
    hashed = hashlib.sha256()
    if isinstance(item, (str, os.PathLike)):
        with Path(item).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if isinstance(item, EncodedPicture):
        hashed.update(item.data)
    elif isinstance(item, Image.Image):
        hashed.update(f"{item.mode} {item.size}".encode() + item.tobytes())
    else:
        parts = item if isinstance(item, tuple) else (item.values if isinstance(item, Pixels) else item,)
        for part in parts:
            array = part.numpy(force=True) if isinstance(part, Tensor) else np.asarray(part)
            hashed.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def _is_pair(item: Any) -> bool:
    """Whether this is an input with its label. A tuple of tensors is an input of several parts."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        return False
    if getattr(item[1], "ndim", 0):
        return False
    label = plain(item[1])
    return label is None or (isinstance(label, (int, str)) and not isinstance(label, bool))


def _kind(item: Any) -> str:
    return type(item).__name__
