"""Small networks of torchvision, transformers and timm, with random weights: are second derivatives of tapes right?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from cases import lively
from secondsight.operators.tape.tape import Tape, joined, split
from shims import import_torchvision
from test_tape import normal, recorded

TOKENS = {"image_size": 16, "patch_size": 8, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
LAYERS = {"num_hidden_layers": 2, "num_labels": 3}
WINDOWS = {"image_size": 16, "patch_size": 4, "embed_dim": 4, "depths": [2, 1], "num_heads": [2, 2], "window_size": 2}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "ViT": {**TOKENS, **LAYERS},
    "DeiT": {**TOKENS, **LAYERS},
    "Beit": {**TOKENS, **LAYERS},
    "Dinov2": {**TOKENS, **LAYERS},
    "Siglip": {"vision_config": {**TOKENS, "num_hidden_layers": 2}, "num_labels": 3},
    "Swin": {**WINDOWS, "num_labels": 3},
    "Swinv2": {**WINDOWS, "num_labels": 3},
    "Hiera": {
        "image_size": [16, 16],
        "embed_dim": 4,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "num_query_pool": 1,
        "masked_unit_size": [4, 4],
        "masked_unit_attention": [True, False],
        "patch_size": [3, 3],
        "patch_stride": [2, 2],
        "patch_padding": [1, 1],
        "num_labels": 3,
    },
    "ConvNextV2": {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2, "patch_size": 2, "num_labels": 3},
}
"""The settings of each network's config."""


def vision_transformer(models: Any) -> nn.Module:
    net: nn.Module = models.VisionTransformer(16, 8, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=8, num_classes=3)
    return net


def windows(models: Any) -> nn.Module:
    net: nn.Module = models.SwinTransformer([4, 4], 4, [2, 1], [2, 2], [2, 2], num_classes=3)
    return net


def max_vit(models: Any) -> nn.Module:
    net: nn.Module = models.MaxVit((16, 16), 4, 2, [4], [1], 2, stochastic_depth_prob=0.0, num_classes=3)
    return net


TORCHVISION = {"ViT": vision_transformer, "Swin": windows, "MaxViT": max_vit}


TIMM: dict[str, dict[str, Any]] = {
    "eva02_tiny_patch14_224": {"img_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2},
    "volo_d1_224": {"img_size": 16, "patch_size": 8, "stem_hidden_dim": 2},
    "test_efficientnet_ln": {},
    "vit_dwee_patch16_reg1_gap_256": {"img_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2},
}
"""What makes each network small."""


def second_derivatives(model: ss.Classifier, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The Hessian of u'f at each input times v, by double backward, for one input after the other."""

    def product(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        def score(z: Tensor) -> Tensor:
            return (model.logits(z[None])[0] * u).sum()

        return torch.autograd.functional.hvp(score, x, v)[1]

    with model.ready():
        return torch.stack([product(*one) for one in zip(x, u, v, strict=True)])


def curvature(tape: Tape, u: Tensor, v: Tensor) -> Tensor:
    """The Hessian of u'f at each input times v, by a tape, for all inputs and several directions v (k, n, *shape)."""
    bends, kept = tape.bends(u), dict[int, Tensor]()
    return tape.transpose(torch.zeros_like(tape.forward(v, kept)), bends, kept)


def assert_second_derivatives(net: nn.Module, call: Callable[[Tensor], Tensor]) -> None:
    lively(net, 3)
    model, x, u = ss.Classifier(call, input_shape=(3, 16, 16)), normal(2, 3, 16, 16), normal(2, 3, seed=1)
    v = normal(2, *x.shape, seed=2)
    wanted = torch.stack([second_derivatives(model, x, u, one) for one in v])
    together, singles = recorded(model, x), [recorded(model, one[None]) for one in x]
    assert together is not None
    assert None not in singles
    assert float(wanted.norm()) > 0
    close = {"rtol": 1e-7, "atol": 1e-9 * float(wanted.abs().max())}
    torch.testing.assert_close(curvature(together, u, v), wanted, **close)
    for tapes in (split(together), singles):
        again = joined([tape for tape in tapes if tape is not None])
        assert again is not None
        torch.testing.assert_close(curvature(again, u, v), wanted, **close)


def library(name: str) -> Any:
    """Import a library, without the warnings that it has for developers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ModuleNotFoundError):
            import_torchvision()
        return pytest.importorskip(name)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str, frozen: bool) -> None:
    net = TORCHVISION[name](library("torchvision").models).requires_grad_(not frozen)
    assert_second_derivatives(net, lambda x: net(x))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: str) -> None:
    transformers = library("transformers")
    net = getattr(transformers, f"{name}ForImageClassification")(
        getattr(transformers, f"{name}Config")(**TRANSFORMERS[name])
    )
    assert_second_derivatives(net, lambda x: net(x).logits)


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    net = library("timm").create_model(name, num_classes=3, **TIMM[name])
    assert_second_derivatives(net, lambda x: net(x))
