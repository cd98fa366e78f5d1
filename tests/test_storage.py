"""The result on disk: exact round trips, records checked before they are believed, damaged and half-written files."""

from __future__ import annotations

import copy
import errno
import functools
import io
import json
import math
import os
import shutil
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import secondsight as ss
from secondsight.config import CAFO, Baseline, Method, SmoothMap
from secondsight.errors import Caution
from secondsight.groups import group_labels
from secondsight.results import storage
from secondsight.results.explanation import Smoothing
from secondsight.results.storage import FORMAT, write_whole
from test_config import configs
from test_explanation import CASES, all_zero, conv, explained

SHAPE = (3, 6, 8)


@functools.cache
def made(case: str) -> Any:
    return CASES[case]()


def same(a: Any, b: Any) -> bool:
    """Whether two values are of one type and equal to the last bit. What is undefined has no bits that matter."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    if is_dataclass(a):
        return all(same(getattr(a, one.name), getattr(b, one.name)) for one in fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    return bool(a == b) and getattr(a, "kind", None) == getattr(b, "kind", None)


def again(e: ss.Explanation, path: Path) -> Any:
    """What a file has of a result."""
    e.save(path)
    return ss.Explanation.load(path)


class TestRoundTrip:
    @pytest.mark.parametrize("case", CASES)
    def test_every_field(self, case: str, tmp_path: Path) -> None:
        e = made(case)
        loaded = again(e, tmp_path / "e.npz")
        assert type(loaded) is type(e)
        assert [one.name for one in fields(e) if not same(getattr(e, one.name), getattr(loaded, one.name))] == []
        assert loaded.summary() == e.summary()

    def test_cases_differ_in_what_is_hard_to_store(self) -> None:
        assert made("not certified").certificate.gap == math.inf
        assert made("not certified").certificate.holds is False
        assert type(made("cafo")) is type(made("first order, smooth")) is ss.SparseExplanation
        assert made("cafo").certificate.top_eigenvalue_bound == 0
        assert made("cafo").certificate.basis == "exact"
        assert made("path").certificate.basis == "proven"
        assert made("caso").groups is None
        assert made("groups").groups is not None
        assert isinstance(made("groups as an array").method.groups, tuple)
        assert type(made("gradient")) is type(made("integrated gradients")) is ss.Explanation
        assert {point.relative_gap is None for point in made("caso").path} == {True, False}
        assert made("indefinite, float64").delta.dtype == torch.float64
        assert made("all zero").notes
        assert {type(note) for note in made("not certified").notes} >= {Caution}

    def test_text_path_and_missing_directories(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "E.NPZ"
        e = explained()
        e.save(str(path))
        assert torch.equal(ss.Explanation.load(str(path)).delta, e.delta)
        assert [file.name for file in path.parent.iterdir()] == ["E.NPZ"]

    def test_equal_files_from_equal_results(self, tmp_path: Path) -> None:
        e = explained()
        e.save(tmp_path / "a.npz")
        ss.Explanation.load(tmp_path / "a.npz").save(tmp_path / "b.npz")
        a, b = (np.load(tmp_path / name) for name in ("a.npz", "b.npz"))
        with a, b:
            assert a.files == b.files
            assert all(np.array_equal(a[name], b[name]) for name in a.files)

    def test_cautions_keep_their_kind(self, tmp_path: Path) -> None:
        notes = again(all_zero(), tmp_path / "e.npz").notes
        assert [note.kind for note in notes if isinstance(note, Caution)] == ["all zero"]

    @pytest.mark.parametrize("case", ["caso", "groups as an array", "smooth", "picture", "first order, smooth"])
    def test_explaining_again_by_what_was_loaded(self, case: str, tmp_path: Path) -> None:
        e = again(replace(made(case), seed=2**63 - 1), tmp_path / "e.npz")
        model = ss.Classifier(conv(), name="small")
        first, second = (
            ss.explain(model, e.input, method, e.target, seed=e.seed) for method in (made(case).method, e.method)
        )
        assert same(first.delta, second.delta)
        assert bool(first.delta.any())

    @pytest.mark.parametrize("label", ["", "\ud800 \0\n", "Ägyptische Katze 🐈", "NaN", "inf", "x" * 60_000])
    def test_any_text(self, label: str, tmp_path: Path) -> None:
        notes = (label, Caution(label, "kind"))
        e = replace(made("caso"), label=label, model=label, notes=notes)
        loaded = again(e, tmp_path / "e.npz")
        assert same((loaded.label, loaded.model, loaded.notes), (label, label, notes))

    @pytest.mark.parametrize("case", ["caso", "not certified", "picture", "gradient"])
    def test_the_record_is_strict_json(self, case: str, tmp_path: Path) -> None:
        made(case).save(tmp_path / "e.npz")
        with np.load(tmp_path / "e.npz") as arrays:
            json.loads(str(arrays["record"]), parse_constant=pytest.fail)

    def test_arrays_in_another_order(self, tmp_path: Path) -> None:
        e = made("gradient")
        turned = replace(e, delta=e.delta.permute(2, 1, 0).contiguous().permute(2, 1, 0))
        assert not turned.delta.is_contiguous()
        assert torch.equal(again(turned, tmp_path / "e.npz").delta, e.delta)


def of_method(method: Method, seed: int = 0) -> ss.Explanation:
    """A result as it would be of any config, for pictures of SHAPE."""
    if isinstance(method, Baseline):
        return replace(made("gradient"), method=method, seed=seed)
    case = "picture" if isinstance(method, ss.Picture) else "caso" if isinstance(method, ss.CASO) else "cafo"
    assert isinstance(method, CAFO)
    e: ss.SparseExplanation = replace(
        made(case),
        method=method,
        seed=seed,
        groups=group_labels(method.groups, made(case).input),
        smoothing=Smoothing(4, None) if isinstance(method, SmoothMap) else None,
    )
    norms = torch.ones(SHAPE[1:]) if e.window else None
    return replace(e, window_norms=norms, path=tuple(replace(point, window_norms=norms) for point in e.path))


labels = st.lists(st.integers(0, 2**63 - 1), min_size=48, max_size=48).map(lambda row: np.array(row).reshape(6, 8))
fitting_groups = (
    st.sampled_from(["none", "pixel", "patch:3", "window:3", "window:1"])
    | labels
    | labels.map(lambda array: torch.from_numpy(array).expand(SHAPE))
    | labels.map(lambda array: array > 2**62)
    | labels.map(lambda array: array.astype(np.uint8).tolist())
)
# Shapes and superpixels of any config do not fit every picture.
fitting_configs = configs().map(lambda method: method.with_options(groups="none") if method.has("groups") else method)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage") / "e.npz"


class TestExactness:
    # Files take longer on a busy machine.
    @settings(deadline=None)
    @given(method=fitting_configs, groups=fitting_groups, seed=st.integers(0, 2**63 - 1))
    def test_any_config(self, file: Path, method: Method, groups: Any, seed: int) -> None:
        if method.has("groups"):
            method = method.with_options(groups=groups)
        loaded = again(of_method(method, seed), file)
        assert same(loaded.method, method)
        assert loaded.method == method
        assert repr(loaded.method) == repr(method)
        assert loaded.seed == seed

    @pytest.mark.parametrize(
        ("options", "stored"),
        [
            ({"lambda1": -0.0}, -0.0),
            ({"lambda1": 5e-324}, 5e-324),
            ({"lambda1": 1 / 3}, 1 / 3),
            ({"lambda1": np.float32(0.1)}, float(np.float32(0.1))),
            ({"lambda1": np.float64(1 / 3)}, 1 / 3),
            ({"lambda1": 2**53 + 1}, float(2**53)),
            ({"lambda1": "25%"}, "25%"),
            ({"lambda1": "1e-320%"}, "1e-320%"),
            ({"lambda1": np.array([1 / 3, -0.0, 5e-324])}, (1 / 3, -0.0, 5e-324)),
            ({"lambda1": torch.tensor([0.1])}, (float(np.float32(0.1)),)),
            ({"c1": "0.1L"}, "0.1L"),
            ({"c1": sys.float_info.max}, sys.float_info.max),
            ({"max_products": np.int64(2**63 - 1)}, 2**63 - 1),
            ({"max_products": 2**53 + 1}, 2**53 + 1),
            ({"times_input": np.bool_(True)}, True),
            (
                {"sparsity_range": np.array([0.1, 0.7], dtype=np.float32)},
                tuple(np.array([0.1, 0.7], np.float32).tolist()),
            ),
            (
                {"groups": np.arange(48, dtype=np.uint8).reshape(6, 8) % 5},
                tuple(map(tuple, (np.arange(48).reshape(6, 8) % 5).tolist())),
            ),
            ({"groups": torch.zeros(6, 8, dtype=torch.bool)}, ((False,) * 8,) * 6),
        ],
    )
    def test_options(self, options: dict[str, Any], stored: Any, file: Path) -> None:
        (name,) = options
        loaded = again(of_method(ss.CASO(**options)), file)
        assert same(getattr(loaded.method, name), stored)

    numbers = st.floats() | st.sampled_from([-0.0, 5e-324, 1 / 3, math.inf, -math.inf, math.nan])

    @settings(deadline=None)
    @given(objective=numbers, gap=numbers.map(abs), seconds=st.floats(0, allow_infinity=False))
    def test_any_number(self, file: Path, objective: float, gap: float, seconds: float) -> None:
        e = made("caso")
        certificate = replace(e.certificate, gap=gap, relative_gap=gap)
        path = (replace(e.path[0], objective=objective, relative_gap=gap), *e.path[1:])
        e = replace(e, certificate=certificate, path=path, seconds=seconds)
        loaded = again(e, file)
        assert all(same(getattr(loaded, one.name), getattr(e, one.name)) for one in fields(e))

    def test_numbers_of_numpy(self, file: Path) -> None:
        e = made("caso")
        loaded = again(replace(e, target=np.int64(2), probability=np.float32(0.1), model=np.str_("m")), file)
        assert same((loaded.target, loaded.probability, loaded.model), (2, float(np.float32(0.1)), "m"))


def content_of(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record and the arrays of a file."""
    record, arrays = _content_of(case)
    return copy.deepcopy(record), {name: array.copy() for name, array in arrays.items()}


