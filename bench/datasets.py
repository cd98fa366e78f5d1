"""What a run over a dataset costs, beside the same photographs in one call; and Ray beside the local engine.

    python -m bench.datasets [--models lite0] [--rounds 3] [--photographs 40] [--ray 200] [--json FILE]

The run reads its photographs from files and stores the maps, and the call has them in memory. They take turns. Ray and
the local engine are compared from the first chunk that is done to the last: a start of Ray takes seconds, whatever it
does then. Each of Ray's two workers has one thread, and the local engine has two.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

import secondsight as ss
from bench import record
from bench.measure import console, timed, timing
from bench.photographs import model, photographs
from bench.row import Figures

LIMIT = 1.10
"""What a run may cost at most, as a multiple of one call."""
RAY_LIMIT = 0.85
"""The pace of Ray's two workers at least, as a share of the local engine's."""
RAY_CHUNK = 16
"""Items in a file of the comparison: those of a call, and few enough for workers to end at nearly the same time."""


def run_beside_call(classifier: ss.Classifier, files: list[Path], rounds: int) -> Figures:
    """Time runs and calls in turn, and what the runs leave on the disk."""
    inputs = [classifier.tensor(file) for file in files]
    ss.explain(classifier, inputs[:2])
    calls, runs, units, size = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number in track(range(rounds), f"{classifier.name} run", console=console, transient=True):
            out = Path(folder, str(number))
            calls.append(call := timing(classifier, inputs[0], lambda: ss.explain(classifier, inputs)))
            runs.append(timed(lambda out=out: ss.run(classifier, files, out=out)))
            units.append(call.unit)
            size = sum(file.stat().st_size for file in (out / "maps").iterdir())
        again = timed(lambda: ss.run(classifier, files, out=Path(folder, "0")))
    each, unit = statistics.median(runs) / len(files), statistics.median(units)
    ratio = statistics.median(run / call.seconds for run, call in zip(runs, calls, strict=True))
    return {
        "photographs": len(files),
        "rounds": rounds,
        "seconds": each,
        "ge": each / unit,
        "call_ge": statistics.median(call.seconds for call in calls) / len(files) / unit,
        "ratio": ratio,
        "limit": LIMIT,
        "kilobytes": size / len(files) / 1e3,
        "gigabytes_of_imagenet": size / len(files) * 1.2e6 / 1e9,
        "again": again,
    }


def pace(classifier: ss.Classifier, files: list[Path], **engine: Any) -> float:
    """Photographs a second, from the first chunk that is done to the last."""
    reports: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        ss.run(
            classifier,
            files,
            out=out,
            chunk=RAY_CHUNK,
            progress=lambda standing: reports.append((time.perf_counter(), standing.done)),
            **engine,
        )
    (first, few), (last, all_of_them) = next(one for one in reports if one[1]), reports[-1]
    return (all_of_them - few) / (last - first)


def ray_beside_local(classifier: ss.Classifier, files: list[Path], workers: int) -> Figures:
    """Time both engines on the same photographs."""
    local = pace(classifier, files)
    by_ray = pace(classifier, files, engine="ray", workers=workers)
    return {
        "photographs": len(files),
        "workers": workers,
        "local": local,
        "ray": by_ray,
        "ratio": by_ray / local,
        "limit": RAY_LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lite0,resnet50")
    parser.add_argument("--rounds", type=int, default=3, help="runs and calls in turn; 0: none")
    parser.add_argument("--photographs", type=int, default=40)
    parser.add_argument(
        "--ray", type=int, default=200, help="photographs for Ray and the local engine, on the first model; 0: none"
    )
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    found: dict[str, dict[str, Figures]] = {name: {} for name in names}
    for name in names if arguments.rounds else ():
        f = run_beside_call(model(name), photographs(arguments.photographs), arguments.rounds)
        found[name]["run"] = f
        console.print(
            f"{name}: a run costs {f['ge']:.2f} g.e. each, one call {f['call_ge']:.2f}: {f['ratio']:.3f}, "
            f"at most {LIMIT:g}; {f['kilobytes']:.1f} kB each; {f['again']:.2f} s to see that nothing is left to do",
            highlight=False,
        )
        record.write(arguments.json, "datasets", found)
    if arguments.ray:
        r = ray_beside_local(model(names[0]), photographs(arguments.ray), torch.get_num_threads())
        found[names[0]]["ray"] = r
        console.print(
            f"{names[0]}: {r['local']:.2f} photographs a second by the local engine, {r['ray']:.2f} by {r['workers']} "
            f"workers of Ray: {r['ratio']:.3f}, at least {RAY_LIMIT:g}",
            highlight=False,
        )
        record.write(arguments.json, "datasets", found)


if __name__ == "__main__":
    main()
