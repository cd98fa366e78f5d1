"""Results as JSON with arrays beside it, and back. What is read is checked against the fields of its class.

The fields of a dataclass are the keys of a record. In the place of an array the record has the word "array". The array
itself lies beside the record, under a name such as "path.3.delta". The type of a field and its limits
(`field_limits.py`) say what a record may hold there, so that a new field of a result needs nothing here. Numbers come
back bit for bit.

>>> from secondsight.results.explanation import Smoothing
>>> writer = RecordWriter()
>>> writer.record(Smoothing(4, math.inf), "smoothing")
{'copies': 4, 'standard_error': 'inf'}
>>> RecordReader(writer.arrays).read(Smoothing, {"copies": 4, "standard_error": "much"}, "smoothing")
Traceback (most recent call last):
secondsight.errors.InputError: smoothing.standard_error must be a number of at least 0, not 'much'
"""

from __future__ import annotations

import json
import math
from collections.abc import Container
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secondsight.config import Method
from secondsight.errors import Caution, InputError, NotStoredError, SecondsightError, shown
from secondsight.option_types import is_number
from secondsight.results.field_limits import LONGEST_TEXT, Content, Limits

Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Arrays by name."""

ARRAY = "array"
"""What stands in a record where an array lies beside it."""

NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""How numbers are written that JSON does not have."""

ANYTHING = Limits()
"""The limits of a field that declares none: any finite number, any text, a map."""

WHOLE = "bi"
"""Kinds of numpy's types that labels of groups are stored as: booleans and whole numbers."""


class RecordWriter:
    """Turns results into records.

    Attributes:
        arrays: the arrays that were met so far.
    """

    def __init__(self) -> None:
        """Start without arrays."""
        self.arrays: Arrays = {}

    def record(self, value: Any, name: str = "", but: Container[str] = ()) -> Any:
        """Write a value as JSON has it, and put its arrays aside. Fields in `but` are left out."""
        if isinstance(value, Tensor):
            self.arrays[name] = np.asarray(value.numpy(force=True), order="C")
            return ARRAY
        if isinstance(value, Method):
            return self._method(value, name)
        if is_dataclass(value):
            named = [one.name for one in fields(value) if one.name not in but]
            return {one: self.record(getattr(value, one), _inside(name, one)) for one in named}
        if isinstance(value, tuple):
            return [self.record(item, _inside(name, str(i))) for i, item in enumerate(value)]
        if isinstance(value, Caution):
            return {"note": str(value), "kind": value.kind}
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return str(float(value))
        if value is not None and not isinstance(value, (str, int, float)):
            raise InputError(name, "a number, a text or a tensor", f"a {type(value).__name__}")
        return value

    def _method(self, method: Method, name: str) -> dict[str, Any]:
        """Write a config. Labels of groups are an array, because as text those of a photograph are many megabytes."""
        options: dict[str, Any] = json.loads(method.to_json())
        if isinstance(options.get("groups"), list):
            try:
                self.arrays[_inside(name, "groups")] = np.array(options["groups"])
            except ValueError:
                raise InputError(_inside(name, "groups"), "an array", "lists of several lengths") from None
            options["groups"] = ARRAY
        return options


@dataclass(frozen=True)
class AbsentFields:
    """What a result from a file says of the fields that it lacks.

    Attributes:
        reasons: why each field is absent, by its name.
    """

    reasons: dict[str, str]

    def read(self, name: str) -> Any:
        """Say why the field is not there."""
        raise NotStoredError(self.reasons.get(name, f"{name} was not stored"))


