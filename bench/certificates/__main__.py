"""How often is a certificate wrong?

    python -m bench.certificates --seed 1 --count 10000

Each problem is a function of the seed and its number. What was judged is kept line by line in a file, so that a run
that was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from rich.table import Table
from scipy.stats import beta

from bench import record
from bench.certificates.verdicts import Verdict, judge
from bench.measure import console

BOUNDS = ("estimated", "probable", "proven")
"""The bases that can be asked for."""


def read(file: Path) -> list[Verdict]:
    """Read what an earlier run judged. A last line that was cut short is dropped."""
    if not file.exists():
        return []
    lines = file.read_text("utf-8").split("\n")
    return [Verdict(**json.loads(line)) for line in lines if line.endswith("}")]


def campaign(seed: int, count: int, bounds: Sequence[str], file: Path, workers: int) -> list[Verdict]:
    """Judge the problems that the file does not have yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    verdicts = [v for v in read(file) if v.number < count and v.asked in bounds]
    done = {(v.number, v.asked) for v in verdicts}
    missing = [(n, [b for b in bounds if (n, b) not in done]) for n in range(count)]
    missing = [(number, left) for number, left in missing if left]
    with file.open("a", encoding="utf-8") as stream:
        # After a line that was cut short.
        stream.write("\n")
        for found in track(_judged(seed, missing, workers), "judging", len(missing), console=console, transient=True):
            for verdict in found:
                stream.write(json.dumps(verdict) + "\n")
                verdicts.append(Verdict(**verdict))
            stream.flush()
    return verdicts


def _judged(seed: int, missing: list[tuple[int, list[str]]], workers: int) -> Iterator[list[dict[str, Any]]]:
    if workers == 1:
        yield from (judge(seed, *one) for one in missing)
        return
    numbers, bounds = zip(*missing, strict=True) if missing else ((), ())
    # Not forked, because torch's threads do not survive that. One thread each, because the matrices are small.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawned, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(judge, itertools.repeat(seed), numbers, bounds, chunksize=8)


def interval(wrong: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Clopper and Pearson)."""
    low = float(beta.ppf(0.025, wrong, count - wrong + 1)) if wrong else 0.0
    high = float(beta.ppf(0.975, wrong + 1, count - wrong)) if wrong < count else 1.0
    return low, high


def figures(verdicts: list[Verdict]) -> dict[str, dict[str, float]]:
    """Count what was wrong, by the basis that the certificates name: all problems, and those in float32."""
    found: dict[str, dict[str, float]] = {}
    for basis in sorted({v.basis for v in verdicts}):
        some = [v for v in verdicts if v.basis == basis]
        found[basis] = _counts(some)
        found[f"{basis}-float32"] = _counts([v for v in some if "float32" in v.traits])
    return found


def _counts(some: list[Verdict]) -> dict[str, float]:
    wrong = [v for v in some if v.wrong]
    low, high = interval(len(wrong), len(some))
    return {
        "problems": len(some),
        "certified": sum(v.holds for v in some),
        "not_bounded": sum(v.relative_gap is None for v in some),
        "wrong": len(wrong),
        "low": low,
        "high": high,
        "gap_wrong": sum(v.gap_wrong for v in some),
        "worst_ratio": max((v.ratio for v in wrong), default=0.0),
        "support_wrong": sum(v.support_wrong > 0 for v in some),
        "bound_wrong": sum(v.bound_wrong for v in some),
        "worst_bound": max((v.shortfall for v in some if v.bound_wrong), default=0.0),
        "path_points": sum(v.path_points for v in some),
        "path_wrong": sum(v.path_wrong for v in some),
        "unsettled": sum(v.unsettled for v in some),
        "products": sum(v.products for v in some) / max(1, len(some)),
    }


def table(found: dict[str, dict[str, float]]) -> Table:
    """Lay out the figures, one column for each basis."""
    result = Table("", *found)
    for name in next(iter(found.values())):
        result.add_row(name.replace("_", " "), *(f"{f[name]:.4g}" for f in found.values()))
    return result


def main() -> None:
    """Run the campaign and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000, help="how many problems")
    parser.add_argument("--bounds", nargs="+", choices=BOUNDS, default=BOUNDS, help="what certificates shall rest on")
    parser.add_argument("--kept", type=Path, help="the file of verdicts; out/bench/certificates-SEED.jsonl by default")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    kept = arguments.kept or Path(f"out/bench/certificates-{arguments.seed}.jsonl")
    verdicts = campaign(arguments.seed, arguments.count, arguments.bounds, kept, arguments.workers)
    found = figures(verdicts)
    console.print(table(found))
    for v in [v for v in verdicts if v.wrong][:20]:
        console.print(f"wrong: problem {v.number}, {v.basis}: {v.kind}, {', '.join(v.traits)}", highlight=False)
    record.write(arguments.json, "certificates", {"seed": arguments.seed, "count": arguments.count, **found})


if __name__ == "__main__":
    main()
