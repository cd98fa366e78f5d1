"""How the cost grows with the picture, the classes, the photographs in one call and the threads.

    python -m bench.scaling [--quick] [--repeats 3] [--plot FILE.png] [--json FILE]

Needs nothing but the project: EfficientNet-Lite0 and the bundled photograph at other sizes, and a small network with as
many classes as wanted. The plot has seconds, log-log, with the slope of each line.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import secondsight as ss
from bench import record
from bench.measure import REPEATS, console, loss_gradient, timed

METHODS = ("gradient", "cafo", "caso")
SIZES = (112, 160, 224, 320, 448, 640, 896)
CLASSES = (10, 30, 100, 300, 1000, 3000, 10_000)
BATCHES = (1, 2, 4, 8, 16)
SMALL_SIDE = 64


@dataclass(frozen=True)
class Setting:
    """One point of an axis: a network, inputs for it in one tensor, and the threads."""

    value: int
    model: ss.Classifier
    batch: Tensor
    threads: int


@dataclass
class Axis:
    """What was measured along one axis, a number for each value in every list.

    key: its name in bench/figures.json.
    seconds: of the whole call, the median of its repeats.
    costs: the same for each input, in gradients of one input under the same setting.
    products: H-products of caso, in the mean over the inputs.
    """

    key: str
    name: str
    values: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {method: [] for method in METHODS})
    costs: dict[str, list[float]] = field(default_factory=lambda: {method: [] for method in METHODS})
    products: list[float] = field(default_factory=list)

    def add(self, setting: Setting, repeats: int) -> None:
        self.values.append(setting.value)
        model, batch = setting.model, setting.batch
        with threads(setting.threads):
            # The first call pays for checks and buffers.
            explanations = ss.explain(model, list(batch))
            unit = _median(max(repeats, REPEATS), loss_gradient(model, batch[:1]))
            for method in METHODS:
                work = loss_gradient(model, batch) if method == "gradient" else _explain(model, batch, method)
                seconds = _median(repeats, work)
                self.seconds[method].append(seconds)
                self.costs[method].append(seconds / len(batch) / unit)
        self.products.append(statistics.fmean(e.products for e in explanations))

    def slope(self, method: str) -> float:
        """The exponent p of seconds = constant * value^p, by least squares on logarithms."""
        if len(self.values) < 2:
            return math.nan
        return float(np.polyfit(np.log(self.values), np.log(self.seconds[method]), 1)[0])

    def figures(self) -> dict[str, object]:
        """The ends of the axis, the costs and products of caso along it, and the seconds and slope of each method."""
        caso = {
            "ge_least": min(self.costs["caso"]),
            "ge_most": max(self.costs["caso"]),
            "products_least": min(self.products),
            "products_most": max(self.products),
        }
        methods = {
            method: {"from": self.seconds[method][0], "to": self.seconds[method][-1], "slope": self.slope(method)}
            for method in METHODS
        }
        return {"from": self.values[0], "to": self.values[-1]} | caso | methods

    def table(self) -> Table:
        table = Table(title=f"cost against {self.name}")
        for column in ("", *(f"{method}, s" for method in METHODS), "cafo, g.e.", "caso, g.e.", "caso, H-products"):
            table.add_column(column, justify="right")
        for i, value in enumerate(self.values):
            seconds = [f"{self.seconds[method][i]:.3f}" for method in METHODS]
            costs = [f"{self.costs[method][i]:.2f}" for method in ("cafo", "caso")]
            table.add_row(f"{value}", *seconds, *costs, f"{self.products[i]:.1f}")
        table.add_row("slope", *(f"{self.slope(method):.2f}" for method in METHODS))
        return table


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def lite0_net() -> nn.Module:
    return ss.load_model("efficientnet-lite0").net


def lite0(side: int) -> ss.Classifier:
    """EfficientNet-Lite0, which takes pictures of any size, for those of one."""
    return ss.Classifier(lite0_net(), mean=[127 / 255] * 3, std=[128 / 255] * 3, size=side, name=f"lite0 at {side}")


def small(classes: int) -> ss.Classifier:
    """Three convolutions with random weights, the same for any number of classes, and a linear layer."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.ReLU()]
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))
        # Logits of the size that trained networks have.
        net[-1].weight.data.normal_(std=2.0)
    return ss.Classifier(net, size=SMALL_SIDE, name=f"small, {classes} classes")


def photograph(model: ss.Classifier, count: int = 1) -> Tensor:
    """The bundled photograph and mirrored, darkened versions of it."""
    x = model.tensor(ss.example_photograph())
    return torch.stack([(x.flip(-1) if i % 2 else x) * (1 - i / 32) for i in range(count)])


def axes(quick: bool) -> dict[tuple[str, str], list[Setting]]:
    """All that is to be measured, by the key and the name of the axis."""
    sizes, classes, batches = (SIZES[:2], CLASSES[:3], BATCHES[:2]) if quick else (SIZES, CLASSES, BATCHES)
    usual, most = torch.get_num_threads(), os.cpu_count() or 1
    counts = sorted({*(2**i for i in range(most.bit_length()) if 2**i <= most), most})
    side = 112 if quick else 224
    standard = lite0(side)
    return {
        ("side", "side of the picture, pixels (EfficientNet-Lite0)"): [
            Setting(n, model, photograph(model), usual) for n in sizes for model in [lite0(n)]
        ],
        ("classes", f"classes (small network at {SMALL_SIDE} pixels)"): [
            Setting(n, model, photograph(model), usual) for n in classes for model in [small(n)]
        ],
        ("photographs", f"photographs in one call (EfficientNet-Lite0 at {side})"): [
            Setting(n, standard, photograph(standard, n), usual) for n in batches
        ],
        ("thread-count", f"threads (EfficientNet-Lite0 at {side})"): [
            Setting(n, standard, photograph(standard), n) for n in counts
        ],
    }


def figure(measured: list[Axis]) -> Figure:
    result = Figure(figsize=(13, 9), layout="constrained")
    for axes, axis in zip(result.subplots(2, 2).flat, measured, strict=True):
        for method in METHODS:
            axes.loglog(
                axis.values, axis.seconds[method], "o-", label=f"{method}, slope {axis.slope(method):.2f}", markersize=4
            )
        axes.set_xticks(axis.values, [f"{value:,}" for value in axis.values])
        axes.minorticks_off()
        axes.set_xlabel(axis.name)
        axes.set_ylabel("seconds per call")
        axes.grid(alpha=0.3)
        axes.legend()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run: the smallest values, once each")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="PNG file for the plot")
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    if arguments.quick and arguments.json:
        parser.error("--quick measures too little for --json")
    repeats = 1 if arguments.quick else arguments.repeats
    wanted = axes(arguments.quick)
    measured = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scaling", total=sum(map(len, wanted.values())))
        for (key, name), settings in wanted.items():
            axis = Axis(key, name)
            measured.append(axis)
            for setting in settings:
                progress.update(task, description=f"{name}: {setting.value}")
                axis.add(setting, repeats)
                progress.advance(task)
            console.print(axis.table())
            figures = {axis.key: axis.figures() for axis in measured}
            record.write(arguments.json, "scaling", figures, list(map(asdict, measured)))
    if arguments.plot is not None:
        figure(measured).savefig(arguments.plot, dpi=110)


def _explain(model: ss.Classifier, batch: Tensor, method: str) -> Callable[[], object]:
    return lambda: ss.explain(model, list(batch), method)


def _median(repeats: int, work: Callable[[], object]) -> float:
    return statistics.median(timed(work) for _ in range(repeats))


if __name__ == "__main__":
    main()
