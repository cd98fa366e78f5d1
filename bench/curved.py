"""What maps cost on networks that are not piecewise linear, with the exact Hessian and with Gauss-Newton.

    python -m bench.curved [--models vit-tiny,...] [--photographs 4] [--json FILE]

The networks are timm's. ViT-Tiny and MobileNetV3-Small are trained, with weights from the folder that holds the
photographs; the others have random weights. Each photograph is explained by `caso` with either Hessian, beside one loss
gradient on the same network. SmoothGrad with 50 copies is Captum's, on the first photograph. Peak memory is that of the
first photograph, over that of one gradient.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from rich.progress import track

import secondsight as ss
from bench import record
from bench.curved_networks import classifier
from bench.measure import console, timing
from bench.memory import peak_bytes
from bench.page_tables import CURVED
from bench.photographs import photographs
from bench.row import quantile

MEMORY_LIMITS = 3, 2
"""What the peak memory over a gradient's may be, exact and Gauss-Newton."""

LIMITS = {"vit-tiny": (16, 9), "mobilenetv3": (16, 9)}
"""What the median may be, exact and Gauss-Newton; 14 and 8 for the others."""


def measure(name: str, count: int) -> dict[str, Any]:
    """Measure one network."""
    model = classifier(name)
    files = photographs(count)
    inputs = [model.tensor(file) for file in files]
    gradient_bytes = peak_bytes(name, "gradient", files[0])
    found: dict[str, Any] = {"gradient_bytes": gradient_bytes}
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
            "memory": peak_bytes(name, f"caso-{curvature}", files[0]) / gradient_bytes,
            "memory_limit": MEMORY_LIMITS[i],
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
                f"{c['certified']} of {f['photographs']} certified, memory {c['memory']:.1f} times a gradient's; "
                f"SmoothGrad {f['smoothgrad']:.0f}",
                highlight=False,
            )
        record.write(arguments.json, "curved", found)


if __name__ == "__main__":
    main()
