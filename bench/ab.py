"""Old code against new code: alternating processes, and the ratio of their times with its 95 % interval.

    python -m bench.ab --base COMMIT [--rows caso,cafo,many] [--models lite0,resnet50] [--pairs 20] [--json FILE]

A pair is one process with the code of COMMIT and one with the code of this folder, on the same photographs, one right
after the other, the order changing from pair to pair. A process loads the network, explains one photograph that does
not count, and times the row. The ratio is new over old, the geometric mean over the pairs; its interval is Student's,
on the logarithms. A row passes if the upper end is at most 1.05.

With --json the pairs are written as they come, and a run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import track
from scipy.stats import t as student

ROOT = Path(__file__).parents[1]
LIMIT = 1.05
ROWS = {"caso": 10, "cafo": 20, "many": 40}
"""The photographs of each row: enough that a process times some seconds; "many" takes all of them in one call."""

Pairs = dict[str, list[tuple[float, float]]]
"""By row: seconds of the old and of the new code."""

console = Console()


def measure(network: str, row: str) -> float:
    """Time one row with the code that this process imports. Only names that every version has are used."""
    import secondsight as ss
    from bench.photographs import model, photographs

    classifier = model(network)
    inputs = [classifier.tensor(file) for file in photographs(ROWS[row])]
    method = "caso" if row == "many" else row
    ss.explain(classifier, ss.example_photograph(), method)
    start = time.perf_counter()
    if row == "many":
        ss.explain(classifier, inputs, method)
    else:
        for x in inputs:
            ss.explain(classifier, x, method)
    return time.perf_counter() - start


def measured_in(source: Path, network: str, row: str) -> float:
    """Time one row in a process of its own, with the package in `source`."""
    command = [sys.executable, "-m", "bench.ab", "--measure", network, row]
    environment = os.environ | {"PYTHONPATH": str(source / "src")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{source}: {result.stderr}")
    return float(result.stdout.splitlines()[-1])


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["git", "worktree", "add", "--detach", folder, commit], cwd=ROOT, check=True, capture_output=True
        )
        try:
            yield Path(folder)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)


def interval(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The mean ratio of new to old, and its 95 % interval."""
    logs = [math.log(new / old) for old, new in pairs]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def verdict(name: str, pairs: list[tuple[float, float]]) -> str:
    """One line on a row."""
    ratio, low, high = interval(pairs)
    old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    word = "passes" if high <= LIMIT else "does not pass"
    times = f"old {old:.2f} s, new {new:.2f} s"
    return f"{name}: {ratio:.3f} [{low:.3f}, {high:.3f}], {len(pairs)} pairs, {times}: {word}"


def run(base: Path, names: list[str], count: int, pairs: Pairs, file: Path | None) -> None:
    """Add pairs until each row has enough, one of each row in turn, so that a short run has some of all."""
    for i in track(range(count), "pairs", console=console, transient=True):
        for name in names:
            if len(pairs.setdefault(name, [])) > i:
                continue
            sides = [base, ROOT] if i % 2 else [ROOT, base]
            times = {side: measured_in(side, *name.split("/")) for side in sides}
            pairs[name].append((times[base], times[ROOT]))
            if file is not None:
                file.write_text(json.dumps(pairs, indent=1))
            console.print(verdict(name, pairs[name]), highlight=False)


def main() -> None:
    """Compare two versions, or (in a process of its own) measure one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--models", default="lite0,resnet50")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="file for the seconds of each pair")
    parser.add_argument("--measure", nargs=2, metavar=("MODEL", "ROW"), help="time this code only")
    arguments = parser.parse_args()
    if arguments.measure:
        print(measure(*arguments.measure))
        return
    if unknown := set(arguments.rows.split(",")) - set(ROWS):
        parser.error(f"--rows: {', '.join(sorted(unknown))}; may be {', '.join(ROWS)}")
    if arguments.base is None:
        parser.error("--base is needed")
    file: Path | None = arguments.json
    pairs: Pairs = json.loads(file.read_text()) if file is not None and file.exists() else {}
    names = [f"{network}/{row}" for row in arguments.rows.split(",") for network in arguments.models.split(",")]
    with checkout(arguments.base) as base:
        run(base, names, arguments.pairs, pairs, file)
    lines = [verdict(name, pairs[name]) for name in names]
    console.print("\n".join(["", *lines]), highlight=False)
    if not all(line.endswith(": passes") for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
