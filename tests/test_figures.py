"""What a person sees: shades of groups, overlays, the strip of a path, blurs, and contact sheets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from torch import nn

import secondsight as ss
from cases import PIECEWISE_LINEAR, configured
from secondsight.comparison import sheet_figure, title_of
from secondsight.plotting.figures import ENLARGED, OUTLINE, overlay
from secondsight.plotting.shades import blurred, dilated, is_dots, normalise
from secondsight.results.explanation_figure import STRIP_MAPS, telling
from secondsight.results.strengths import strengths

CONV = PIECEWISE_LINEAR[3]
SHADES = arrays(np.float64, (5, 7), elements=st.floats(0, 1))


def explained(method: str = "caso", **options: Any) -> Any:
    """A map of a picture of 20 x 20 pixels."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 4))
    x = torch.rand(3, 20, 20, generator=torch.Generator().manual_seed(1))
    return ss.explain(ss.Classifier(net, size=20), x, configured(method, n=4, **options))


@pytest.mark.parametrize("groups", ["patch:4", "pixel", torch.arange(1200).reshape(3, 20, 20) // 300])
def test_one_shade_for_each_group_by_its_norm(groups: Any) -> None:
    e = explained(groups=groups, sparsity_range=(0.1, 1.0))
    shown = strengths(e)
    assert shown.shape == (20, 20)
    labels = e.groups.numpy()
    norms = np.array([np.linalg.norm(e.delta.numpy()[labels == j]) for j in range(labels.max() + 1)])
    assert np.allclose(shown, norms[labels].max(0))
    assert (e.map() == normalise(shown)).all()
    assert (e.map("groups") == e.map()).all()
    assert (e.map("entries") == normalise(e.delta.numpy())).all()
    assert not np.allclose(e.map("entries"), e.map())


def test_windows_are_shown_by_their_norms() -> None:
    e = explained(groups="window:4")
    assert (strengths(e) == e.window_norms.numpy()).all()
    for point in e.path:
        assert (strengths(e, drawn=point) == point.window_norms.numpy()).all()
    # Regions, where the entries are speckle.
    assert not is_dots(e.map())


def test_without_groups_entries_are_shown() -> None:
    e = explained()
    assert (e.map() == normalise(e.delta.numpy())).all()
    with pytest.raises(ss.InputError, match="kind must be 'entries', because this map has no groups"):
        e.map("groups")
    with pytest.raises(ss.InputError, match="kind must be entries or groups, not 'pixels'"):
        e.map("pixels")
    times = explained(groups="patch:4", times_input=True)
    assert (times.map() == normalise(times.delta.numpy())).all()


@settings(max_examples=50, deadline=None)
@given(SHADES, st.integers(1, 4))
def test_dilated_pixels_fill_squares(shades: np.ndarray, side: int) -> None:
    grown = dilated(shades, side)
    before, after = (side - 1) // 2, side // 2
    for i, j in np.ndindex(shades.shape):
        square = shades[max(0, i - after) : i + before + 1, max(0, j - after) : j + before + 1]
        assert grown[i, j] == square.max()


@settings(max_examples=30, deadline=None)
@given(SHADES, st.floats(0.3, 3))
def test_a_blur_spreads_and_keeps_the_brightest_as_bright(shades: np.ndarray, sigma: float) -> None:
    soft = blurred(shades, sigma)
    assert soft.shape == shades.shape
    assert soft.max() == pytest.approx(shades.max())
    assert (soft >= 0).all()
    assert (blurred(shades, 0) == shades).all()


def test_a_blur_is_a_gaussian() -> None:
    one = np.zeros((21, 21))
    one[10, 10] = 1
    i, j = np.mgrid[-10:11, -10:11]
    assert np.allclose(blurred(one, 2.0)[4:17, 4:17], np.exp(-(i**2 + j**2) / 8)[4:17, 4:17])


def test_dots_are_scattered_pixels() -> None:
    scattered, region = np.zeros((30, 30)), np.zeros((30, 30))
    scattered[::5, ::5] = 1
    region[5:15, 5:15] = 1
    assert is_dots(scattered)
    assert not is_dots(region)
    assert not is_dots(np.zeros((30, 30)))
    assert not is_dots(np.ones((30, 30)))


def test_an_overlay_keeps_the_photograph_and_outlines_regions() -> None:
    photograph = np.random.default_rng(0).random((30, 30, 3))
    shades = np.zeros((30, 30))
    shades[5:15, 5:15] = np.linspace(0.1, 1, 100).reshape(10, 10)
    laid = overlay(photograph, shades)
    assert laid.shape == (30 * ENLARGED, 30 * ENLARGED, 3)
    assert 0 <= laid.min() < laid.max() <= 1
    line = (laid == OUTLINE).all(-1)
    assert line.any()
    kept = np.kron(shades > 0, np.ones((ENLARGED, ENLARGED), dtype=bool))
    assert not (line & kept).any()
    # Bright enough to see: away from the map, the photograph's contrast is still there.
    far = laid[ENLARGED * 20 :: ENLARGED, ENLARGED * 20 :: ENLARGED].mean(-1)
    original = photograph[20:, 20:].mean(-1)
    assert np.corrcoef(far.flatten(), original.flatten())[0, 1] > 0.99
    assert far.mean() > 0.8 * original.mean()


def test_single_pixels_of_an_overlay_are_larger_and_have_no_line() -> None:
    shades = np.zeros((30, 30))
    shades[::6, ::6] = 1
    laid = overlay(np.full((30, 30, 3), 0.2), shades)
    assert not (laid == OUTLINE).all(-1).any()
    warm = laid[..., 0] > 0.6
    assert warm.sum() > 4 * ENLARGED**2 * (shades > 0).sum()


@pytest.mark.parametrize("method", ["caso", "cafo"])
@pytest.mark.parametrize("groups", ["none", "window:4"])
def test_the_strip_has_the_chosen_map_and_five_telling_ones(method: str, groups: str) -> None:
    e = explained(method, groups=groups)
    shown = telling(e.path, e.lambda1)
    assert len(shown) == STRIP_MAPS
    assert [point.lambda1 for point in shown] == sorted((point.lambda1 for point in shown), reverse=True)
    assert sum(point.lambda1 == e.lambda1 for point in shown) == 1
    kept = [1 - point.sparsity for point in shown]
    # From the first maps to the last: the ends of the path are there.
    assert kept[-1] == pytest.approx(max(1 - point.sparsity for point in e.path), rel=0.3)
    framed = [ax for ax in e.figure().axes if ax.spines["left"].get_visible()]
    assert len(framed) == 1
    assert f"lambda1 = {e.lambda1:.2g}" in framed[0].get_title()


def test_short_paths_and_empty_maps_have_a_strip() -> None:
    e = explained(lambda1=(0.0, 0.01))
    assert len(telling(e.path, e.lambda1)) == 2
    zero = explained(lambda1=1e9)
    assert zero.lambda1 in [point.lambda1 for point in telling(zero.path, zero.lambda1)]
    zero.figure()


def test_a_blurred_figure_says_so() -> None:
    e = explained(groups="window:4")
    texts = [ax.get_title() for ax in e.figure(blur=2).axes]
    assert any("blurred for display, sigma = 2 pixels" in text for text in texts)
    assert not any("blurred" in ax.get_title() for ax in e.figure().axes)
    for bad in (-1, float("nan"), "2"):
        with pytest.raises(ss.InputError, match="blur must be a finite number of at least 0"):
            e.figure(blur=bad)


def test_what_stands_above_the_maps() -> None:
    e = explained("picture", groups="window:4")
    texts = " ".join(text.get_text() for text in e.figure().texts)
    assert e.second_order.sentence in texts
    assert f"4 noisy copies: standard error {e.smoothing.standard_error:.0%}" in texts
    assert any("of windows zero, exact" in ax.get_title() for ax in e.figure().axes)


def test_caso_by_windows_beside_cafo() -> None:
    """CAFO's panel is drawn by window norms, too."""
    e = explained(groups="window:4")
    first = explained("cafo", groups="window:4", lambda1=e.lambda1, lambda2=e.lambda2)
    assert np.allclose(e.figure().axes[1].images[0].get_array(), first.map(), atol=1e-5)


def test_columns_with_options_are_named_by_them() -> None:
    assert title_of("caso") == "CASO"
    assert title_of("caso(groups=window:8)") == "CASO (groups=window:8)"
    assert title_of("clipped-gradient") == "Gradient, clipped"


def test_a_sheet_has_a_row_for_each_photograph(tmp_path: Path) -> None:
    model = CONV.classifier()
    methods = ["caso", "cafo(groups=window:2)"]
    rows = [row for x in (CONV.x, 1 - CONV.x) for row in ss.compare(model, x, methods).sheet_rows()]
    figure = sheet_figure("a network", rows, methods)
    assert len(figure.axes) == 2 * 3
    captions = [ax.get_title() for ax in figure.axes]
    assert captions == ["input", "CASO", "CAFO (groups=window:2)", "", "", ""]
    assert all("zero" in ax.get_xlabel() for ax in figure.axes[1:3])
    figure.savefig(tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.height > 200
