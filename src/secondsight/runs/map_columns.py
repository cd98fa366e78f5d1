"""One row for each item: the columns of a run's Parquet files, from results to rows and back.

A map is stored as its non-zero entries: map_values * map_scale at map_indices of the flat array of map_shape. Maps are
float32, and so are the values. The few maps that are float64 (of a float64 network, or of a gradient outside of
float32's range) are rounded to float32; a power of two in map_scale keeps them in its range.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from secondsight.config import Method
from secondsight.results.explanation import (
    Explanation,
    PathPoint,
    PictureExplanation,
    SecondOrderExplanation,
    SparseExplanation,
)
from secondsight.results.record_schema import RecordReader, RecordWriter
from secondsight.results.storage import KINDS
from secondsight.runs.sparse_arrays import dense, sparse
from secondsight.runs.stored_fields import StoredFields, StoredInput

Row = dict[str, Any]
"""The values of one item by the names of the columns. A column that is not there is null."""

INDICES, VALUES = pa.list_(pa.int32()), pa.list_(pa.float32())

SPARSE = pa.struct({"indices": INDICES, "values": VALUES, "scale": pa.float64()})
"""The type of what `sparse` returns."""

POINT = pa.struct(
    {
        "lambda1": pa.float64(),
        "sparsity": pa.float64(),
        "objective": pa.float64(),
        "relative_gap": pa.float64(),
        "indices": INDICES,
        "values": VALUES,
        "scale": pa.float64(),
        "window_norms": SPARSE,
    }
)
"""The type of a `PathPoint`."""

COLUMNS = {
    "position": (pa.int64(), "place in the list of items, from 0"),
    "id": (pa.string(), "name of the item in its list; unique"),
    "path": (pa.string(), "where its file is: a path, or tar://MEMBER::ARCHIVE"),
    "content_hash": (pa.string(), "SHA-256 of the file, or of the numbers of an item that is no file"),
    "target": (pa.int32(), "index of the explained class"),
    "label": (pa.string(), "its name"),
    "probability": (pa.float64(), "that the network gives it"),
    "prediction": (pa.int32(), "index of the class that the network predicts"),
    "lambda1": (pa.float64(), "the chosen penalty"),
    "lambda2": (pa.float64(), "the weight of |D|^2"),
    "sparsity": (pa.float64(), "share of zero pixels, or of zero groups"),
    "relative_gap": (pa.float64(), "certified gap over |objective|"),
    "certified": (pa.bool_(), "whether that is within the tolerance"),
    "basis": (pa.string(), "what the certificate rests on: exact, proven, probable or estimated"),
    "products": (pa.int32(), "products with the Hessian that were taken"),
    "top_eigenvalue": (pa.float64(), "the largest eigenvalue of the Hessian, from which lambda2 was set"),
    "second_order_angle": (pa.float64(), "degrees between the maps of first and second order"),
    "second_order_error": (pa.float64(), "a bound of the error of that angle"),
    "seconds": (pa.float64(), "time of the item's batch over the number of its items"),
    "error": (pa.string(), "why there is no map; null where there is one"),
    "notes": (pa.list_(pa.string()), "what a reader should know"),
    "map_shape": (pa.list_(pa.int32()), "shape of the map"),
    "map_indices": (INDICES, "places of the map's non-zero entries in the flat array"),
    "map_values": (VALUES, "these entries, over map_scale"),
    "map_scale": (pa.float64(), "a power of two: 1 unless the map is outside of float32's range"),
    "window_norms": (SPARSE, "with windows, the mean norm of the windows of each pixel"),
    "support": (pa.binary(), "bits: entries proven to be non-zero in the optimal map, then those proven to be zero"),
    "record": (pa.string(), "the other fields of the Explanation, as JSON"),
    "gradient": (SPARSE, "of the loss; only in a run with --path"),
    "lambda1_path": (pa.list_(POINT), "the maps by falling lambda1; only in a run with --path"),
}
"""The columns, each with its type and what it means."""

PATH_COLUMNS = ("gradient", "lambda1_path")
"""Columns that are there only if the path was asked for: they take many times the space of the others."""

ARRAY_COLUMNS = ("map_indices", "map_values", "window_norms", "support", "record", *PATH_COLUMNS)
"""Columns that a table of a run leaves out unless they are asked for, because they are large."""

OTHERWHERE = ("input", "delta", "method", "gradient", "path", "groups", "window_norms")
"""Fields of results that are not in the column `record`: they have columns of their own, or come from elsewhere."""


def schema(with_path: bool) -> pa.Schema:
    """Return the columns of a run."""
    kept = {name: column for name, column in COLUMNS.items() if with_path or name not in PATH_COLUMNS}
    return pa.schema([pa.field(name, kind, metadata={"meaning": words}) for name, (kind, words) in kept.items()])


def result_row(e: Explanation, with_path: bool) -> Row:
    """List the values of a result by the names of the columns. Columns of the item, such as its id, are not there."""
    row: Row = {
        "target": e.target,
        "label": storable(e.label),
        "probability": e.probability,
        "prediction": e.prediction,
        "sparsity": e.sparsity,
        "seconds": e.seconds,
        "notes": [storable(note) for note in e.notes],
        "map_shape": list(e.delta.shape),
        **{f"map_{name}": part for name, part in sparse(e.delta).items()},
    }
    if isinstance(e, SparseExplanation):
        row |= {
            "lambda1": e.lambda1,
            "lambda2": e.lambda2,
            "relative_gap": e.certificate.relative_gap,
            "certified": e.certificate.holds,
            "basis": e.certificate.basis,
            "window_norms": None if e.window_norms is None else sparse(e.window_norms),
        }
        if with_path:
            row |= {"gradient": sparse(e.gradient), "lambda1_path": [_point(point) for point in e.path]}
    if isinstance(e, SecondOrderExplanation):
        row |= {"products": e.products, "top_eigenvalue": e.top_eigenvalue}
    if isinstance(e, (PictureExplanation, SecondOrderExplanation)):
        row |= {"second_order_angle": e.second_order.angle, "second_order_error": e.second_order.error}
    return row | _record(e)


def explanation(row: Row, method: Method, source: StoredInput, column: Callable[[str], Any]) -> Explanation:
    """Make the result of a row. Its input, gradient, path and groups are read when they are asked for.

    Args:
        row: all columns of the row but PATH_COLUMNS.
        method: the config of the run.
        source: reads the input of the item again.
        column: reads one of PATH_COLUMNS. It returns None if the run does not have the column.
    """
    record = json.loads(row["record"])
    kind, dtype = KINDS[record.pop("kind")], np.dtype(record.pop("dtype"))
    shape, masks = tuple(row["map_shape"]), {}
    if row["support"] is not None:
        packed = np.frombuffer(row["support"], np.uint8).reshape(2, -1)
        bits = np.unpackbits(packed, axis=1, count=math.prod(shape)).astype(bool)
        names = ("certificate.support.nonzero", "certificate.support.zero")
        masks = dict(zip(names, bits.reshape(2, *shape), strict=True))
    known = RecordReader(masks).fields(kind, record, OTHERWHERE)
    parts = {name: row[f"map_{name}"] for name in ("indices", "values", "scale")}
    known |= {"delta": dense(parts, shape, dtype), "method": method}
    if issubclass(kind, SparseExplanation):
        norms = row["window_norms"]
        known["window_norms"] = None if norms is None else dense(norms, shape[1:], dtype)
    return kind.from_source(known, StoredFields(source, method, shape, dtype, column))


def storable(text: object) -> str:
    """Spell out what is no valid Unicode, such as the odd bytes of a file name, because Parquet takes only UTF-8."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _record(e: Explanation) -> Row:
    """Write the fields that have no column of their own, and pack the masks of the support."""
    writer = RecordWriter()
    record = {"kind": type(e).__name__, "dtype": str(e.delta.numpy().dtype)} | writer.record(e, but=OTHERWHERE)
    masks = [np.packbits(mask.ravel()).tobytes() for mask in writer.arrays.values()]
    return {"record": json.dumps(record, allow_nan=False), "support": b"".join(masks) if masks else None}


def _point(point: PathPoint) -> Row:
    return {
        "lambda1": point.lambda1,
        "sparsity": point.sparsity,
        "objective": point.objective,
        "relative_gap": point.relative_gap,
        "window_norms": None if point.window_norms is None else sparse(point.window_norms),
        **sparse(point.delta),
    }
