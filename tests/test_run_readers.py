"""A run's files in the tools of others, with nothing of ours: pandas, polars, DuckDB, Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import secondsight as ss
from test_runs import SIDE, network, picture, pictures

COLUMNS = ["id", "label", "sparsity", "certified", "error", "map_shape", "map_indices", "map_values"]

Table = dict[str, list[Any]]
"""A column for each of COLUMNS."""


def by_pandas(maps: Path) -> Table:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(maps)[COLUMNS]
    return {
        name: [None if one is None or one != one else one for one in frame[name]]
        if name in ("error", "label")
        else list(frame[name])
        for name in COLUMNS
    }


def by_polars(maps: Path) -> Table:
    polars = pytest.importorskip("polars")
    frame: Table = polars.read_parquet(maps / "*.parquet").select(COLUMNS).to_dict(as_series=False)
    return frame


def by_duckdb(maps: Path) -> Table:
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"select {', '.join(COLUMNS)} from '{maps}/*.parquet' order by position").fetchall()
    return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


def by_datasets(maps: Path) -> Table:
    datasets = pytest.importorskip("datasets")
    files = [str(file) for file in sorted(maps.glob("*.parquet"))]
    loaded = datasets.load_dataset("parquet", data_files=files, cache_dir=str(maps.parent / "cache"), split="train")
    return {name: list(loaded[name]) for name in COLUMNS}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("read", [by_pandas, by_polars, by_duckdb, by_datasets])
@pytest.mark.parametrize("store_path", [False, True])
def test_others_read_the_maps(tmp_path: Path, read: Callable[[Path], Table], store_path: bool) -> None:
    files = pictures(tmp_path / "in", 5)
    files[2].write_bytes(b"no picture")
    ss.run(network(), tmp_path / "in", "caso", out=tmp_path / "run", chunk=2, store_path=store_path)
    picture(files[2], 2)
    found = read(tmp_path / "run/maps")
    assert found["id"] == [file.name for file in files]
    assert [reason is None for reason in found["error"]] == [True, True, False, True, True]
    run = ss.open_run(tmp_path / "run")
    for i, e in zip((0, 1, 3, 4), run, strict=True):
        full = np.zeros(3 * SIDE * SIDE, np.float32)
        full[np.asarray(found["map_indices"][i])] = found["map_values"][i]
        np.testing.assert_array_equal(full.reshape([int(n) for n in found["map_shape"][i]]), e.delta.numpy())
        assert (found["label"][i], found["sparsity"][i], found["certified"][i]) == (e.label, e.sparsity, True)
