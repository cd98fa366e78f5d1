"""The result on disk and on screen: round trips, damaged files, half-written files, shades and figures."""

import errno
import io
import json
import math
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any

import matplotlib.colors
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
from cases import configured
from secondsight.config import method_of
from secondsight.plotting.figures import AGAINST, FOR, overlay, picture
from secondsight.plotting.shades import normalise
from secondsight.results.explanation_figure import STRIP_MAPS, telling
from secondsight.results.first_order import first_order_map
from secondsight.results.storage import FORMAT, _arrays, write_whole


def conv(channels: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    )


def pixels(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


def explained(
    shape: tuple[int, ...] = (3, 6, 8), method: str = "caso", target: Any = None, **options: Any
) -> ss.SparseExplanation:
    model = ss.Classifier(conv(shape[0]), channels=shape[0], name="small")
    e = ss.explain(model, pixels(*shape), method_of(method, **options), target)
    assert isinstance(e, ss.SparseExplanation)
    return e


def tabular(features: int = 7, **options: Any) -> ss.SecondOrderExplanation:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(features, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    model = ss.Classifier(net, input_shape=(features,), labels=["setosa", "versicolor", "virginica"])
    return ss.explain(model, pixels(features).double() * 9 - 4, ss.CASO(**options))


def all_zero() -> ss.SecondOrderExplanation:
    return ss.explain(ss.Classifier(lambda x: torch.tensor([[1.0, 2.0]]).expand(len(x), 2)), pixels(3, 6, 8))


def baseline(method: ss.Method) -> ss.Explanation:
    return ss.explain(ss.Classifier(conv(), name="small"), pixels(3, 6, 8), method)


CASES: dict[str, Callable[[], ss.Explanation]] = {
    "caso": explained,
    "cafo": lambda: explained(method="cafo"),
    "not certified": lambda: explained(max_products=1),
    "path": lambda: explained(certify="path", bound="proven", target="2"),
    "paper": lambda: explained(lambda1="paper", sparsity_range=(0.5, 0.9)),
    "dense": lambda: explained(lambda1=0.0, target=np.int64(3)),
    "indefinite, float64": tabular,
    "all zero": all_zero,
    "groups": lambda: explained(groups="patch:2", c1="0.5L"),
    "groups as an array": lambda: explained(groups=torch.arange(48).reshape(6, 8) // 9),
    "smooth": lambda: explained(method="smooth-caso", n=3, stdevs=0.1),
    "first order, smooth": lambda: explained(method="smooth-cafo", n=3, lambda1=(0.0, 1e-4), times_input=True),
    "picture": lambda: explained(method="picture", n=4, groups="window:2"),
    "gradient": lambda: baseline(ss.Gradient(score="loss")),
    "integrated gradients": lambda: baseline(ss.IntegratedGradients(n_steps=4)),
}


@pytest.fixture(params=CASES)
def e(request: pytest.FixtureRequest) -> ss.Explanation:
    return CASES[request.param]()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


class TestRoundTrip:
    def test_every_field(self, e: ss.Explanation, tmp_path: Path) -> None:
        e.save(tmp_path / "e.npz")
        loaded = ss.Explanation.load(tmp_path / "e.npz")
        assert type(loaded) is type(e)
        assert [f.name for f in fields(e) if not same(getattr(e, f.name), getattr(loaded, f.name))] == []
        assert loaded.summary() == e.summary()

    def test_cases_differ_in_what_is_hard_to_store(self) -> None:
        made: dict[str, Any] = {name: case() for name, case in CASES.items()}
        assert made["not certified"].certificate.gap == math.inf
        assert made["not certified"].certificate.holds is False
        assert type(made["cafo"]) is type(made["first order, smooth"]) is ss.SparseExplanation
        assert made["cafo"].certificate.top_eigenvalue_bound == 0
        assert made["cafo"].certificate.basis == "exact"
        assert made["path"].certificate.basis == "proven"
        assert made["caso"].groups is None
        assert made["groups"].groups is not None
        assert isinstance(made["groups as an array"].method.groups, tuple)
        assert type(made["gradient"]) is type(made["integrated gradients"]) is ss.Explanation
        assert {point.relative_gap is None for point in made["caso"].path} == {True, False}
        assert made["indefinite, float64"].delta.dtype == torch.float64
        assert made["all zero"].notes

    def test_text_path_and_missing_directories(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "E.NPZ"
        e = explained()
        e.save(str(path))
        assert torch.equal(ss.Explanation.load(str(path)).delta, e.delta)
        assert [file.name for file in path.parent.iterdir()] == ["E.NPZ"]

    def test_summary_is_json(self, e: ss.Explanation) -> None:
        assert json.loads(json.dumps(e.summary(), allow_nan=False)) == e.summary()

    def test_equal_files_from_equal_results(self, tmp_path: Path) -> None:
        e = explained()
        e.save(tmp_path / "a.npz")
        ss.Explanation.load(tmp_path / "a.npz").save(tmp_path / "b.npz")
        a, b = (np.load(tmp_path / name) for name in ("a.npz", "b.npz"))
        with a, b:
            assert a.files == b.files
            assert all(np.array_equal(a[name], b[name]) for name in a.files)


def rewritten(path: Path, **changes: Any) -> Path:
    """An explanation's file with other arrays; None leaves one out."""
    explained().save(path)
    with np.load(path) as arrays:
        kept = {name: arrays[name] for name in arrays.files} | changes
    np.savez(path, **{name: array for name, array in kept.items() if array is not None})
    return path


def record_with(**changes: Any) -> np.ndarray:
    file = io.BytesIO()
    np.savez(file, **_arrays(explained()))
    file.seek(0)
    with np.load(file) as arrays:
        return np.array(json.dumps(json.loads(str(arrays["record"])) | changes))


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class TestLoadRefuses:
    def refusal(self, path: Path) -> str:
        with pytest.raises(ss.SecondsightError) as caught:
            ss.Explanation.load(path)
        message = str(caught.value)
        assert str(path) in message
        assert "\n" not in message
        return message

    def test_missing(self, tmp_path: Path) -> None:
        assert "does not exist" in self.refusal(tmp_path / "none.npz")

    def test_directory(self, tmp_path: Path) -> None:
        self.refusal(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"plain text\n", b"PK\x03\x04 no zip", b"\x93NUMPY", b"\x80\x04K\x01."])
    def test_no_npz(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "e.npz"
        path.write_bytes(content)
        self.refusal(path)

    def test_one_array(self, tmp_path: Path) -> None:
        np.save(tmp_path / "e.npy", np.zeros(3))
        self.refusal(tmp_path / "e.npy")

    @pytest.mark.parametrize("name", ["record", "input", "delta", "gradient", "support_zero", "path_deltas"])
    def test_without_an_array(self, tmp_path: Path, name: str) -> None:
        assert name in self.refusal(rewritten(tmp_path / "e.npz", **{name: None}))

    @pytest.mark.parametrize("record", ["no json", "[1, 2]", "3", "{}", "null"])
    def test_other_record(self, tmp_path: Path, record: str) -> None:
        self.refusal(rewritten(tmp_path / "e.npz", record=np.array(record)))

    @pytest.mark.parametrize("version", [FORMAT + 1, 99, "2.0", None])
    def test_future_format(self, tmp_path: Path, version: Any) -> None:
        message = self.refusal(rewritten(tmp_path / "e.npz", record=record_with(format=version)))
        assert f"has format {version}; this version reads format {FORMAT}" in message

    @pytest.mark.parametrize(
        "changes", [{"path": [[1.0]]}, {"second_order": {"angle": 1}}, {"path": []}, {"notes": None}]
    )
    def test_record_of_another_shape(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        self.refusal(rewritten(tmp_path / "e.npz", record=record_with(**changes)))

    def test_array_of_text(self, tmp_path: Path) -> None:
        self.refusal(rewritten(tmp_path / "e.npz", delta=np.array(["a"])))

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        sprung = tmp_path / "sprung"
        self.refusal(rewritten(tmp_path / "e.npz", record=np.array(Trap(sprung), dtype=object)))
        assert not sprung.exists()

    def test_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "e.npz"
        explained().save(path)
        whole = path.read_bytes()
        generator = np.random.default_rng(0)
        refused = 0
        for trial in range(200):
            damaged = bytearray(whole)
            if trial < 40:
                del damaged[generator.integers(len(whole)) :]
            else:
                for place in generator.integers(len(whole), size=generator.choice([1, 20])):
                    damaged[place] = generator.integers(256)
            path.write_bytes(damaged)
            try:
                ss.Explanation.load(path)
            except ss.SecondsightError:
                self.refusal(path)
                refused += 1
        assert refused > 100

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
        self.refusal(path)


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
        with pytest.raises(ss.InputError, match=r"\.png or \.npz"):
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


class TestNormalise:
    @pytest.mark.parametrize("shape", [(3, 20, 30), (1, 7, 5), (4, 9, 9), (20, 30), (50,)])
    def test_dense_maps_by_the_definition(self, shape: tuple[int, ...]) -> None:
        values = np.random.default_rng(0).standard_normal(shape)
        sums = np.abs(values).sum(0) if len(shape) == 3 else np.atleast_2d(np.abs(values))
        # The 99th percentile by linear interpolation of the order statistics.
        ordered = np.sort(sums.ravel())
        place = 0.99 * (ordered.size - 1)
        low = int(place)
        cap = ordered[low] + (place - low) * (ordered[min(low + 1, ordered.size - 1)] - ordered[low])
        assert np.allclose(normalise(values), np.minimum(sums / cap, 1), rtol=1e-12)

    def test_sign_and_size_do_not_matter(self) -> None:
        values = np.random.default_rng(0).standard_normal((3, 8, 8))
        assert np.array_equal(normalise(values), normalise(-values * 2.0**-80))

    @pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5), (6,), (3, 1, 1)])
    def test_all_zero_stays_zero(self, shape: tuple[int, ...]) -> None:
        shades = normalise(np.zeros(shape))
        assert shades.ndim == 2
        assert not shades.any()

    @pytest.mark.parametrize("kept", [1, 2, 5, 99])
    def test_nearly_all_zero_keeps_its_shades(self, kept: int) -> None:
        values = np.zeros((3, 100, 100))
        places = np.random.default_rng(0).choice(10_000, kept, replace=False)
        values[1].flat[places] = np.linspace(1, -2, kept) if kept > 1 else -1e-9
        shades = normalise(values)
        assert np.isfinite(shades).all()
        assert shades.max() == 1
        assert np.array_equal(shades > 0, np.abs(values).sum(0) > 0)
        # Shades keep their order and are not all clipped.
        assert len(np.unique(shades)) >= min(kept, 3)

    def test_one_pixel(self) -> None:
        assert normalise(np.array([[[0.25]], [[-1.0]], [[0.0]]])).tolist() == [[1.0]]

    def test_float32_is_summed_in_float64(self) -> None:
        assert normalise(np.ones((3, 2, 2), dtype=np.float32)).dtype == np.float64


class TestMap:
    @pytest.mark.parametrize("shape", [(3, 6, 8), (1, 5, 9), (4, 7, 7), (3, 1, 1)])
    def test_of_pictures(self, shape: tuple[int, ...]) -> None:
        shades = explained(shape).map()
        assert shades.shape == shape[1:]
        assert shades.min() >= 0
        assert shades.max() == 1

    @pytest.mark.parametrize("features", [1, 7])
    def test_of_features(self, features: int) -> None:
        shades = tabular(features).map()
        assert shades.shape == (1, features)
        assert shades.min() >= 0
        assert shades.max() == 1

    def test_is_zero_where_delta_is(self) -> None:
        e = explained((3, 12, 12))
        assert 0 < e.sparsity < 1
        assert np.array_equal(e.map() == 0, (e.delta == 0).all(0).numpy())

    def test_of_an_all_zero_map(self) -> None:
        assert not all_zero().map().any()


def drawn(e: ss.Explanation, path: Path) -> Image.Image:
    """The figure as Pillow reads it back, whole."""
    e.save(path)
    assert list(path.parent.iterdir()) == [path]
    with Image.open(path) as image:
        assert image.format == "PNG"
        image.load()
        return image.convert("RGB")


class TestFigure:
    @pytest.mark.parametrize(
        "make",
        [
            *(
                lambda shape=shape: explained(shape)
                for shape in [(1, 6, 6), (3, 6, 6), (4, 6, 6), (3, 4, 40), (3, 40, 4), (3, 1, 1)]
            ),
            lambda: explained((3, 3, 300)),
            lambda: explained(method="cafo"),
            lambda: explained(lambda1="paper"),
            lambda: explained(path_points=40),
            lambda: explained(max_products=1),
            all_zero,
            tabular,
            lambda: tabular(1),
            lambda: replace(tabular(), delta=torch.zeros(7)),
        ],
    )
    def test_is_a_png(self, make: Callable[[], ss.Explanation], tmp_path: Path) -> None:
        image = drawn(make(), tmp_path / "e.png")
        assert image.width >= 1000
        assert 300 < image.height < 4 * image.width
        assert len(np.unique(np.asarray(image))) > 10

    @pytest.mark.parametrize(("method", "panels"), [("caso", 4), ("cafo", 3)])
    def test_panels(self, method: str, panels: int) -> None:
        e = explained((3, 12, 12), method=method, lambda1=1e-4)
        assert e.path[0].lambda1 > e.lambda1 > e.path[-1].lambda1
        axes = e.figure().axes
        assert len(axes) == panels + STRIP_MAPS
        assert np.array_equal(axes[0].images[0].get_array(), e.input.double().permute(1, 2, 0))
        assert np.array_equal(axes[panels - 2].images[0].get_array(), e.map())
        chosen = [any(spine.get_visible() for spine in ax.spines.values()) for ax in axes[panels:]]
        assert chosen == [point.lambda1 == e.lambda1 for point in telling(e.path, e.lambda1)]
        assert sum(chosen) == 1

    def test_cafo_beside_caso_has_the_same_penalties(self) -> None:
        e = explained((3, 12, 12))
        alone = explained((3, 12, 12), method="cafo", lambda1=e.lambda1, lambda2=e.lambda2)
        assert alone.delta.any()
        assert torch.allclose(first_order_map(e), alone.delta, rtol=1e-5, atol=1e-6 * float(alone.delta.abs().max()))
        assert np.allclose(e.figure().axes[1].images[0].get_array(), alone.map(), atol=1e-5)

    @pytest.mark.parametrize("label", ["$\\frac{$", "x" * 200, ""])
    @pytest.mark.parametrize("make", [explained, tabular])
    def test_any_label(self, make: Callable[[], ss.Explanation], label: str, tmp_path: Path) -> None:
        e = replace(make(), label=label)
        drawn(e, tmp_path / "e.png")
        assert label in title(e.figure())

    def test_bars(self) -> None:
        e = tabular()
        (ax,) = e.figure().axes
        low, high = ax.get_ylim()
        assert low <= float(e.delta.min()) < float(e.delta.max()) <= high
        assert "virginica" in title(e.figure()) or "setosa" in title(e.figure()) or "versicolor" in title(e.figure())

    @pytest.mark.parametrize(("method", "score"), [("caso", "logit"), ("gradient", "loss"), ("gradient", "logit")])
    def test_bars_against_the_class_are_red(self, method: str, score: str) -> None:
        net = torch.nn.Linear(6, 3).double()
        x = torch.linspace(-1, 1, 6).double()
        e = ss.explain(ss.Classifier(net, input_shape=(6,)), x, configured(method, lambda1=0.0, score=score))
        against = e.delta > 0 if method == "caso" or score == "loss" else e.delta < 0
        (ax,) = e.figure().axes
        colours = [matplotlib.colors.to_hex(colour) for colour in ax.collections[0].get_facecolor()]
        assert colours == [AGAINST if bad else FOR for bad in against.tolist()]
        assert ("against" in ax.get_ylabel()) == (method == "caso" or score == "loss")

    def test_many_features_take_seconds(self, tmp_path: Path) -> None:
        e = replace(tabular(), delta=pixels(50_000) - 0.5)
        started = time.process_time()
        drawn(e, tmp_path / "e.png")
        assert time.process_time() - started < 10


def title(figure: Figure) -> str:
    return " ".join([text.get_text() for text in figure.texts] + [ax.get_title() for ax in figure.axes])


class TestPicture:
    def test_grey_is_repeated(self) -> None:
        assert picture(np.array([[[0.25]]])).tolist() == [[[0.25, 0.25, 0.25]]]

    def test_colours_are_kept(self) -> None:
        assert picture(np.array([[[0.1]], [[0.2]], [[0.3]]])).tolist() == [[[0.1, 0.2, 0.3]]]

    def test_alpha_is_laid_on_white(self) -> None:
        assert np.allclose(picture(np.array([[[1.0]], [[0.0]], [[0.0]], [[0.2]]])), [[[1.0, 0.8, 0.8]]])

    def test_overlay_stays_in_range_and_is_warm_where_the_map_is(self) -> None:
        shades = np.zeros((8, 8))
        shades[:, 4:] = 1
        laid = overlay(np.ones((8, 8, 3)), shades)
        assert laid.min() >= 0
        assert laid.max() <= 1
        assert len(set(laid[0, 0])) == 1
        assert laid[0, -1, 0] > laid[0, -1, 2]
