"""What maps cost on networks that are not piecewise linear, with the exact Hessian and with Gauss-Newton.

    python -m bench.curved [--models vit-tiny,...] [--photographs 4] [--json FILE]

The networks are timm's. ViT-Tiny and MobileNetV3-Small are trained, with weights from the folder that holds the
photographs; the others have random weights. Each photograph is explained by `caso` with either Hessian, beside one loss
gradient on the same network. SmoothGrad with 50 copies is Captum's, on the first photograph.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from safetensors.torch import load_file

import secondsight as ss
from bench import record
from bench.measure import console, timing
from bench.page_tables import CURVED
from bench.photographs import SHARED, photographs
from bench.row import quantile

ARCHITECTURES = {
    "vit-tiny": ("vit_tiny_patch16_224", "vit-tiny-200", 200),
    "mobilenetv3": ("tf_mobilenetv3_small_100", "mobilenetv3-small", 1000),
    "vit-small": ("vit_small_patch16_224", None, 1000),
    "convnext": ("convnext_tiny", None, 1000),
    "efficientnet": ("efficientnet_b0", None, 1000),
    "se-resnet": ("seresnet50", None, 1000),
}
"""timm's name of each network, its weights and its classes."""

LIMITS = {"vit-tiny": (16, 9), "mobilenetv3": (16, 9)}
"""What the median may be, exact and Gauss-Newton; 14 and 8 for the others."""


def classifier(name: str) -> ss.Classifier:
    """Load a network."""
    import timm

    architecture, weights, classes = ARCHITECTURES[name]
    torch.manual_seed(0)
    net = timm.create_model(architecture, num_classes=classes)
    if weights is not None:
        net.load_state_dict(load_file(SHARED / "weights" / f"{weights}.safetensors"))
    return ss.Classifier(net, mean=0.5, std=0.5, size=224, channels=3, name=architecture)


def measure(name: str, count: int) -> dict[str, Any]:
    """Measure one network."""
    model = classifier(name)
    inputs = [model.tensor(file) for file in photographs(count)]
    found: dict[str, Any] = {}
    for i, curvature in enumerate(("exact", "gauss-newton")):
        method = ss.CASO(curvature=curvature)
        # The first map also pays for the checks of a new network.
        ss.explain(model, inputs[0], method)
        costs, products, certified = [], [], 0
        for x in track(inputs, f"{name}, {curvature}", console=console, transient=True):
            one = timing(model, x, lambda x=x, method=method: ss.explain(model, x, method))
            costs.append(one.cost)
            products.append(one.result.products)
            certified += one.result.certificate.holds
        found[curvature] = {
            "ge": statistics.median(costs),
            "ge_95": quantile(costs, 0.95),
            "products": statistics.median(products),
            "certified": certified,
            "limit": LIMITS.get(name, (14, 8))[i],
        }
    smooth = timing(model, inputs[0], lambda: ss.explain(model, inputs[0], "smoothgrad"))
    return found | {"smoothgrad": smooth.cost, "photographs": count, "gradient": smooth.unit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(CURVED))
    parser.add_argument("--photographs", type=int, default=4)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    found = {}
    for name in arguments.models.split(","):
        found[name] = f = measure(name, arguments.photographs)
        for curvature in ("exact", "gauss-newton"):
            c = f[curvature]
            console.print(
                f"{name}, {curvature}: {c['ge']:.1f} g.e. (95 %: {c['ge_95']:.1f}), {c['products']:g} products, "
                f"{c['certified']} of {f['photographs']} certified; SmoothGrad {f['smoothgrad']:.0f}",
                highlight=False,
            )
        record.write(arguments.json, "curved", found)


if __name__ == "__main__":
    main()
