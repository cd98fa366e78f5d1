"""Networks of timm that are not piecewise linear, two of them trained."""

from __future__ import annotations

import torch
from safetensors.torch import load_file
from tests.shims import import_torchvision

import secondsight as ss
from bench.photographs import SHARED

ARCHITECTURES = {
    "vit-tiny": ("vit_tiny_patch16_224", "vit-tiny-200", 200),
    "mobilenetv3": ("tf_mobilenetv3_small_100", "mobilenetv3-small", 1000),
    "vit-small": ("vit_small_patch16_224", None, 1000),
    "convnext": ("convnext_tiny", None, 1000),
    "efficientnet": ("efficientnet_b0", None, 1000),
    "se-resnet": ("seresnet50", None, 1000),
}
"""timm's name of each network, its weights and its classes."""


def classifier(name: str) -> ss.Classifier:
    """Load a network."""
    # timm imports torchvision, whose compiled part may not fit this torch.
    import_torchvision()
    import timm

    architecture, weights, classes = ARCHITECTURES[name]
    torch.manual_seed(0)
    net = timm.create_model(architecture, num_classes=classes)
    if weights is not None:
        net.load_state_dict(load_file(SHARED / "weights" / f"{weights}.safetensors"))
    return ss.Classifier(net, mean=0.5, std=0.5, size=224, channels=3, name=architecture)
