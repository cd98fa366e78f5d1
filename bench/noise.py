"""How much chance noisy copies leave in a smooth map, and whether pairs x + z, x - z leave less.

    python -m bench.noise [--models lite0,resnet50] [--photographs 40] [--pairs 16] [--json FILE]

For each photograph, gradients at x + z and x - z for some z. The squared standard error of n independent copies is
s / n, with s the variance of one copy, summed over the entries. That of n copies in pairs is 2 t / n, with t the
variance of a pair's mean. So 100 t / s copies in pairs equal 50 independent ones. The same with the norms of windows of
8 pixels in place of the entries, whose standard errors come from a jackknife, as in a result's `smoothing`.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

import torch
from rich.progress import track
from torch import Tensor

from bench import record
from bench.measure import console
from bench.photographs import model as load
from bench.photographs import photographs
from secondsight.config import SIGMA
from secondsight.model.classifier import Classifier
from secondsight.operators.linearisation import linearise
from secondsight.operators.noise import Spread
from secondsight.optim.sliding_windows import SlidingWindows

AT_A_TIME = 4
SHOWN = 16
"""The copies of `picture`, whose standard error is shown."""


def gradients(model: Classifier, x: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    """The gradients at x + z and at x - z, one z in a row."""
    generator = torch.Generator().manual_seed(0)
    deviation = SIGMA * float(x.max() - x.min())
    plus, minus = [], []
    with model.ready():
        target = linearise(model, x[None]).target
        for start in range(0, pairs, AT_A_TIME):
            z = deviation * torch.randn((min(AT_A_TIME, pairs - start), *x.shape), generator=generator)
            plus.append(linearise(model, x + z, target).gradients(last=True))
            minus.append(linearise(model, x - z, target).gradients(last=True))
    return torch.cat(plus), torch.cat(minus)


def measured(plus: Tensor, minus: Tensor, norms: SlidingWindows) -> dict[str, float]:
    """The figures of one photograph."""
    means = (plus + minus) / 2
    one = float(plus.var(0).sum() + minus.var(0).sum()) / 2
    pair = float(means.var(0).sum())
    average = means.mean(0)
    # What is left of the average's square without the noise's own.
    square = max(float(average @ average) - pair / len(means), 0.0)
    # As many copies in pairs as apart.
    in_pairs, apart, shown = (Spread(norms.group_norms) for _ in range(3))
    ordered = torch.stack([plus, minus], 1).flatten(0, 1)
    in_pairs.add(ordered[: len(plus)])
    apart.add(plus)
    shown.add(ordered[:SHOWN])
    together, singly = in_pairs.relative_error() or math.nan, apart.relative_error() or math.nan
    return {
        "copies": 100 * pair / one,
        "window_copies": 50 * (together / singly) ** 2,
        "entry_error": math.sqrt(2 * pair / SHOWN) / math.sqrt(square) if square else math.nan,
        "window_error": shown.relative_error() or math.nan,
    }


def summary(found: list[dict[str, float]]) -> dict[str, float]:
    """Medians over the photographs, and the quartiles of the copies that equal 50 independent ones."""
    figures = {key: statistics.median(one[key] for one in found) for key in found[0]}
    low, _, high = statistics.quantiles([one["copies"] for one in found], n=4)
    return figures | {"copies_low": low, "copies_high": high, "photographs": len(found)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lite0,resnet50")
    parser.add_argument("--photographs", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    raw: dict[str, list[dict[str, float]]] = {}
    for name in arguments.models.split(","):
        model, raw[name] = load(name), []
        for file in track(photographs(arguments.photographs), name, console=console, transient=True):
            x = model.tensor(file)
            raw[name].append(measured(*gradients(model, x, arguments.pairs), SlidingWindows(tuple(x.shape), 8)))
        figures[name] = summary(raw[name])
        console.print(name, figures[name], highlight=False)
        record.write(arguments.json, "noise", figures, raw)


if __name__ == "__main__":
    main()
