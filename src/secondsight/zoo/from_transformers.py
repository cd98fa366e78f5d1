"""Image classifiers of Hugging Face transformers: a folder of your own, or a name on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from secondsight.errors import InputError, ModelError
from secondsight.model import images
from secondsight.model.classifier import Classifier
from secondsight.zoo.hubs import broken, downloaded, first_line, imported, require_answer
from secondsight.zoo.weights import filled, read_safetensors


class Logits(nn.Module):
    """A network of transformers as one that returns only logits."""

    def __init__(self, net: nn.Module) -> None:
        """Wrap an image classifier of transformers."""
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch of normalised pictures (N, C, H, W) to logits (N, classes)."""
        logits: Tensor = self.net(pixel_values=x).logits
        return logits


def load(name: str, file: Path | None) -> Classifier:
    """Make an image classifier of transformers, with its own preprocessing and labels.

    Args:
        name: OWNER/NAME on the Hugging Face hub, or a folder that `save_pretrained` wrote.
        file: your weights, in safetensors; None: the trained ones. What the hub's cache does not have is downloaded.

    Raises:
        InputError: if the name is neither a folder nor one that the hub can have.
        ModelError: if transformers is not installed, the network cannot be downloaded or read, or it is not trained.
    """
    asked = f"hf:{name}"
    transformers: Any = imported("transformers", asked, "pip install 'secondsight[hf]'")
    try:
        # transformers imports these two classes only when they are asked for, so a broken installation fails here.
        _ = transformers.AutoImageProcessor, transformers.AutoModelForImageClassification
    except Exception as error:
        raise broken("transformers", asked, error) from error
    is_folder = Path(name).is_dir()
    if not is_folder and (name.count("/") > 1 or name.startswith((".", "/", "~"))):
        raise InputError("model", "hf:OWNER/NAME on the hub or hf:FOLDER of a saved model", repr(asked))
    for files in (("config.json",), ("preprocessor_config.json", "processor_config.json")) if is_folder else ():
        if not any((Path(name) / wanted).is_file() for wanted in files):
            raise ModelError(f"{name} has no {files[0]}, which save_pretrained writes")
    with _quiet(transformers):
        try:
            return _made(transformers, name, file, local=True)
        except ModelError:
            raise
        except Exception as error:
            # transformers raises OSError if files are missing, and any kind of error if files are damaged.
            if is_folder or not isinstance(error, OSError):
                raise ModelError(f"{asked} cannot be loaded: {first_line(error)}") from error
        hub: Any = imported("huggingface_hub", asked, "pip install 'secondsight[hf]'")
        require_answer(hub.constants.ENDPOINT, asked, "a folder of yours, hf:FOLDER or hf:FOLDER@FILE.safetensors")
        return downloaded(asked, lambda: _made(transformers, name, file, local=False))


def _made(transformers: Any, name: str, file: Path | None, local: bool) -> Classifier:
    # False, because otherwise transformers may ask at the terminal whether to run code of the hub.
    options = {"local_files_only": local, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(name, **options)
    processor = transformers.AutoImageProcessor.from_pretrained(name, backend="pil", **options)
    kind = transformers.AutoModelForImageClassification
    if file is not None:
        net = filled(kind.from_config(config), read_safetensors(file), str(file))
    else:
        net, found = kind.from_pretrained(name, config=config, dtype=torch.float32, output_loading_info=True, **options)
        if missing := sorted(found["missing_keys"]):
            raise ModelError(f"hf:{name} is no trained classifier: it has no weights for {', '.join(missing[:3])}")
    given = processor.to_dict()
    size, resize, squashed = _lengths(given, getattr(config, "image_size", None))
    mean, std = _statistics(given)
    model = Classifier(
        Logits(net),
        mean=mean,
        std=std,
        size=size,
        labels=[config.id2label[i] for i in range(config.num_labels)],
        resize=resize,
        interpolation=_interpolation(given.get("resample")),
        name=f"hf:{name}",
    )
    if squashed:
        model.notes.append("the network's own preprocessing squashes the whole picture; here its centre is cut")
    return model


def _lengths(given: dict[str, Any], image_size: Any) -> tuple[tuple[int, int], int, bool]:
    """Return (height, width) of the cut, the length of the shorter side before it, and whether the network's own
    preprocessing squashes the whole picture instead.
    """
    size, crop = _edges(given.get("size") or image_size), _edges(given.get("crop_size"))
    shorter = size.get("shortest_edge") or min(size.get("height", 0), size.get("width", 0))
    if not shorter:
        raise ModelError(f"the size of the network's pictures is not understood: {given.get('size')}")
    if given.get("do_center_crop") and crop:
        return (crop["height"], crop["width"]), shorter, False
    if "shortest_edge" not in size:
        return (size["height"], size["width"]), shorter, True
    # ConvNeXt cuts the centre below 384 pixels and squashes whole pictures from there on.
    share = given.get("crop_pct")
    return (shorter, shorter), int(shorter / share) if share and shorter < 384 else shorter, shorter >= 384


def _edges(size: Any) -> dict[str, int]:
    if isinstance(size, int):
        return {"height": size, "width": size}
    if isinstance(size, (list, tuple)):
        return {"height": size[0], "width": size[1]}
    return dict(size or {})


def _statistics(given: dict[str, Any]) -> tuple[float | list[float], float | list[float]]:
    """Return mean and standard deviation for pixels in [0, 1]. The given ones may be for another range, as [0, 255]."""
    top = 255 * given.get("rescale_factor", 1 / 255) if given.get("do_rescale", True) else 255.0
    if not given.get("do_normalize", True):
        return 0.0, 1 / top
    return [m / top for m in given["image_mean"]], [s / top for s in given["image_std"]]


def _interpolation(resample: int | None) -> str:
    names = {int(number): name for name, number in images.FILTERS.items()}
    return names.get(int(Image.Resampling.BILINEAR if resample is None else resample), "bicubic")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and reports of transformers, and restore its settings at the end."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
