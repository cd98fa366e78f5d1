"""For tests only: a torchvision wheel whose compiled operators do not load beside this torch."""

from __future__ import annotations

import sys

import torch

_KEPT: list[torch.library.Library] = []


def import_torchvision() -> None:
    """Import torchvision; where that fails, declare the operators it misses and import it again.

    Its networks and transforms need none of them.
    """
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        # The operators live as long as the library object does.
        _KEPT.append(library)
        import torchvision  # noqa: F401
