"""`open_run`: the maps of a run as Explanations, one at a time, and its numbers as a table."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from secondsight.config import Method
from secondsight.errors import InputError, SecondsightError, shown
from secondsight.option_types import file_name
from secondsight.results.explanation import Explanation
from secondsight.runs.item_sources import items_of
from secondsight.runs.items import Items
from secondsight.runs.map_columns import ARRAY_COLUMNS, explanation, schema, storable
from secondsight.runs.run_folder import ROW_GROUP, RunFolder
from secondsight.runs.run_settings import reader_of
from secondsight.runs.stored_fields import StoredInput
from secondsight.runs.stored_rows import StoredRow


def open_run(path: str | os.PathLike[str], items: Any = None) -> StoredRun:
    """Open the folder of a run, whether it is finished or not.

    Args:
        path: the folder that `run` or `secondsight batch` wrote to.
        items: the items that were explained, if they came from no files. The inputs of maps are then read from them.

    Returns:
        The maps that are there now. Only run.json and the footers of the Parquet files are read yet.

    Raises:
        SecondsightError: if the folder has no run that this version can read.
        InputError: if `items` are fewer than the run has, or cannot be used.

    Example:
        >>> import tempfile, torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 3), input_shape=(4,))
        >>> out = tempfile.mkdtemp()
        >>> _ = ss.run(model, list(torch.rand(20, 4)), "cafo", out=out)
        >>> maps = open_run(out)
        >>> len(maps), maps.is_complete
        (20, True)
    """
    folder = RunFolder(file_name("path", path, "the folder of a run"))
    record = folder.read_record()
    listed = None if items is None else items_of(items)
    if listed is not None and len(listed) < record["settings"]["items"]:
        raise InputError("items", f"the {record['settings']['items']} items of the run", len(listed))
    return StoredRun(folder, record, listed)


class StoredRun(Sequence[Explanation]):
    """The maps of a run, in the order of its list: a sequence of `Explanation`s that are read when they are asked for.

    Items with an error have no map: they are in `errors`. An Explanation has all fields that were stored. Its `input`
    is read again from the item's file when it is asked for, and must not have changed. Its `gradient` and `path` are
    there only if the run kept them (`store_path=True`, `--path`). A field that was not stored, or cannot be read again,
    raises `NotStoredError`. That is an AttributeError, so that `hasattr` works. Figures leave such fields out.

    Attributes:
        path: the folder.
        settings: what was asked for, as run.json has it.
        method: the config.
        total: how many items the list has.
        sessions: what is known of each start of the run: when, with which versions, threads and device.

    Example:
        >>> run = open_run("imagenet-maps")  # doctest: +SKIP
        >>> run.where(pc.field("second_order_angle") > 20)[0].save("map.png")  # doctest: +SKIP
    """

    def __init__(self, folder: RunFolder, record: dict[str, Any], items: Items | None = None) -> None:
        """List the files that are there. Use `open_run` instead."""
        self.path, self.settings, self.sessions = folder.path, record["settings"], record["sessions"]
        self.total: int = self.settings["items"]
        self.method = Method.from_json(self.settings["method"])
        self._folder, self._items = folder, items
        self._condition: pc.Expression | None = None
        self._reader, self._chunk = reader_of(self.settings), int(self.settings["chunk"])
        sizes = [min(self._chunk, self.total - start) for start in range(0, self.total, self._chunk)]
        files = [str(folder.part(chunk)) for chunk in sorted(folder.done(sizes))]
        self._dataset = ds.dataset(files, schema=schema(self.settings["store_path"]), format="parquet")
        self._positions: list[int] | None = None

    def __repr__(self) -> str:
        """Say what the run has."""
        return f"StoredRun({str(self.path)!r}, {self.method}, {len(self)} maps of {self.total} items)"

    def __len__(self) -> int:
        """Count the maps."""
        return len(self._places())

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Explanation]: ...
    def __getitem__(self, index: int | slice) -> Explanation | list[Explanation]:
        """Read a map, or several."""
        places = self._places()[index]
        return self._read(places) if isinstance(places, int) else [self._read(place) for place in places]

    def __iter__(self) -> Iterator[Explanation]:
        """Read one map after the other."""
        return (self._read(place) for place in self._places())

    def named(self) -> Iterator[tuple[str, Explanation]]:
        """Read one map after the other, each with the id of its item.

        Returns:
            Pairs of an id and an Explanation.
        """
        return zip(self.ids, self, strict=True)

    @property
    def ids(self) -> list[str]:
        """The names of the items that have a map, in the order of the maps."""
        found: list[str] = self.table(["id"])["id"].to_pylist()
        return found

    def by_id(self, id: str) -> Explanation:
        """Read the map of an item.

        Args:
            id: the name of the item, as `ids` has it.

        Returns:
            Its Explanation.

        Raises:
            InputError: if `id` is no text.
            SecondsightError: if there is no map, because there is no such item, it failed, or it is not done yet.
        """
        if not isinstance(id, str):
            raise InputError("id", "the name of an item, as `ids` has it", shown(id))
        id = storable(id)
        found = self.where(pc.field("id") == id)
        if not len(found):
            errors = self.errors.filter(pc.field("id") == id)["error"].to_pylist()
            why = f": {errors[0]}" if errors else ""
            raise SecondsightError(f"{self.path} has no map of {shown(id)}{why}")
        return found[0]

    def where(self, condition: pc.Expression) -> StoredRun:
        """Keep the maps whose row fulfils a condition, such as `pc.field("sparsity") > 0.9` (pyarrow.compute).

        Args:
            condition: an expression of the columns.

        Returns:
            The same run with these maps only. `errors`, `total` and `is_complete` still speak of the whole run.

        Raises:
            InputError: if the condition is no expression of pyarrow.
        """
        if not isinstance(condition, pc.Expression):
            may_be = 'an expression of pyarrow.compute, as pc.field("sparsity") > 0.9'
            raise InputError("condition", may_be, shown(condition))
        narrower = copy.copy(self)
        narrower._condition = condition if self._condition is None else self._condition & condition
        narrower._positions = None
        return narrower

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of the maps as a table of pyarrow, a row for each map.

        Args:
            columns: the names of the columns; None: all but the large ones, which hold the maps.

        Returns:
            The table.

        Raises:
            InputError: if there is no such column.
        """
        known = self._dataset.schema.names
        if columns is None:
            wanted = [name for name in known if name not in ARRAY_COLUMNS]
        elif isinstance(columns, (list, tuple)) and all(isinstance(name, str) and name in known for name in columns):
            wanted = list(columns)
        else:
            raise InputError("columns", f"a list of some of {', '.join(known)}", shown(columns))
        return self._rows(wanted, self._with_map())

    @property
    def errors(self) -> pa.Table:
        """The items that have an error instead of a map: a table with position, id, path and error."""
        return self._rows(["position", "id", "path", "error"], pc.field("error").is_valid())

    @property
    def is_complete(self) -> bool:
        """Whether every item of the list has a row."""
        return int(self._dataset.count_rows()) == self.total

    def _with_map(self) -> pc.Expression:
        fine = pc.field("error").is_null()
        return fine if self._condition is None else fine & self._condition

    def _rows(self, columns: list[str], condition: pc.Expression) -> pa.Table:
        # Tables keep the order of the files, which is the order of the list.
        return self._dataset.to_table(columns=columns, filter=condition)

    def _places(self) -> list[int]:
        """List the places of the items that have a map."""
        if self._positions is None:
            self._positions = self._rows(["position"], self._with_map())["position"].to_pylist()
        return self._positions

    def _read(self, position: int) -> Explanation:
        chunk, row = divmod(position, self._chunk)
        stored = StoredRow(self._folder.part(chunk), row, ROW_GROUP)
        found = stored.read()
        source = StoredInput(position, found["path"], found["content_hash"], self._reader, self._items)
        return explanation(found, self.method, source, stored.column)
