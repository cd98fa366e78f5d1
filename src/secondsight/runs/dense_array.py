"""The maps of a run as one Zarr array, of which each chunk of the run writes one whole shard.

Two writers of one shard would destroy each other's work, so a shard is never shared. It is on the disk before the
Parquet file of its chunk says that the chunk is done.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from secondsight.errors import SecondsightError
from secondsight.runs.map_columns import Row
from secondsight.runs.sparse_arrays import dense

try:
    import zarr
except ImportError:
    raise SecondsightError("dense='zarr' needs zarr: pip install 'secondsight[batch]'") from None


def make_array(path: Path, count: int, shape: Sequence[int], chunk: int) -> None:
    """Make the array: float32, with NaN where there is no map. An array that is there already is left as it is.

    Args:
        path: the folder of the array.
        count: how many maps it has room for.
        shape: of one map.
        chunk: how many maps a shard has.
    """
    if not path.exists():
        zarr.create_array(
            path,
            shape=(count, *shape),
            chunks=(1, *shape),
            shards=(chunk, *shape),
            dtype="float32",
            fill_value=float("nan"),
            dimension_names=["item", *(f"dimension_{i}" for i in range(len(shape)))],
        )


def write_shard(path: Path, chunk: int, rows: Sequence[Row]) -> None:
    """Write the maps of a chunk.

    Args:
        path: the folder of the array.
        chunk: the number of the chunk.
        rows: one for each item of the chunk; an item with an error has NaN.

    Raises:
        SecondsightError: if the maps cannot be written, as on a full disk.
    """
    try:
        array: Any = zarr.open_array(path, mode="r+")
        maps = np.full((len(rows), *array.shape[1:]), np.nan, np.float32)
        for one, row in zip(maps, rows, strict=True):
            if row.get("error") is None:
                parts = {name: row[f"map_{name}"] for name in ("indices", "values", "scale")}
                one[...] = dense(parts, array.shape[1:], np.dtype("float32"))
        first = chunk * array.shards[0]
        array[first : first + len(rows)] = maps
        _sync(path / "c" / str(chunk))
    except OSError as error:
        raise SecondsightError(f"{path} cannot be written: {error.strerror or error}") from None


def _sync(folder: Path) -> None:
    """Bring the file of a shard to the disk. A shard that has only NaN has no file."""
    for file in folder.rglob("*"):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
