"""Trained networks that are not piecewise linear. They do not come with the project: skipped where they are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import secondsight as ss
from secondsight.model.diagnosis import float64_twin, gradient_differences, second_derivative
from secondsight.operators.jacobian import random_like
from secondsight.operators.linearisation import linearise
from secondsight.operators.tape_jacobian import TapeJacobian
from shims import import_torchvision

SHARED = Path(os.environ.get("SECONDSIGHT_SHARED", Path(__file__).parents[2] / "shared"))
PHOTOGRAPHS = SHARED / "imagenet-val" / "images"
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit-tiny-200": ("vit_tiny_patch16_224", {"num_classes": 200}),
    "mobilenetv3-small": ("tf_mobilenetv3_small_100", {}),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all((SHARED / "weights" / f"{name}.safetensors").is_file() for name in NETWORKS),
        reason=f"needs photographs and weights in {SHARED} (set SECONDSIGHT_SHARED)",
    ),
]


def classifier(name: str) -> ss.Classifier:
    import_torchvision()
    import timm

    architecture, options = NETWORKS[name]
    net = timm.create_model(architecture, **options)
    net.load_state_dict(load_file(SHARED / "weights" / f"{name}.safetensors"))
    return ss.Classifier(net, mean=0.5, std=0.5, size=224, channels=3, name=name)


def photographs(count: int) -> list[Path]:
    files = sorted(PHOTOGRAPHS.glob("*.JPEG"))
    return files[:: len(files) // count][:count]


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_second_derivatives(name: str) -> None:
    """Compare ViT with torch's double backward. MobileNetV3 has none: compare it with differences in float64."""
    model = classifier(name)
    if name == "mobilenetv3-small":
        model = float64_twin(model)
    for file in photographs(3):
        with model.ready():
            x = model.tensor(file)[None].to(model.weights()[0].dtype)
            linear = linearise(model, x, record=True)
            assert isinstance(linear.jacobian, TapeJacobian)
            v, u = random_like(linear.x), linear.loss_cotangent()
            scale = u.abs().max()

            def nothing(change: Tensor) -> Tensor:
                return torch.zeros_like(change)

            found = linear.jacobian.curved_products(v.flatten(1).double()[None], u, nothing)[0, 0]
            weights = (u / scale).to(linear.x)
            if name == "mobilenetv3-small":
                wanted = list(gradient_differences(model, linear.x, weights, v))
            else:
                wanted = [second_derivative(model, linear.x, weights, v)]
        errors = [float((found - each.flatten().double() * scale).norm() / found.norm()) for each in wanted]
        # Of several differences, only one whose step meets no kink agrees.
        assert min(errors) < 1e-4


def test_the_first_photograph_does_not_matter() -> None:
    """The tape of MobileNetV3 is trusted whichever photograph it is checked at, also where float32 crosses a kink."""
    for file in photographs(20):
        model = classifier("mobilenetv3-small")
        with model.ready():
            assert linearise(model, model.tensor(file)[None], record=True).jacobian.curvature_agrees(), file.name


@pytest.mark.parametrize("curvature", ["exact", "gauss-newton"])
@pytest.mark.parametrize("name", NETWORKS)
def test_certified_maps(name: str, curvature: str) -> None:
    model = classifier(name)
    products, certified = [], []
    for file in photographs(10):
        e = ss.explain(model, file, ss.CASO(curvature=curvature))
        assert e.curvature == curvature
        assert 0.75 <= e.sparsity < 1
        products.append(e.products)
        certified.append(e.certificate.holds)
        # Where it does not hold, it is because L could not be bounded, and not for want of products.
        assert e.certificate.holds or any("could not be bounded" in note for note in e.notes)
    assert sum(certified) >= (7 if curvature == "exact" else 10)
    assert sorted(products)[5] <= (15 if curvature == "exact" else 6)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_product_runs_the_network(name: str) -> None:
    model, passes = classifier(name), list[int]()
    file = photographs(1)[0]
    ss.explain(model, file)
    model.net.register_forward_pre_hook(lambda *_: passes.append(1))
    e = ss.explain(model, file)
    assert (len(passes), e.curvature) == (1, "exact")
