"""The class names of ImageNet."""

from __future__ import annotations

from importlib import resources


def imagenet_labels() -> list[str]:
    """Return the 1000 class names of ImageNet (ILSVRC 2012), in the order of the usual class indices."""
    text = resources.files("secondsight.zoo").joinpath("imagenet_labels.txt").read_text("utf-8")
    return text.splitlines()
