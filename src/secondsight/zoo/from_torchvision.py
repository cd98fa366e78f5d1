"""Networks of torchvision, by name, with their default weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from secondsight.model.classifier import Classifier
from secondsight.zoo.hubs import check_name, imported, torch_file
from secondsight.zoo.weights import filled, read_checkpoint, read_safetensors

# Layers that only training needs; the network is made without them.
AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
# torchvision's DenseNet checkpoints have names of an older torch, such as denselayer1.norm.1.weight.
DENSE_LAYER = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")


def load(name: str, file: Path | None) -> Classifier:
    """Make a network of torchvision, with the preprocessing and the labels of its default weights.

    Args:
        name: as torchvision knows it, such as "resnet50".
        file: your weights, in safetensors; None: the default ones, downloaded if torch's cache does not have them.

    Raises:
        InputError: if torchvision knows no classifier of this name.
        ModelError: if torchvision is not installed, the weights cannot be downloaded or read, or they do not fit.
    """
    asked = f"torchvision:{name}"
    imported("torchvision", asked, "pip install torchvision")
    models: Any = imported("torchvision.models", asked, "pip install torchvision")
    check_name("torchvision", name, models.list_models(module=models))
    default = models.get_model_weights(name).DEFAULT
    preset = default.transforms()
    weights = read_checkpoint(torch_file(default.url, asked)) if file is None else read_safetensors(file)
    ours = {DENSE_LAYER.sub(r"\1\2", key): tensor for key, tensor in weights.items() if not key.startswith(AUXILIARY)}
    net = models.get_model(name, weights=None, **_options(name, preset.crop_size[0]))
    return Classifier(
        filled(net, ours, str(file or default.url)),
        mean=preset.mean,
        std=preset.std,
        size=preset.crop_size[0],
        labels=default.meta["categories"],
        resize=preset.resize_size[0],
        interpolation=preset.interpolation.value,
        name=asked,
    )


def _options(name: str, size: int) -> dict[str, Any]:
    """Return the options that a network needs so that torchvision's default weights fit it and mean the same."""
    if name in ("googlenet", "inception_v3"):
        return {"transform_input": True, "aux_logits": False, "init_weights": False}
    return {"image_size": size} if name.startswith("vit_") else {}