class RecordReader:
    """Turns records into results, and refuses a record that no result could have been written as.

    Args:
        arrays: those beside the record.

    Attributes:
        unread: the arrays that no field has asked for so far.
        input: the input of the result. Its shape is that of all maps.
        map: the first map of the result. Its type is that of all maps.
    """

    def __init__(self, arrays: Arrays) -> None:
        """Start with all arrays unread."""
        self.unread = dict(arrays)
        self.input: Tensor | None = None
        self.map: Tensor | None = None

    def result(self, kind: Any, record: Any, absent: dict[str, str]) -> Any:
        """Read a result, to which all of the arrays must belong.

        Args:
            kind: its class.
            record: its record.
            absent: the fields that it lacks, each with the reason.
        """
        known = self.fields(kind, record, absent)
        result = kind.from_source(known, AbsentFields(absent)) if absent else kind(**known)
        for name in self.unread:
            raise SecondsightError(f"the array {shown(name)} is unknown")
        return result

    def read(self, kind: Any, value: Any, name: str = "", limits: Limits = ANYTHING) -> Any:
        """Read a value of a type.

        Args:
            kind: the type.
            value: what the record has.
            name: the place in the record, for messages.
            limits: what the field may hold.

        Raises:
            InputError: if the record has something else there.
            SecondsightError: if something is missing, or is there that should not be.
        """
        origin, parts = get_origin(kind), get_args(kind)
        if origin is tuple:
            items = _of_type(list, value, name, "a list")
            return tuple(self.read(parts[0], item, _inside(name, str(i)), limits) for i, item in enumerate(items))
        if origin is Literal:
            return _text(value, name, Limits(words=parts))
        if parts:
            return self._one_of(parts, value, name, limits)
        if kind is Tensor:
            return self._tensor(value, name, limits)
        if issubclass(kind, Method):
            return self._method(kind, value, name)
        if is_dataclass(kind):
            make: Any = kind
            return make(**self.fields(kind, value, (), name, limits))
        return SCALARS[kind](value, name, limits)

    def _one_of(self, kinds: tuple[Any, ...], value: Any, name: str, limits: Limits) -> Any:
        """Read a value of one of several types: None, a note that is a caution, or the first."""
        if value is None and NoneType in kinds:
            return None
        return self.read(Caution if Caution in kinds and isinstance(value, dict) else kinds[0], value, name, limits)

    def fields(
        self, kind: Any, value: Any, but: Container[str] = (), name: str = "", limits: Limits = ANYTHING
    ) -> dict[str, Any]:
        """Read the fields of a dataclass, except those in `but`. `limits` are of fields that have none of their own."""
        types = get_type_hints(kind)
        wanted = [one for one in fields(kind) if one.name not in but]
        record = _keys(value, name, {one.name for one in wanted})
        return {
            one.name: self.read(
                types[one.name], record[one.name], _inside(name, one.name), one.metadata.get("limits", limits)
            )
            for one in wanted
        }

    def _tensor(self, value: Any, name: str, limits: Limits) -> Tensor:
        _text(value, name, Limits(words=(ARRAY,)))
        array = self._array(name)
        types, shape = self._expected(limits.array, array.shape)
        if str(array.dtype) not in types or array.shape != shape:
            wanted = f"an array of {' or '.join(types)} of shape {shape}"
            raise InputError(name, wanted, f"of {array.dtype} of shape {array.shape}")
        tensor = torch.from_numpy(array)
        if limits.array == "input":
            self.input = tensor
            if not tensor.numel() or not bool(tensor.isfinite().all()):
                raise InputError(name, "finite numbers", "others")
        elif limits.array == "map" and self.map is None:
            self.map = tensor
        elif limits.array == "labels" and not _are_labels(tensor):
            raise InputError(name, "whole numbers from 0 on, each of them somewhere", "others")
        return tensor

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.unread:
            raise SecondsightError(f"the array {name} is missing")
        return self.unread.pop(name)

    def _expected(self, content: Content, shape: tuple[int, ...]) -> tuple[list[str], tuple[int, ...]]:
        """List the types and the shape that an array may have. If no input was read before it, any shape may be."""
        shape = shape if self.input is None else tuple(self.input.shape)
        if content in ("mask", "labels"):
            return ["bool" if content == "mask" else "int64"], shape
        # Maps of a float32 input may lie outside of float32's range.
        types = ["float32" if self.input is None else _short(self.input.dtype), "float64"]
        types = types if self.map is None else [_short(self.map.dtype)]
        return types, shape[1:] if content == "pixels" else shape

    def _method(self, kind: type[Method], value: Any, name: str) -> Method:
        """Read a config. Written anew, it must be the same to the last digit."""
        options, labels = _of_type(dict, value, name, "a config"), None
        if options.get("groups") == ARRAY:
            labels = self._array(_inside(name, "groups"))
            if labels.dtype.kind not in WHOLE:
                raise InputError(_inside(name, "groups"), "an array of whole numbers", f"of {labels.dtype}")
            options = options | {"groups": "none"}
        method = kind.from_json(json.dumps(options))
        written = json.loads(method.to_json())
        for key, one in _keys(options, name, set(written)).items():
            if json.dumps(one) != json.dumps(written[key]):
                raise InputError(_inside(name, key), shown(written[key]), shown(one))
        return method if labels is None else method.with_options(groups=labels)


def _number(value: Any, name: str, limits: Limits) -> float:
    number = NOT_FINITE.get(value) if isinstance(value, str) else value if is_number(value) else None
    if number is None or not limits.allow(number):
        raise InputError(name, limits.in_words(), shown(value))
    return float(number)


def _whole(value: Any, name: str, limits: Limits) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not limits.allow(value):
        raise InputError(name, limits.in_words("whole number"), shown(value))
    return value


def _text(value: Any, name: str, limits: Limits) -> str:
    if limits.words and (not isinstance(value, str) or value not in limits.words):
        raise InputError(name, " or ".join(limits.words), shown(value))
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise InputError(name, f"a text of at most {LONGEST_TEXT} characters", shown(value))
    return value


def _flag(value: Any, name: str, limits: Limits) -> bool:
    return bool(_of_type(bool, value, name, "true or false"))


def _caution(value: Any, name: str, limits: Limits) -> Caution:
    record = _keys(value, name, {"note", "kind"})
    return Caution(*(_text(record[key], _inside(name, key), limits) for key in ("note", "kind")))


SCALARS = {float: _number, int: _whole, str: _text, bool: _flag, Caution: _caution}
"""The functions that read values without parts."""


def _of_type(kind: type, value: Any, name: str, may_be: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(name or "the record", may_be, shown(value))
    return value


def _keys(value: Any, name: str, keys: set[str]) -> dict[str, Any]:
    """Require an object with exactly these keys."""
    record: dict[str, Any] = _of_type(dict, value, name, "an object")
    for key in sorted(keys - record.keys()):
        raise SecondsightError(f"{_inside(name, key)} is missing")
    for key in sorted(record.keys() - keys):
        raise SecondsightError(f"{shown(_inside(name, key))} is unknown")
    return record


def _are_labels(labels: Tensor) -> bool:
    """Whether these are numbers from 0 without holes."""
    inside = int(labels.min()) >= 0 and int(labels.max()) < labels.numel()
    return inside and bool(labels.flatten().bincount().all())


def _inside(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
