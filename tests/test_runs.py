"""Runs over datasets: the store, what comes back, and what the lists may be. tests/test_run_faults.py breaks them."""

from __future__ import annotations

import copy
import csv
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import secondsight as ss
from cases import CURVED, PIECEWISE_LINEAR
from secondsight.results.record_schema import RecordWriter
from secondsight.runs.items import Files
from secondsight.runs.run_settings import fingerprint

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

CONV = PIECEWISE_LINEAR[3]
SIDE = 8
METHODS = [
    "caso",
    "cafo(groups=patch:3)",
    "picture(groups=window:3,n=4)",
    "smooth-caso(n=4)",
    "gradient",
    "smoothgrad(n=2)",
]


def network(seed: int = 3, **options: Any) -> ss.Classifier:
    """A small network of pictures in float32."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 4),
    )
    labels = ["ape", "bee", "cat", "7"]
    return ss.Classifier(net, mean=[0.5] * 3, std=[0.2] * 3, size=SIDE, labels=labels, name="tiny", **options)


def picture(path: Path, seed: int, side: int = 12) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def pictures(folder: Path, count: int) -> list[Path]:
    return [picture(folder / f"{i:04d}.png", i) for i in range(count)]


def rows(run: ss.StoredRun) -> list[dict[str, Any]]:
    """Everything in the files of a run but the time it took, in the order of the list."""
    table = pa.concat_tables([pa.parquet.read_table(file) for file in sorted((run.path / "maps").glob("*.parquet"))])
    found = table.drop_columns(["seconds"]).to_pylist()
    for row in found:
        record = json.loads(row["record"]) if row["record"] is not None else {}
        row["record"] = {name: value for name, value in record.items() if name != "seconds"}
    return found


def same(a: Any, b: Any) -> None:
    """Two results are equal in all of their fields but the time."""
    assert type(a) is type(b)
    for one in fields(a):
        if one.name != "seconds":
            first, second = RecordWriter(), RecordWriter()
            assert first.record(getattr(a, one.name)) == second.record(getattr(b, one.name)), one.name
            assert first.arrays.keys() == second.arrays.keys()
            for name, array in first.arrays.items():
                assert array.dtype == second.arrays[name].dtype, one.name
                np.testing.assert_array_equal(array, second.arrays[name], err_msg=one.name)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_stored_comes_back_as_explain_gave_it(tmp_path: Path, method: str) -> None:
    """With the path a result is whole: every field equals that of explain on the same list, to the last bit."""
    model, files = network(), pictures(tmp_path / "in", 5)
    run = ss.run(model, tmp_path / "in", method, out=tmp_path / "run", seed=4, store_path=True)
    expected: list[Any] = ss.explain(model, list(files), method, seed=4)
    assert len(run) == len(files)
    for e, right in zip(run, expected, strict=True):
        same(e, right)
    assert run.ids == [file.name for file in files]
    assert run.is_complete
    whole = tmp_path / "e.npz"
    run[2].save(whole)
    same(ss.Explanation.load(whole), expected[2])


@pytest.mark.parametrize("method", METHODS)
def test_without_the_path_a_result_says_what_it_lacks(tmp_path: Path, method: str) -> None:
    model, files = network(), pictures(tmp_path / "in", 3)
    run = ss.run(model, tmp_path / "in", method, out=tmp_path / "run")
    e, right = run[1], ss.explain(model, list(files), method)[1]
    torch.testing.assert_close(e.delta, right.delta, rtol=0, atol=0)
    torch.testing.assert_close(e.input, right.input, rtol=0, atol=0)
    np.testing.assert_array_equal(e.map(), right.map())
    if isinstance(e, ss.SparseExplanation):
        assert isinstance(right, ss.SparseExplanation)
        assert (e.certificate.relative_gap, e.certificate.holds) == (right.certificate.relative_gap, True)
        assert torch.equal(e.certificate.support.zero, right.certificate.support.zero)
        for name in ("path", "gradient"):
            with pytest.raises(ss.NotStoredError, match=f"{name} is not in the run: only a run with --path"):
                getattr(e, name)
    known = right.summary()
    assert {k: v for k, v in e.summary().items() if k != "seconds"} == {
        k: v for k, v in known.items() if k != "seconds"
    }
    e.save(tmp_path / "e.png")
    e.save(tmp_path / "e.npz")
    again = ss.Explanation.load(tmp_path / "e.npz")
    assert torch.equal(again.delta, e.delta)
    assert hasattr(again, "path") == hasattr(e, "path")


def test_the_input_is_read_again_only_if_it_is_the_same(tmp_path: Path) -> None:
    files = pictures(tmp_path / "in", 3)
    run = ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "run")
    before = run[0], run[1]
    picture(files[1], 99)
    files[2].unlink()
    assert before[0].input.shape == (3, SIDE, SIDE)
    with pytest.raises(ss.NotStoredError, match="has changed since it was explained"):
        _ = before[1].input
    with pytest.raises(ss.NotStoredError, match=r"cannot be read again: .*0002.png"):
        _ = run[2].input
    assert not hasattr(run[2], "input")
    # The map is still there, and can be drawn and saved.
    run[2].save(tmp_path / "e.png")
    run[2].save(tmp_path / "e.npz")
    with pytest.raises(ss.NotStoredError, match="cannot be read again"):
        _ = ss.Explanation.load(tmp_path / "e.npz").input


def test_float64_maps_are_kept_in_float32_with_a_scale(tmp_path: Path) -> None:
    """Also those that float32 has no numbers for."""
    model = ss.Classifier(copy.deepcopy(CONV.net), input_shape=CONV.x.shape)
    with torch.no_grad():
        model.net[-1].weight.mul_(1e-60)
    x = list(torch.rand((3, *CONV.x.shape), dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    run = ss.run(model, x, ss.CASO(lambda2=1.0), out=tmp_path / "run", store_path=True)
    for e, right in zip(run, ss.explain(model, x, ss.CASO(lambda2=1.0)), strict=True):
        assert 0 < right.delta.abs().max() < 1e-50
        assert e.delta.dtype == torch.float64
        torch.testing.assert_close(e.delta, right.delta, rtol=1e-7, atol=0)
        torch.testing.assert_close(e.path[-1].delta, right.path[-1].delta, rtol=1e-7, atol=0)
        torch.testing.assert_close(e.gradient, right.gradient, rtol=1e-7, atol=0)


def test_items_without_files(tmp_path: Path) -> None:
    """Tensors come back from the list, if it is given; from other lists they do not."""
    model, x = CURVED[0].classifier(), list(torch.rand(5, 10, dtype=torch.float64))
    run = ss.run(model, x, "caso", out=tmp_path / "run", chunk=2)
    assert torch.equal(run[3].input, x[3])
    assert run.ids == ["0", "1", "2", "3", "4"]
    with pytest.raises(ss.NotStoredError, match=r"give the items to open_run\(RUN, items=...\)"):
        _ = ss.open_run(tmp_path / "run")[3].input
    assert torch.equal(ss.open_run(tmp_path / "run", x)[3].input, x[3])
    with pytest.raises(ss.NotStoredError, match="the item has changed"):
        _ = ss.open_run(tmp_path / "run", x[::-1])[3].input
    with pytest.raises(ss.InputError, match="items must be the 5 items of the run, not 4"):
        ss.open_run(tmp_path / "run", x[1:])


class Labelled(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """A Dataset of which one item cannot be had."""

    def __init__(self, count: int, broken: Sequence[int] = ()) -> None:
        self.count, self.broken = count, broken

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if i in self.broken:
            raise KeyError(f"no item {i}")
        return torch.rand((3, SIDE, SIDE), generator=torch.Generator().manual_seed(i)), i % 4


def test_a_dataset_with_and_without_its_labels(tmp_path: Path) -> None:
    model, data = network(), Labelled(6, broken=[4])
    labelled = ss.run(model, data, "cafo", out=tmp_path / "labels", use_labels=True, chunk=4)
    assert labelled.table(["target"])["target"].to_pylist() == [0, 1, 2, 3, 1]
    assert [error["error"] for error in labelled.errors.to_pylist()] == ["KeyError: 'no item 4'"]
    predicted = ss.run(model, data, "cafo", out=tmp_path / "predicted", chunk=4)
    table = predicted.table(["target", "prediction"])
    assert table["target"] == table["prediction"]
    assert table["prediction"] == labelled.table(["prediction"])["prediction"]
    assert torch.equal(labelled[1].input, data[1][0])


def test_a_table_a_condition_and_an_id(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 9)
    (tmp_path / "in/0004.png").write_bytes(b"no picture")
    run = ss.run(network(), tmp_path / "in", "caso", out=tmp_path / "run", chunk=4)
    table = run.table()
    assert len(table) == len(run) == 8
    assert "map_values" not in table.column_names
    angles = table["second_order_angle"].to_pylist()
    some = run.where(pc.field("second_order_angle") > sorted(angles)[5])
    assert len(some) == 2
    assert [e.second_order.angle for e in some] == [angle for angle in angles if angle > sorted(angles)[5]]
    assert len(some.where(pc.field("position") < 0)) == 0
    assert torch.equal(run.by_id("0005.png").delta, run[4].delta)
    assert [name for name, _ in run.named()] == run.ids
    assert torch.equal(run[-1].delta, run[5:][-1].delta)
    with pytest.raises(ss.SecondsightError, match=r"no map of '0004.png': .*0004.png is not an image"):
        run.by_id("0004.png")
    with pytest.raises(ss.InputError, match="columns must be a list of some of position"):
        run.table(["colour"])
    with pytest.raises(ss.InputError, match="condition must be an expression"):
        run.where("sparsity > 0.9")
    with pytest.raises(IndexError):
        _ = run[8]
    assert "8 maps of 9 items" in repr(run)


def test_each_item_of_odd_lists_is_there_once(tmp_path: Path) -> None:
    """A duplicate, a missing file, a name with a newline, a name that is no text, a folder, an empty file."""
    folder = tmp_path / "in"
    names = ["a.png", "two\nlines.png", b"\xff.png".decode("utf-8", "surrogateescape"), 'quote".png']
    for number, name in enumerate(names):
        picture(folder / name, number)
    (folder / "empty.png").touch()
    (folder / "folder.png").mkdir()
    paths = [folder / name for name in [*names, "a.png", "missing.png", "empty.png", "folder.png", "a.png"]]
    run = ss.run(network(), paths, "cafo", out=tmp_path / "run", chunk=2)
    assert len(run) == 6
    found = rows(run)
    assert [row["position"] for row in found] == list(range(9))
    assert len({row["id"] for row in found}) == 9
    assert [row["id"].removeprefix(str(folder)) for row in found if row["id"].startswith(str(paths[0]))] == [
        "/a.png",
        "/a.png#2",
        "/a.png#3",
    ]
    reasons = [row["error"].rpartition(".png ")[2] for row in found if row["error"]]
    assert [reason.split(":")[0] for reason in reasons] == [
        "does not exist",
        "is not an image of a format that is opened",
        "is not a file",
    ]
    assert torch.equal(run[0].delta, run[4].delta)
    assert run.by_id(str(folder / "two\nlines.png")).input.shape == (3, SIDE, SIDE)


def archive(path: Path, count: int) -> Path:
    with tarfile.open(path, "w") as tar:
        for i in range(count):
            image = io.BytesIO()
            Image.fromarray(np.random.default_rng(i).integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(image, "PNG")
            for ending, data in (("png", image.getvalue()), ("cls", f"{i % 3}\n".encode()), ("json", b"{}")):
                info = tarfile.TarInfo(f"sub.dir/{i:03d}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def test_lists_in_files_and_archives_give_what_the_folder_gives(tmp_path: Path) -> None:
    model, files = network(), pictures(tmp_path / "in", 4)
    expected = [row["map_values"] for row in rows(ss.run(model, tmp_path / "in", "cafo", out=tmp_path / "folder"))]
    targets = ["cat", "", "7", "1"]
    (tmp_path / "in/list.txt").write_text("\n".join(file.name for file in files) + "\n\n")
    (tmp_path / "in/zeros.lst").write_bytes(b"\0".join(file.name.encode() for file in files) + b"\0")
    with (tmp_path / "in/list.csv").open("w", newline="") as opened:
        csv.writer(opened).writerows([["path", "target"], *zip((file.name for file in files), targets, strict=True)])
    columns = {"path": [str(file) for file in files], "target": [2.0, float("nan"), 3.0, 1.0]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "list.parquet")
    archive(tmp_path / "shard.tar", 4)
    sources = [
        tmp_path / "in/list.txt",
        tmp_path / "in/zeros.lst",
        f"{tmp_path}/in/*.png",
        tmp_path / "shard.tar",
        list(files),
    ]
    for number, source in enumerate(sources):
        run = ss.run(model, source, "cafo", out=tmp_path / f"run{number}")
        assert [row["map_values"] for row in rows(run)] == expected, source
        assert torch.equal(run[3].input, model.read(files[3]).values)
    for source in (tmp_path / "in/list.csv", tmp_path / "list.parquet"):
        run = ss.run(model, source, "cafo", out=tmp_path / source.suffix[1:])
        found = run.table(["target", "prediction", "label"]).to_pylist()
        assert [row["target"] for row in found] == [2, found[1]["prediction"], 3, 1]
        assert [found[i]["label"] for i in (0, 2, 3)] == ["cat", "7", "bee"]
    run = ss.run(model, f"{tmp_path}/*.tar", "cafo", out=tmp_path / "labels", use_labels=True)
    assert run.table(["target"])["target"].to_pylist() == [0, 1, 2, 0]
    assert run.ids[1] == "shard.tar/sub.dir/001.png"
    where = run.table(["path"])["path"].to_pylist()[1]
    assert where == f"tar://sub.dir/001.png::{tmp_path / 'shard.tar'}"
    assert torch.equal(ss.open_run(run.path)[1].input, run[1].input)


def test_a_folder_is_taken_with_all_below_it(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/10.JPG", "a.png", "c/d/e.webp", ".hidden/no.png", "b/._2.png"):
        picture(tmp_path / "in" / name, 0)
    (tmp_path / "in/notes.txt").write_text("no picture")
    run = ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "run")
    assert run.ids == ["a.png", "b/10.JPG", "b/2.png", "c/d/e.webp"]
    assert len(ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "two", limit=2)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "caso(c1=2)"}, r"method was caso\(c1=10.0\), is caso\(c1=2.0\)"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"target": "cat"}, "the list of items or of their classes is another one"),
        ({"limit": 2}, "items was 3, is 2; the list of items or of their classes is another one"),
        ({"chunk": 3}, "chunk was 2, is 3"),
        ({"store_path": True}, "store_path was False, is True"),
        ({"model": network(seed=4)}, "weights was "),
        ({"model": network(value_range=(0, 4095))}, r"value_range was None, is \[0.0, 4095.0\]"),
    ],
)
def test_another_start_is_refused_and_told_the_difference(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    pictures(tmp_path / "in", 3)
    asked = {"model": network(), "items": tmp_path / "in", "method": "caso", "out": tmp_path / "run", "chunk": 2}
    before = rows(ss.run(**asked))
    with pytest.raises(ss.SecondsightError, match=f"was begun with other settings: {message}"):
        ss.run(**(asked | change))
    assert rows(ss.run(**asked)) == before
    picture(tmp_path / "in/0003.png", 3)
    with pytest.raises(
        ss.SecondsightError, match="items was 3, is 4; the list of items or of their classes is another one"
    ):
        ss.run(**asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": "nowhere"}, "nowhere does not exist, and matches no file as a glob: INPUT must be a folder"),
        ({"items": []}, "items must be at least one, not none"),
        ({"items": 7}, "items must be a path, a list of inputs, or a Dataset"),
        ({"items": "empty"}, "INPUT must be a folder with files .jpg"),
        ({"items": "list.csv"}, r"a list with a column path, and perhaps a column target, not one of \['file'\]"),
        ({"items": "bad.parquet"}, "bad.parquet cannot be read as a list"),
        ({"items": "bad.tar"}, "bad.tar is no uncompressed tar"),
        ({"items": "notes.doc"}, "INPUT must be a folder, a glob, a list"),
        ({"target": ["cat"]}, r"target must be one class, or a list of 2, not a list of 1"),
        ({"use_labels": True}, "use_labels must be set only for archives and Datasets"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1"),
        ({"limit": 0}, "limit must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"engine": "spark"}, "engine must be one of local, ray, not 'spark'"),
        ({"method": "casso"}, "did you mean caso"),
        ({"out": "in"}, "--out must be a new folder, or that of a run, not in, which has other files"),
        ({"out": "notes.doc/run"}, "--out notes.doc/run cannot be used"),
        ({"model": torch.nn.Identity()}, "model must be a Classifier"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "in", 2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.csv").write_text("file\na.png\n")
    for name in ("bad.parquet", "bad.tar", "notes.doc"):
        (tmp_path / name).write_bytes(b"no such thing" * 100)
    before = sorted(Path().rglob("*"))
    with pytest.raises(ss.SecondsightError, match=message):
        ss.run(**({"model": network(), "items": "in", "method": "cafo", "out": "run"} | change))
    assert sorted(Path().rglob("*")) == before


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ss.SecondsightError, match=r"is no run: it has no run.json"):
        ss.open_run(tmp_path)
    for text, message in (
        ("{", "run.json cannot be read"),
        ('{"format": 99}', "format 99; this version reads format 1"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(ss.SecondsightError, match=message):
            ss.open_run(tmp_path)


def test_a_dense_array_has_every_map(tmp_path: Path) -> None:
    """Also after it was cut short, and NaN for an item without a map. The last shard is not full."""
    zarr = pytest.importorskip("zarr")
    files = pictures(tmp_path / "in", 7)
    files[4].write_bytes(b"no picture")
    asked: dict[str, Any] = {"items": tmp_path / "in", "method": "caso", "out": tmp_path / "run", "chunk": 3}

    def interrupt(standing: ss.Standing) -> None:
        if standing.done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.run(network(), dense="zarr", progress=interrupt, **asked)
    run = ss.run(network(), dense="zarr", **asked)
    array = zarr.open_array(tmp_path / "run/dense.zarr", mode="r")
    assert (array.metadata.zarr_format, array.shape, array.shards) == (3, (7, 3, SIDE, SIDE), (3, 3, SIDE, SIDE))
    assert len(list((tmp_path / "run/dense.zarr/c").iterdir())) == 3
    for position, e in zip((0, 1, 2, 3, 5, 6), run, strict=True):
        np.testing.assert_array_equal(array[position], e.delta.numpy())
    assert np.isnan(array[4]).all()
    with pytest.raises(ss.SecondsightError, match="dense was True, is False"):
        ss.run(network(), **asked)
    any_size = ss.Classifier(torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()))
    with pytest.raises(ss.InputError, match="dense must be None for a network that takes inputs of any size"):
        ss.run(any_size, **(asked | {"out": tmp_path / "other"}), dense="zarr")
    with pytest.raises(ss.InputError, match="dense must be one of zarr, not 'npy'"):
        ss.run(any_size, **asked, dense="npy")  # type: ignore[arg-type]


def test_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from secondsight.cli import main

    monkeypatch.chdir(tmp_path)
    names = ["b/../../escape", "a", "a b\nc"]
    files = [picture(Path("in") / f"{number}.png", number) for number in range(3)]
    items = Files(files, names)
    run = ss.run(network(), items, "caso", out="run")
    stems = ["000000-escape", "000001-a", "000002-a-b-c"]
    assert main(["export", "run", "--to", "npz", "--out", "npz"]) == 0
    assert capsys.readouterr().out == "npz: maps 3\n"
    assert sorted(path.stem for path in Path("npz").iterdir()) == stems
    assert torch.equal(ss.Explanation.load(f"npz/{stems[1]}.npz").delta, run[1].delta)
    assert main(["export", "run", "--to", "png", "--out", "png"]) == 0
    assert sorted(path.name for path in Path("png").iterdir()) == [f"{stem}.png" for stem in stems]
    files[1].unlink()
    capsys.readouterr()
    assert main(["export", "run", "--to", "fiftyone", "--out", "fo"]) == 0
    assert capsys.readouterr().err == "secondsight: note: a is left out: its input cannot be read again\n"
    assert "version" not in json.loads(Path("fo/metadata.json").read_text())
    samples = json.loads(Path("fo/samples.json").read_text())["samples"]
    assert [sample["item"] for sample in samples] == [names[0], names[2]]
    for sample, e in zip(samples, (run[0], run[2]), strict=True):
        assert sample["explained"] == {"_cls": "Classification", "label": e.label, "confidence": e.probability}
        assert sample["sparsity"] == e.sparsity
        shades = np.asarray(Image.open(Path("fo") / sample["map"]["map_path"]))
        np.testing.assert_array_equal(shades, np.round(e.map() * 255))
        seen = np.asarray(Image.open(Path("fo") / sample["filepath"])).transpose(2, 0, 1)
        np.testing.assert_array_equal(seen, np.round(e.input.numpy() * 255))
    assert main(["export", "run", "--to", "npz", "--out", "npz"]) == 2
    assert "npz has files already: --overwrite writes over them" in capsys.readouterr().err
    assert main(["export", "run", "--to", "npz", "--out", "npz", "--overwrite"]) == 0
    assert main(["export", "run", "--to", "hdf5", "--out", "x"]) == 2
    assert main(["export", "in", "--to", "npz", "--out", "x"]) == 2
    assert "in is no run" in capsys.readouterr().err
    assert not Path("x").exists()


def test_a_fingerprint_is_that_of_weights_and_modules() -> None:
    assert fingerprint(network()) == fingerprint(network())
    changed = network()
    with torch.no_grad():
        changed.net[0].weight[0, 0, 0, 0] += 1e-6
    half, other = network(), network()
    other.net[1] = torch.nn.ReLU6()
    half.net.bfloat16()
    assert len({fingerprint(one) for one in (network(), changed, half, other)}) == 4
    assert fingerprint(ss.Classifier(lambda x: x[:, :2], input_shape=(4,))).startswith("unknown")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from secondsight.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ss, "load_model", lambda _: network())
    pictures(tmp_path / "in", 3)
    asked = ["batch", "in", "--out", "run", "--method", "caso", "--chunk", "2"]
    assert main([*asked, "--c1", "3"]) == 0
    assert capsys.readouterr().out == "run: maps 3, errors 0\n"
    assert ss.open_run("run").method == ss.CASO(c1=3)
    assert main(asked) == 2
    assert "method was caso(c1=3.0), is caso(c1=10.0)" in capsys.readouterr().err
    Path("in/0001.png").write_bytes(b"no picture")
    assert main([*asked[:2], "--out", "two", "--limit", "2"]) == 1
    done = capsys.readouterr()
    assert done.out == "two: maps 1, errors 1\n"
    assert "secondsight: error: in/0001.png is not an image" in done.err
    picture(Path("in/0001.png"), 1)
    assert main([*asked[:2], "--out", "two", "--limit", "2"]) == 1
    assert main([*asked[:2], "--out", "two", "--limit", "2", "--retry-errors"]) == 0
    assert capsys.readouterr().out.endswith("two: maps 2, errors 0\n")


@pytest.mark.parametrize(
    ("package", "words", "message"),
    [
        ("pyarrow", [], "runs need pyarrow: pip install 'secondsight[batch]'"),
        ("ray", ["--engine", "ray"], "engine='ray' needs Ray: pip install 'secondsight[ray]'"),
        ("zarr", ["--dense", "zarr"], "dense='zarr' needs zarr: pip install 'secondsight[batch]'"),
    ],
)
def test_a_missing_package_is_told_with_what_installs_it(
    tmp_path: Path, package: str, words: list[str], message: str
) -> None:
    picture(tmp_path / "in/a.png", 0)
    asked = ["batch", str(tmp_path / "in"), "--out", str(tmp_path / "run"), *words]
    code = f"import sys; sys.modules[{package!r}] = None; from secondsight.cli import main; sys.exit(main({asked!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"secondsight: error: {message}")
    assert list(tmp_path.glob("run/maps/*")) == []
