"""Figures 3 and 4 of the paper as objects: what is in them, and that they show it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_rgba
from PIL import Image

import secondsight as ss
from cases import PIECEWISE_LINEAR, Case
from secondsight.comparison import COLUMNS
from secondsight.config import method_of
from secondsight.groups import zero_share
from secondsight.plotting.figures import CHOSEN
from secondsight.presets import LAMBDA1_VALUES

PICTURES = [case for case in PIECEWISE_LINEAR if case.x.ndim == 3]


@pytest.mark.parametrize("case", PICTURES, ids=str)
def test_every_column_is_the_method_itself(case: Case) -> None:
    model = case.classifier()
    # The windows of `picture` are larger than these pictures.
    methods = tuple("picture(groups=window:2)" if name == "picture" else name for name in COLUMNS)
    comparison = ss.compare(model, case.x, methods, n=4, target=1, seed=3)
    (entries,) = comparison.rows
    assert tuple(entry.method for entry in entries) == methods
    by_name = {entry.method: entry.explanation for entry in entries}
    for method in set(methods) - {"clipped-gradient"}:
        config = method_of(method)
        alone = ss.explain(model, case.x, config.with_options(n=4) if config.has("n") else config, target=1, seed=3)
        assert torch.equal(by_name[method].delta, alone.delta)
    assert all(entry.gradient_equivalents > 0 for entry in entries)


def test_the_clipped_gradient_has_the_pixels_of_caso() -> None:
    case = PICTURES[0]
    (entries,) = ss.compare(case.classifier(), case.x, ["clipped-gradient", "caso"], lambda1=0.01).rows
    assert [entry.method for entry in entries] == ["clipped-gradient", "caso"]
    clipped, caso = (entry.explanation for entry in entries)
    assert clipped.sparsity == pytest.approx(caso.sparsity)
    assert 0 < caso.sparsity < 1
    gradient = ss.explain(case.classifier(), case.x, "gradient").delta
    kept = clipped.delta != 0
    assert torch.equal(clipped.delta[kept], gradient[kept])
    weight = gradient.abs().sum(0)
    assert float(weight[kept.any(0)].min()) >= float(weight[~kept.any(0)].max())


def test_a_method_may_have_options_of_its_own() -> None:
    """The clipped gradient explains the score that was asked for."""
    case = PICTURES[0]
    methods = ["caso", ss.CASO(c1=1), "smoothgrad(n=2)", "clipped-gradient"]
    (entries,) = ss.compare(case.classifier(), case.x, methods, lambda1="10%", score="loss").rows
    assert [entry.method for entry in entries] == ["caso", "caso(c1=1.0)", "smoothgrad(n=2)", "clipped-gradient"]
    found = [entry.explanation.method for entry in entries]
    assert found[:2] == [ss.CASO(lambda1="10%", c1="0.25L"), ss.CASO(lambda1="10%", c1=1)]
    assert found[2:] == [ss.SmoothGrad(n=2, score="loss"), ss.Gradient(score="loss")]
    by_words = ss.compare(case.classifier(), case.x, "caso(c1=1,lambda1=(0,0.1)),cafo").rows[0]
    assert [entry.method for entry in by_words] == ["caso(c1=1,lambda1=(0,0.1))", "cafo"]


def test_groups_go_to_the_methods_that_have_them() -> None:
    case = PICTURES[0]
    (entries,) = ss.compare(case.classifier(), case.x, "gradient,caso,clipped-gradient", groups="patch:2").rows
    gradient, caso, clipped = (entry.explanation for entry in entries)
    assert not hasattr(gradient, "groups")
    assert caso.groups is not None
    assert clipped.sparsity == pytest.approx(zero_share(caso.delta), abs=1e-9)


def test_a_row_for_each_network_and_a_second_one_times_input(tmp_path: Path) -> None:
    case = PICTURES[0]
    models = [
        ss.Classifier(case.net, size=(4, 6), name="first"),
        ss.Classifier(case.net, size=(4, 6), mean=0.5, name="second"),
    ]
    path = tmp_path / "photo.png"
    Image.new("RGB", (60, 40), (200, 30, 90)).save(path)
    methods = ["cafo", "integrated-gradients", "smoothgrad"]
    comparison = ss.compare(models, path, methods, n=3, times_input=True)
    assert comparison.name == "photo.png"
    assert [row[0].explanation.model for row in comparison.rows] == ["first", "second"]
    for row in comparison.rows:
        assert row[1].explanation.method == ss.IntegratedGradients(times_input=False)
    figure = comparison.figure()
    assert len(figure.axes) == 2 * 2 * (1 + len(methods))
    captions = [axes.get_title() for axes in figure.axes]
    assert captions.count("times input") == 2 * len(methods)
    assert any(caption.startswith("first\n") for caption in captions)
    comparison.save(tmp_path / "grid.png")
    with Image.open(tmp_path / "grid.png") as grid:
        assert grid.width > 500
    with pytest.raises(ss.InputError, match=r"\.png"):
        comparison.save(tmp_path / "grid.pdf")
    plain = ss.compare(models[0], path, methods, n=3).rows[0][1].explanation
    assert plain.method == ss.IntegratedGradients()


def test_methods_are_told_as_they_begin() -> None:
    case = PICTURES[0]
    begun: list[str] = []
    ss.compare(case.classifier(), case.x, "cafo,clipped-gradient", started=begun.append)
    assert begun == ["cafo", "gradient", "caso"]


def test_compare_refuses() -> None:
    case = PICTURES[0]
    model = case.classifier()
    with pytest.raises(ss.InputError, match="did you mean caso"):
        ss.compare(model, case.x, "cafo,casso")
    with pytest.raises(ss.InputError, match="methods must be all, or some of gradient"):
        ss.compare(model, case.x, [])
    with pytest.raises(
        ss.InputError, match="n must be an option of smoothgrad, smooth-cafo, smooth-caso, picture, not of cafo"
    ):
        ss.compare(model, case.x, "cafo,caso", n=3)
    with pytest.raises(ss.InputError, match="models must be at least one"):
        ss.compare([], case.x)
    table = PIECEWISE_LINEAR[0]
    for use in (ss.compare, ss.sweep):
        with pytest.raises(ss.InputError, match="a network of pictures"):
            use(table.classifier(), table.x)


@pytest.mark.parametrize("groups", ["none", "patch:2"])
def test_sweep(groups: str, tmp_path: Path) -> None:
    case = PICTURES[0]
    method = ss.CASO(c1=10.0, groups=groups, sparsity_range=(0.1, 1.0))
    sweep = ss.sweep(case.classifier(), case.x, method)
    for (cafo, caso), lambda1 in ((sweep.paper, LAMBDA1_VALUES), (sweep.path, "auto")):
        assert caso.method == method.with_options(lambda1=lambda1)
        assert cafo.method == caso.method.without_curvature(lambda2=caso.lambda2)
        assert (type(cafo.method), type(caso.method)) == (ss.CAFO, ss.CASO)
        assert cafo.lambda2 == caso.lambda2
        assert [p.lambda1 for p in cafo.path] == pytest.approx([p.lambda1 for p in caso.path], rel=1e-9)
    lambdas = [point.lambda1 for point in sweep.paper[1].path]
    assert lambdas == pytest.approx(sorted(LAMBDA1_VALUES, reverse=True))
    assert len(sweep.path[1].path) == 16
    figure = sweep.figure()
    framed = [axes for axes in figure.axes if axes.spines["left"].get_visible()]
    assert len(framed) == 4
    assert all(axes.spines["left"].get_edgecolor() == to_rgba(CHOSEN) for axes in framed)
    # Three rows of maps for 8 + 16 values, and what was seen beside each block of eight.
    assert len(figure.axes) == 3 * 24 + 3
    assert all(axes.get_xlabel().startswith("eta = ") for axes in figure.axes if axes.images[0].get_array().ndim == 2)
    sweep.save(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").stat().st_size > 1000


def test_notebooks_show_the_figures() -> None:
    case = PICTURES[0]
    model = case.classifier()
    for shown in (ss.explain(model, case.x), ss.compare(model, case.x, "cafo,caso"), ss.sweep(model, case.x)):
        with Image.open(io.BytesIO(shown._repr_png_())) as picture:
            assert picture.format == "PNG"
            assert picture.width > 300


def test_a_list_of_lambda1_is_chosen_from_as_in_the_paper() -> None:
    """The highest loss among the maps in range; the path is the list, without repetitions."""
    case = PICTURES[0]
    model = case.classifier()
    largest = ss.explain(model, case.x).lambda1_max
    assert largest is not None
    values = [largest * share for share in (0.01, 0.5, 0.3, 0.7, 0.5, 2.0)]
    e = ss.explain(model, case.x, ss.CASO(lambda1=values, sparsity_range=(0.2, 1.0)))
    assert [point.lambda1 for point in e.path] == pytest.approx(sorted(set(values), reverse=True))
    in_range = [point.lambda1 for point in e.path if 0.2 <= point.sparsity < 1]
    assert e.lambda1 == min(in_range)
    with pytest.raises(ss.InputError, match="lambda1 must be at least one number"):
        ss.explain(model, case.x, ss.CASO(lambda1=[]))
    with pytest.raises(ss.InputError, match="lambda1 must be a finite number"):
        ss.explain(model, case.x, ss.CASO(lambda1=[0.1, -1.0]))
