"""Networks of timm, by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from secondsight.errors import LONGEST, ModelError
from secondsight.model import images
from secondsight.model.classifier import Classifier
from secondsight.zoo.hubs import check_name, huggingface_file, imported, torch_file
from secondsight.zoo.labels import imagenet_labels
from secondsight.zoo.weights import filled, read_checkpoint, read_safetensors


def load(name: str, file: Path | None) -> Classifier:
    """Make a network of timm, with the preprocessing that timm gives for it.

    A network of 1000 classes gets the labels of ImageNet. Others have no labels.

    Args:
        name: as timm knows it, such as "resnet50.a1_in1k".
        file: your weights, in safetensors; the network gets as many classes as they have. None: the pretrained ones,
            downloaded if the cache does not have them.

    Raises:
        InputError: if timm knows no network of this name.
        ModelError: if timm is not installed, the network gives features instead of classes, or its weights are
            missing, cannot be downloaded or read, or do not fit.
    """
    asked = f"timm:{name}"
    timm: Any = imported("timm", asked, "pip install 'secondsight[timm]'")
    check_name("timm", name, [*timm.list_models(), *timm.list_models(include_tags=True)])
    config = timm.get_pretrained_cfg(name)
    if config is not None and config.num_classes < 2:
        raise ModelError(f"{asked} gives features, not classes")
    if file is not None:
        own = read_safetensors(file)
        net = filled(timm.create_model(name, **_classes(config, own)), own, str(file))
    else:
        weights = read_checkpoint(_file(config, asked))
        # Filled by timm itself, because it adapts old checkpoints to its present code.
        try:
            net = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": weights})
        except Exception as error:
            # Each network adapts its checkpoints in its own code, so any kind of error may come.
            why = " ".join(str(error).split())[:LONGEST]
            raise ModelError(f"the weights of {asked} do not fit it: {why}") from error
        net.pretrained_cfg.pop("state_dict", None)
    given = timm.data.resolve_model_data_config(net)
    channels, height, width = given["input_size"]
    model = Classifier(
        net,
        mean=given["mean"],
        std=given["std"],
        size=(height, width),
        labels=imagenet_labels() if net.num_classes == 1000 else None,
        channels=channels,
        resize=math.floor(min(height, width) / given["crop_pct"]),
        interpolation=given["interpolation"] if given["interpolation"] in images.FILTERS else "bicubic",
        name=asked,
    )
    if given["crop_mode"] != "center":
        model.notes.append(
            f"timm's preprocessing of this network is {given['crop_mode']}; here the centre of the picture is cut"
        )
    return model


def _classes(config: Any, weights: dict[str, Tensor]) -> dict[str, int]:
    """Return timm's option for the number of classes, as many as the last layer has in `weights`. Empty: not known."""
    named = getattr(config, "classifier", None)
    # A distilled network has two last layers, both with all classes.
    layer = named[0] if isinstance(named, tuple) else named
    last = weights.get(f"{layer}.weight")
    return {} if last is None or not last.ndim else {"num_classes": len(last)}


def _file(config: Any, asked: str) -> Path:
    """Return the file of the pretrained weights on this machine, downloaded if it is not there yet."""
    if config is not None and config.hf_hub_id:
        names = [config.hf_hub_filename] if config.hf_hub_filename else ["model.safetensors", "pytorch_model.bin"]
        return huggingface_file(config.hf_hub_id, names, asked)
    if config is not None and isinstance(config.url, str) and config.url and not config.custom_load:
        return torch_file(config.url, asked)
    raise ModelError(f"timm has no pretrained weights for this network: give your own, {asked}@FILE.safetensors")
