"""The result on screen: its record, shades and figures. Its files are in test_storage.py."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def test_summary_is_json(e: ss.Explanation) -> None:
    assert json.loads(json.dumps(e.summary(), allow_nan=False)) == e.summary()


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