@functools.cache
def _content_of(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    file = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "write_whole", lambda path, write: write(file))
        made(case).save("e.npz")
    file.seek(0)
    with np.load(file) as arrays:
        return json.loads(str(arrays["record"])), {name: arrays[name] for name in arrays.files if name != "record"}


def written(path: Path, record: Any, arrays: dict[str, Any]) -> Path:
    """A file of this record and these arrays, but those that are None."""
    everything = {"record": np.array(json.dumps(record))} | arrays
    np.savez(path, **{name: array for name, array in everything.items() if array is not None})
    return path


def changed(path: Path, case: str = "caso", /, **arrays: Any) -> Path:
    """A file with other arrays; None leaves one out."""
    record, kept = content_of(case)
    return written(path, record, kept | arrays)


def with_value(path: Path, case: str, place: str, value: Any) -> Path:
    """A file whose record has another value at a place such as "path.0.sparsity"."""
    record, arrays = content_of(case)
    *outer, last = place.split(".")
    inside: Any = record
    for key in outer:
        inside = inside[int(key)] if isinstance(inside, list) else inside[key]
    inside[int(last) if isinstance(inside, list) else last] = value
    return written(path, record, arrays)


def places(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every place of a record with what is there; of lists the first and the last item."""
    items: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        items = list({0: value[0], len(value) - 1: value[-1]}.items())
    for key, inside in items:
        inner = f"{name}.{key}" if name else str(key)
        yield inner, inside
        yield from places(inside, inner)


def telling(names: list[str]) -> list[str]:
    """Arrays of the path are many: those of its first point stand for all."""
    return [name for name in names if not name.startswith("path.") or name.startswith("path.0.")]


def refusal(path: Path) -> str:
    with pytest.raises(ss.SecondsightError) as caught:
        ss.Explanation.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


EVERY_KIND = ["caso", "not certified", "groups as an array", "first order, smooth", "picture", "gradient"]


class TestRecordIsChecked:
    @pytest.mark.parametrize("case", EVERY_KIND)
    @pytest.mark.parametrize("wrong", [{"a": 1}, [None]], ids=str)
    def test_every_place(self, case: str, wrong: Any, tmp_path: Path) -> None:
        for place, _ in places(content_of(case)[0]):
            message = refusal(with_value(tmp_path / "e.npz", case, place, wrong))
            name = place.rsplit(".", 1)[-1]
            assert name in message or name.isdigit(), (place, message)

    @pytest.mark.parametrize("case", EVERY_KIND)
    def test_nothing_may_be_missing(self, case: str, tmp_path: Path) -> None:
        whole, arrays = content_of(case)
        objects = [("", whole), *places(whole)]
        for place, value in objects:
            for key in value if isinstance(value, dict) else ():
                record = {name: inside for name, inside in value.items() if name != key}
                path = with_value(tmp_path / "e.npz", case, place, record) if place else tmp_path / "e.npz"
                if not place:
                    written(path, record, arrays)
                assert key in refusal(path), (place, key)

    @pytest.mark.parametrize("case", EVERY_KIND)
    def test_nothing_may_be_added(self, case: str, tmp_path: Path) -> None:
        whole, arrays = content_of(case)
        for place, value in places(whole):
            if isinstance(value, dict):
                path = with_value(tmp_path / "e.npz", case, place, value | {"colour": 1})
                assert "colour" in refusal(path), place
        assert "colour is unknown" in refusal(written(tmp_path / "e.npz", whole | {"colour": 1}, arrays)).replace(
            "'", ""
        )
        assert "colour" in refusal(changed(tmp_path / "e.npz", case, colour=np.zeros(3)))

    @pytest.mark.parametrize(
        ("place", "value", "may_be"),
        [
            ("probability", "x", "a number from 0 to 1"),
            ("probability", 1.5, "a number from 0 to 1"),
            ("probability", -1e-9, "a number from 0 to 1"),
            ("probability", "nan", "a number from 0 to 1"),
            ("probability", True, "a number from 0 to 1"),
            ("sparsity", 1.01, "a number from 0 to 1"),
            ("path.0.sparsity", -0.5, "a number from 0 to 1"),
            ("target", -1, "a whole number of at least 0"),
            ("target", 1.0, "a whole number of at least 0"),
            ("target", True, "a whole number of at least 0"),
            ("products", -1, "a whole number of at least 0"),
            ("seed", 2**63, f"a whole number from 0 to {2**63 - 1}"),
            ("seconds", "inf", "a finite number of at least 0"),
            ("seconds", None, "a finite number of at least 0"),
            ("seconds", 10**400, "a finite number of at least 0"),
            ("lambda2", -1.0, "a number of at least 0"),
            ("certificate.gap", -1.0, "a number of at least 0"),
            ("certificate.gap", None, "a number of at least 0"),
            ("certificate.tolerance", "inf", "a finite number of at least 0"),
            ("certificate.basis", "hope", "exact or proven or probable or estimated"),
            ("curvature", "auto", "gauss-newton or exact"),
            ("second_order.angle", 181, "a number from 0 to 180"),
            ("second_order.sentence", 3, "a text of at most 65536 characters"),
            ("label", "x" * 70_000, "a text of at most 65536 characters"),
            ("notes", "a note", "a list"),
            ("notes", [3], "a text of at most 65536 characters"),
            ("delta", [1.0], "array"),
            ("kind", "Exception", "Explanation or SparseExplanation or PictureExplanation or SecondOrderExplanation"),
            ("method.tolerance", -1.0, "a finite number above 0"),
            ("method.lambda1", 1, "1.0"),
            ("method.c1", "10.00L", "'10L'"),
        ],
    )
    def test_limits(self, place: str, value: Any, may_be: str, tmp_path: Path) -> None:
        path = with_value(tmp_path / "e.npz", "caso", place, value)
        message = refusal(path)
        assert message.startswith(f"{path} is no explanation saved by secondsight (")
        assert (
            f"{place.removeprefix('method.')} must be {may_be}, not " in message
            or f"{place}.0 must be {may_be}" in message
        )

    def test_the_whole_message(self, tmp_path: Path) -> None:
        path = with_value(tmp_path / "e.npz", "caso", "probability", "x")
        why = "probability must be a number from 0 to 1, not 'x'"
        assert refusal(path) == f"{path} is no explanation saved by secondsight ({why})"

    @pytest.mark.parametrize("case", EVERY_KIND)
    def test_every_array(self, case: str, tmp_path: Path) -> None:
        _, arrays = content_of(case)
        for name in telling(list(arrays)):
            array = arrays[name]
            wrong = [
                None,
                array.astype(np.float16),
                array.astype(np.complex64),
                array.astype(str),
                array.astype(object),
                np.array(array.flat[0]),
                array[:0],
                array[..., :-1],
                array[None],
                np.concatenate([array, array]),
            ]
            if name != "method.groups":
                wrong += [array.astype(np.int32), array.astype(np.uint8)]
            for i, other in enumerate(wrong):
                message = refusal(changed(tmp_path / "e.npz", case, **{name: other}))
                # Where the shape of the input is wrong, the next array is the one that does not fit.
                assert name.removeprefix("method.") in message or (name == "input" and i >= 5), (name, i, message)

    @pytest.mark.parametrize("case", EVERY_KIND)
    def test_arrays_of_different_kinds_swapped(self, case: str, tmp_path: Path) -> None:
        _, arrays = content_of(case)
        names = telling(list(arrays))
        for a in names:
            for b in names:
                if (arrays[a].dtype, arrays[a].shape) != (arrays[b].dtype, arrays[b].shape):
                    refusal(changed(tmp_path / "e.npz", case, **{a: arrays[b], b: arrays[a]}))

    def test_precisions_do_not_mix(self, tmp_path: Path) -> None:
        _, arrays = content_of("caso")
        assert "gradient" in refusal(changed(tmp_path / "e.npz", gradient=arrays["gradient"].astype(np.float64)))
        _, arrays = content_of("indefinite, float64")
        everything = {
            name: a.astype(np.float32) for name, a in arrays.items() if a.dtype == np.float64 and name != "input"
        }
        assert "delta" in refusal(changed(tmp_path / "e.npz", "indefinite, float64", **everything))

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_an_input_that_is_not_finite(self, value: float, tmp_path: Path) -> None:
        _, arrays = content_of("caso")
        arrays["input"].flat[3] = value
        assert "input must be finite" in refusal(changed(tmp_path / "e.npz", input=arrays["input"]))

    @pytest.mark.parametrize("label", [-1, 10**12, 7])
    def test_labels_of_groups(self, label: int, tmp_path: Path) -> None:
        _, arrays = content_of("groups as an array")
        arrays["groups"].flat[3] = label
        assert "groups must be" in refusal(changed(tmp_path / "e.npz", "groups as an array", groups=arrays["groups"]))

    @pytest.mark.parametrize(("old", "new"), [(0, 0), (0, -1), (0, 10**12), (4, 5)])
    def test_labels_of_superpixels(self, old: int, new: int, tmp_path: Path) -> None:
        record, arrays = content_of("groups as an array")
        record["method"]["groups"] = "superpixels"
        del arrays["method.groups"]
        arrays["groups"][arrays["groups"] == old] = new
        path = written(tmp_path / "e.npz", record, arrays)
        if old == new:
            assert int(ss.Explanation.load(path).groups.max()) > 4
        else:
            assert "groups must be whole numbers from 0 on" in refusal(path)

    @pytest.mark.parametrize("odd", ["\x1b[31m", "\ud800", "\r", "x" * 10_000])
    def test_messages_can_be_printed(self, odd: str, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        record, arrays = content_of("caso")
        for place, value in places(record):
            if isinstance(value, (dict, str)):
                other = value | {odd: 1} if isinstance(value, dict) else odd
                message = loaded_or_refusal(with_value(path, "caso", place, other))
                assert not isinstance(message, str) or (message.isprintable() and len(message) < 1000)
        if odd.isascii():
            assert refusal(written(path, record, arrays | {odd[:100]: np.zeros(3)})).isprintable()

    def test_contradictions(self, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        _, arrays = content_of("caso")
        masks = {name: np.ones_like(arrays[name]) for name in arrays if "support" in name}
        assert "overlap" in refusal(changed(path, **masks))
        assert "lambda1 must be that of a point" in refusal(with_value(path, "caso", "lambda1", 123.0))
        assert "smoothing must be" in refusal(
            with_value(path, "caso", "smoothing", {"copies": 3, "standard_error": None})
        )
        assert "window_norms must be" in refusal(with_value(path, "caso", "method.groups", "window:2"))
        assert "groups must be those" in refusal(with_value(path, "caso", "method.groups", "pixel"))
        assert "groups must be" in refusal(with_value(path, "caso", "method.groups", "window:80"))
        assert "method" in refusal(with_value(path, "caso", "method", content_of("cafo")[0]["method"]))

    def test_truths_are_zero_or_one(self, tmp_path: Path) -> None:
        record, arrays = content_of("caso")
        name = next(name for name in arrays if "zero" in name)
        arrays[name] = np.full(SHAPE, 7, dtype=np.uint8).view(np.bool_)
        assert name in refusal(written(tmp_path / "e.npz", record, arrays))

    @pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_numbers_that_json_does_not_have(self, token: str, tmp_path: Path) -> None:
        record, arrays = content_of("caso")
        record["certificate"]["gap"] = "HERE"
        text = json.dumps(record).replace('"HERE"', token)
        np.savez(tmp_path / "e.npz", record=np.array(text), **arrays)
        refusal(tmp_path / "e.npz")


@dataclass(frozen=True)
class Inner:
    choice: Literal["a", "b"]
    flag: bool
    mask: Tensor | None


@dataclass(frozen=True, eq=False, kw_only=True)
class NewKind(ss.Explanation):
    extra: tuple[Inner, ...]
    count: int


class TestNewFields:
    """A new field of a result is stored and checked without a second edit."""

    def made(self) -> NewKind:
        e = made("gradient")
        values = {one.name: getattr(e, one.name) for one in fields(e)}
        return NewKind(**values, extra=(Inner("a", True, None), Inner("b", False, torch.ones(SHAPE))), count=3)

    def test_round_trip(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(storage.KINDS, "NewKind", NewKind)
        assert same(again(self.made(), tmp_path / "e.npz"), self.made())

    @pytest.mark.parametrize(
        "wrong",
        [{"count": 1.5}, {"extra": (Inner("c", True, None),)}, {"extra": (Inner("a", 1, None),)}, {"label": Path()}],  # type: ignore[arg-type]
    )
    def test_what_cannot_be_read_is_not_written(
        self, wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(storage.KINDS, "NewKind", NewKind)
        (name,) = wrong
        with pytest.raises(ss.InputError, match=name):
            replace(self.made(), **wrong).save(tmp_path / "e.npz")
        assert not list(tmp_path.iterdir())

    def test_an_unknown_class(self, tmp_path: Path) -> None:
        with pytest.raises(ss.InputError, match="kind must be"):
            self.made().save(tmp_path / "e.npz")


class TestLoadRefuses:
    def test_missing(self, tmp_path: Path) -> None:
        assert "does not exist" in refusal(tmp_path / "none.npz")

    def test_directory(self, tmp_path: Path) -> None:
        refusal(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"plain text\n", b"PK\x03\x04 no zip", b"\x93NUMPY", b"\x80\x04K\x01."])
    def test_no_npz(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "e.npz"
        path.write_bytes(content)
        refusal(path)

    def test_one_array(self, tmp_path: Path) -> None:
        np.save(tmp_path / "e.npy", np.zeros(3))
        refusal(tmp_path / "e.npy")

    @pytest.mark.parametrize("text", ["no json", "[1, 2]", "3", "{}", "null", "[" * 100_000, ""])
    def test_other_record(self, tmp_path: Path, text: str) -> None:
        refusal(changed(tmp_path / "e.npz", record=np.array(text)))

    @pytest.mark.parametrize(
        "record", [np.zeros(3), np.array(3.0), np.full(9, 0xFFFFFFFF, np.uint32).view("<U9"), None]
    )
    def test_a_record_that_is_no_text(self, tmp_path: Path, record: Any) -> None:
        refusal(changed(tmp_path / "e.npz", record=record))

    @pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1, 99, "2.0", None])
    def test_other_format(self, tmp_path: Path, version: Any) -> None:
        message = refusal(with_value(tmp_path / "e.npz", "caso", "format", version))
        assert message == f"{tmp_path / 'e.npz'} has format {version}; this version reads format {FORMAT}"

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        sprung = tmp_path / "sprung"
        refusal(changed(tmp_path / "e.npz", record=np.array(Trap(sprung), dtype=object)))
        refusal(changed(tmp_path / "e.npz", delta=np.array(Trap(sprung), dtype=object)))
        assert not sprung.exists()

    def test_encrypted(self, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        explained().save(path)
        content = bytearray(path.read_bytes())
        # Bit 0 of the flags says so, in each header and in the directory.
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                content[entry.header_offset + 6] |= 1
        start = content.find(b"PK\x01\x02")
        while start >= 0:
            content[start + 8] |= 1
            start = content.find(b"PK\x01\x02", start + 4)
        path.write_bytes(content)
        refusal(path)

    @pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_other_compressions(self, tmp_path: Path, compression: int) -> None:
        path = tmp_path / "e.npz"
        repacked(path, entries_of(made("caso")), compression)
        assert "compressed" in refusal(path)

    def test_two_arrays_of_one_name(self, tmp_path: Path) -> None:
        entries = entries_of(made("caso"))
        repacked(tmp_path / "e.npz", entries | {"delta": entries["delta.npy"]})
        assert "same name" in refusal(tmp_path / "e.npz")


def entries_of(e: ss.Explanation) -> dict[str, bytes]:
    """The entries of a result's archive."""
    file = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "write_whole", lambda path, write: write(file))
        e.save("e.npz")
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(file: Path | IO[bytes], entries: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def claim(path: Path, name: str, size: int) -> None:
    """Write another size of an entry into the list of contents, which is what zipfile believes."""
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    while content[entry + 46 : entry + 46 + len(name)] != name.encode():
        entry = content.index(b"PK\x01\x02", entry + 4)
    content[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    path.write_bytes(content)


def peak_of_loading(path: Path) -> int:
    """The most bytes that Python and numpy held while a file was refused."""
    tracemalloc.start()
    try:
        refusal(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestMemory:
    """Files may claim what they like: what is refused takes no memory to speak of."""

    MOST = 2**25

    def test_an_archive_that_unpacks_to_more(self, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        repacked(path, entries_of(made("caso")))
        claim(path, "delta.npy", 2**30)
        assert peak_of_loading(path) < self.MOST
        assert "unpacks to" in refusal(path)

    @pytest.mark.parametrize(
        "shape", ["(1099511627776,)", "(4294967296, 4294967296)", "(0, 99999999999999999999)", "(-3, 6, 8)"]
    )
    def test_a_header_that_claims_more(self, tmp_path: Path, shape: str) -> None:
        entries = entries_of(made("caso"))
        old = entries["delta.npy"]
        assert b"(3, 6, 8)" in old[:128]
        header = old[10:128].replace(b"(3, 6, 8)", shape.encode()).rstrip().ljust(117) + b"\n"
        repacked(tmp_path / "e.npz", entries | {"delta.npy": old[:10] + header + old[128:]})
        assert peak_of_loading(tmp_path / "e.npz") < self.MOST

    def test_a_record_of_many_objects(self, tmp_path: Path) -> None:
        text = "[" + "[]," * (2**24 // 3) + "[]]"
        np.savez(tmp_path / "e.npz", record=np.array(text))
        assert peak_of_loading(tmp_path / "e.npz") < self.MOST

    def test_an_entry_longer_than_it_claims(self, tmp_path: Path) -> None:
        path, file = tmp_path / "e.npz", io.BytesIO()
        np.save(file, np.zeros(5000))
        repacked(path, entries_of(made("caso")) | {"delta.npy": file.getvalue() + bytes(2**26)})
        claim(path, "delta.npy", len(file.getvalue()))
        assert peak_of_loading(path) < self.MOST

    def test_an_entry_shorter_than_it_claims(self, tmp_path: Path) -> None:
        path, entries = tmp_path / "e.npz", entries_of(made("caso"))
        repacked(path, entries | {"delta.npy": entries["delta.npy"][:129]})
        claim(path, "delta.npy", len(entries["delta.npy"]))
        assert "EOF: reading array data" in refusal(path)

    def test_an_array_is_held_once(self, tmp_path: Path) -> None:
        path = changed(tmp_path / "e.npz", delta=np.zeros(2**22))
        assert 2**25 < peak_of_loading(path) < 1.2 * 2**25

    def test_a_list_of_contents_without_end(self, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        contents = (b"PK\1\2" + bytes(42)) * 2**18
        path.write_bytes(contents + b"PK\5\6" + bytes(8) + struct.pack("<I", len(contents)) + bytes(6))
        assert peak_of_loading(path) < self.MOST
        # The same, where the extension for large archives has the size.
        large = b"PK\6\6" + struct.pack("<Q", 44) + bytes(28) + struct.pack("<QQ", len(contents), 0)
        locator = b"PK\6\7" + bytes(4) + struct.pack("<QI", len(contents), 1)
        path.write_bytes(contents + large + locator + b"PK\5\6" + bytes(18))
        assert peak_of_loading(path) < self.MOST

    def test_what_is_too_large_to_be_read_is_not_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(storage, "MOST_BYTES", 10_000)
        with pytest.raises(ss.InputError, match="at most 10,000 bytes"):
            made("caso").save(tmp_path / "e.npz")
        assert not list(tmp_path.iterdir())


def mutated(whole: bytes, entries: dict[str, bytes], generator: np.random.Generator) -> bytes:
    """A file with some damage: to its bytes, to its entries, or to the record."""
    kind = generator.integers(6)
    if kind == 0:
        return whole[: generator.integers(len(whole))]
    if kind == 1:
        damaged = bytearray(whole)
        for place in generator.integers(len(whole), size=generator.choice([1, 3, 20])):
            damaged[place] = generator.integers(256)
        return bytes(damaged)
    entries = dict(entries)
    a, b = generator.choice(sorted(entries), 2, replace=False)
    if kind == 2:
        entries[a], entries[b] = entries[b], entries[a]
    elif kind == 3:
        entries[str(generator.choice(["x.npy", "delta", "../e.npy", "\x1b[31m.npy", b]))] = entries.pop(a)
    elif kind == 4:
        # Damage that the check sums do not show, often in the header.
        damaged = bytearray(entries[a])
        for place in generator.integers(generator.choice([128, len(damaged)]), size=generator.choice([1, 3])):
            damaged[place] = generator.integers(256)
        entries[a] = bytes(damaged[: generator.integers(len(damaged))]) if generator.random() < 0.2 else bytes(damaged)
    else:
        entries["record.npy"] = damaged_record(entries["record.npy"], generator)
    file = io.BytesIO()
    repacked(file, entries)
    return file.getvalue()


ODD: list[Any] = [
    None,
    True,
    "",
    "inf",
    "nan",
    "array",
    -1,
    0,
    0.5,
    2**70,
    1e308,
    [],
    {},
    [[1]],
    {"note": "a", "kind": "b"},
]


def damaged_record(content: bytes, generator: np.random.Generator) -> bytes:
    """The array of a record, with other values here and there."""
    record = json.loads(str(np.load(io.BytesIO(content))))
    for _ in range(generator.choice([1, 1, 3])):
        inside, (place, _) = record, _any_of(list(places(record)), generator)
        *outer, last = place.split(".")
        for key in outer:
            inside = inside[int(key)] if isinstance(inside, list) else inside[key]
        other = _any_of([*ODD, *(value for _, value in places(record))], generator)
        inside[int(last) if isinstance(inside, list) else last] = copy.deepcopy(other)
    file = io.BytesIO()
    np.save(file, np.array(json.dumps(record)))
    return file.getvalue()


def _any_of(values: list[Any], generator: np.random.Generator) -> Any:
    return values[generator.integers(len(values))]


def loaded_or_refusal(path: Path) -> ss.Explanation | str:
    try:
        return ss.Explanation.load(path)
    except ss.SecondsightError as error:
        return str(error)


def fuzz(count: int, path: Path, seed: int = 0) -> None:
    """Load damaged files: a result that can be used, or one clear error, and little memory."""
    generator = np.random.default_rng(seed)
    files = []
    for case in EVERY_KIND:
        made(case).save(path)
        files.append((path.read_bytes(), entries_of(made(case))))
    refused = 0
    tracemalloc.start()
    try:
        for trial in range(count):
            path.write_bytes(mutated(*files[trial % len(files)], generator))
            loaded = loaded_or_refusal(path)
            if isinstance(loaded, str):
                refused += 1
                assert loaded.startswith(str(path))
                assert loaded.isprintable()
                assert len(loaded) < 1000
            else:
                json.dumps(loaded.summary(), allow_nan=False)
                assert loaded.map("entries").shape == loaded.input.shape[1:]
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()
    assert count / 2 < refused < count


class TestDamaged:
    def test_some(self, tmp_path: Path) -> None:
        fuzz(150, tmp_path / "e.npz")

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(1, 6))
    def test_many(self, tmp_path: Path, seed: int) -> None:
        fuzz(1000, tmp_path / "e.npz", seed)


class DuringWriteError(Exception):
    """Raised half-way through a file."""


def half_then(error: BaseException) -> Callable[[IO[bytes]], None]:
    def write(file: IO[bytes]) -> None:
        file.write(b"half")
        file.flush()
        raise error

    return write


class TestSaveRefuses:
    @pytest.mark.parametrize("name", ["e.jpg", "e.pdf", "e", "e.npz.txt", "png"])
    def test_other_suffix(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ss.InputError, match=r"\.png, \.html or \.npz"):
            explained().save(tmp_path / name)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("suffix", ["png", "npz"])
    def test_file_in_place_of_the_directory(self, tmp_path: Path, suffix: str) -> None:
        (tmp_path / "file").write_text("old")
        path = tmp_path / "file" / f"e.{suffix}"
        with pytest.raises(ss.SecondsightError, match="cannot be written") as caught:
            explained().save(path)
        assert str(path) in str(caught.value)
        assert (tmp_path / "file").read_text() == "old"

    @pytest.mark.parametrize("suffix", ["png", "npz"])
    def test_directory_in_place_of_the_file(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"e.{suffix}"
        path.mkdir()
        with pytest.raises(ss.SecondsightError, match="cannot be written"):
            explained().save(path)
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="may write everywhere")
    def test_directory_without_the_right_to_write(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(ss.SecondsightError, match="cannot be written: Permission denied"):
            explained().save(tmp_path / "e.npz")


class TestWriteWhole:
    @pytest.mark.parametrize("error", [DuringWriteError(), KeyboardInterrupt(), MemoryError()])
    def test_the_old_file_survives_an_error(self, tmp_path: Path, error: BaseException) -> None:
        path = tmp_path / "file"
        path.write_text("old")
        with pytest.raises(type(error)):
            write_whole(path, half_then(error))
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(
        "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("No space left on device")]
    )
    def test_a_full_disk(self, tmp_path: Path, error: OSError) -> None:
        path = tmp_path / "file"
        path.write_text("old")
        with pytest.raises(ss.SecondsightError, match="file cannot be written: No space left on device"):
            write_whole(path, half_then(error))
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_directory_that_disappears(self, tmp_path: Path) -> None:
        directory = tmp_path / "gone"
        with pytest.raises(ss.SecondsightError, match="cannot be written"):
            write_whole(directory / "file", lambda file: shutil.rmtree(directory))
        assert not list(tmp_path.iterdir())

    def test_the_old_file_is_there_until_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("old")

        def write(file: IO[bytes]) -> None:
            file.write(b"new")
            file.flush()
            assert path.read_text() == "old"

        write_whole(path, write)
        assert path.read_text() == "new"
        assert list(tmp_path.iterdir()) == [path]

    def test_others_may_read_as_the_umask_says(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_whole(tmp_path / "file", lambda file: file.write(b"new"))
        finally:
            os.umask(before)
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
