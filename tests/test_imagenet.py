"""Real weights and real ImageNet photographs, which do not come with the project: skipped where they are not found."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
import torch

import secondsight as ss
from cases import configured
from secondsight.model.diagnosis import is_piecewise_linear
from secondsight.presets import LAMBDA1_VALUES

SHARED = Path(os.environ.get("SECONDSIGHT_SHARED", Path(__file__).parents[2] / "shared"))
PHOTOGRAPHS = SHARED / "imagenet-val"
WEIGHTS = SHARED / "weights" / "resnet50.safetensors"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PHOTOGRAPHS.is_dir() and WEIGHTS.is_file()),
        reason=f"needs ImageNet photographs and ResNet-50 weights in {SHARED} (set SECONDSIGHT_SHARED)",
    ),
]


def classes() -> dict[str, int]:
    with (PHOTOGRAPHS / "boxes.csv").open() as file:
        return {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("name", "accuracy"), [("efficientnet-lite0", 0.75), (f"resnet50-v1@{WEIGHTS}", 0.727)], ids=["lite0", "resnet50"]
)
def test_top_1_accuracy_shows_the_preprocessing_is_right(name: str, accuracy: float) -> None:
    model = ss.load_model(name)
    right = 0
    expected = classes()
    with torch.no_grad():
        for file, index in expected.items():
            right += int(model(model.load(PHOTOGRAPHS / "images" / file)[None]).argmax()) == index
    # 300 photographs: one standard error is 2.5 points.
    assert right / len(expected) == pytest.approx(accuracy, abs=0.02)


@pytest.mark.parametrize("name", ["efficientnet-lite0", f"resnet50-v1@{WEIGHTS}"], ids=["lite0", "resnet50"])
def test_certified_maps_of_real_photographs(name: str) -> None:
    model = ss.load_model(name)
    products = []
    for file in sorted(classes())[::30]:
        e = ss.explain(model, PHOTOGRAPHS / "images" / file)
        assert e.certificate.holds, e
        assert e.certificate.basis == "estimated"
        assert 0.75 <= e.sparsity < 1
        products.append(e.products)
    assert sorted(products)[5] <= 5


@pytest.mark.parametrize("name", ["efficientnet-lite0", f"resnet50-v1@{WEIGHTS}"], ids=["lite0", "resnet50"])
def test_embedded_networks_are_piecewise_linear_as_declared(name: str) -> None:
    model = ss.load_model(name)
    assert model.facts.piecewise_linear
    model.facts.piecewise_linear = None
    with model.ready():
        assert is_piecewise_linear(model, model.tensor(ss.example_photograph()))


def test_estimated_bound_against_the_proven_one() -> None:
    """The whole Hessian of one photograph, 1000 backward passes: the estimate was right."""
    model = ss.load_model("efficientnet-lite0")
    estimated = ss.explain(model, ss.example_photograph())
    proven = ss.explain(model, ss.example_photograph(), ss.CASO(bound="proven"))
    assert proven.certificate.holds
    assert proven.certificate.basis == "proven"
    assert estimated.top_eigenvalue == pytest.approx(proven.top_eigenvalue, rel=0.05)
    assert estimated.certificate.top_eigenvalue_bound >= proven.top_eigenvalue * (1 - 1e-3)


@pytest.mark.parametrize("groups", ["none", "pixel", "patch:16", "window:8", "superpixels"])
@pytest.mark.parametrize("method", ["caso", "smooth-caso"])
def test_groups_and_smooth_maps_of_a_real_network(method: str, groups: str) -> None:
    """Every one of the paper's eight values certified, also where neighbouring maps hardly differ."""
    model = ss.load_model(f"resnet50-v1@{WEIGHTS}")
    file = PHOTOGRAPHS / "images" / sorted(classes())[0]
    e = ss.explain(model, file, configured(method, groups=groups, lambda1=LAMBDA1_VALUES, certify="path", n=4))
    assert e.certificate.holds, e.notes
    assert e.certificate.basis == "estimated"
    assert len(e.path) == len(LAMBDA1_VALUES)
    # Next to lambda1_max the objective is so small that float32 cannot tell it from its own rounding.
    highest = max(point.objective for point in e.path)
    visible = [point for point in e.path if point.objective == 0 or point.objective > 1e-5 * highest]
    assert len(visible) >= len(e.path) - 1
    assert all(point.relative_gap is not None and point.relative_gap <= 1e-4 for point in visible)
    assert isinstance(e, ss.SecondOrderExplanation)
    # L is uncertain by 5 at most, and half of what is left of 2 lambda2 = L + 20 is the margin.
    assert e.top_eigenvalue <= e.certificate.top_eigenvalue_bound <= e.top_eigenvalue + 5 / 2 + 10
