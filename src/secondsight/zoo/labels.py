"""The class names of ImageNet."""

from __future__ import annotations

from importlib import resources


def imagenet_labels() -> list[str]:
    """The 1000 class names of ImageNet (ILSVRC 2012), in the usual order."""
    text = resources.files("secondsight.zoo").joinpath("imagenet_labels.txt").read_text("utf-8")
    return text.splitlines()
