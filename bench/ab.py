"""Two versions in alternating processes, and the ratio of their times with its 95 % interval.

    python -m bench.ab --base COMMIT [--rows caso,cafo,many] [--models lite0,resnet50] [--pairs 20] [--json FILE]
    python -m bench.ab --rows captum,probable,window [--models lite0,resnet50] [--pairs 20] [--json FILE]

For caso, cafo and many, a pair is one process with the code of COMMIT (old) and one with the code of this folder (new).
For captum both have the code of this folder: `ss.explain` on a list of raw inputs (old) and `CASO(net).attribute` on
the same inputs as one tensor (new). For probable it is `caso` (old) and `caso(bound=probable)` (new), for window
`caso(groups=pixel)` (old) and `caso(groups=window:8)` (new).

Each process loads the network and explains a photograph that does not count. Then they take turns: photograph by
photograph or, for many and captum, all in one call. The other process waits. Which one begins changes from turn to turn
and from pair to pair. The ratio is new over old, the mean of the pairs by logarithms, with Student's interval. A row
passes if the upper end is at most 1.05, or 2.2 for probable and 1.3 for window. Leave the machine alone meanwhile.

With --json the pairs are written as they come, and a run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from scipy.stats import t as student

ROOT = Path(__file__).parents[1]
LIMITS = {"caso": 1.05, "cafo": 1.05, "many": 1.05, "captum": 1.05, "probable": 2.2, "window": 1.3}
"""What the ratio of each row may be."""
PHOTOGRAPHS = {"caso": 8, "cafo": 12, "many": 40, "captum": 16, "probable": 8, "window": 8}
"""The photographs of each row: enough that a pair times some seconds."""
IN_ONE_CALL = ("many", "captum")
ADAPTER = {
    "captum": ("captum-list", "captum-tensor"),
    "probable": ("probable-caso", "probable-probable"),
    "window": ("window-pixel", "window-window"),
}
"""Rows that do not compare two versions of the package: what the two processes serve instead."""

Seconds = list[tuple[float, float]]
"""For each pair: of the old and of the new code."""

console = Console(width=160)


def serve(network: str, rows: list[str]) -> None:
    """Explain the next photographs whenever a line comes in, and print the seconds.

    This is the process that is measured. For rows that compare versions, only names that every version of the package
    has are used.
    """
    from bench.photographs import model

    classifier = model(network)
    works = {row: [*turns(classifier, row)] for row in rows}
    print("ready", flush=True)
    for row in rows:
        for work in works[row]:
            sys.stdin.readline()
            start = time.perf_counter()
            work()
            print(time.perf_counter() - start, flush=True)
    # Stay until the other process is done, too: leaving takes a second of both cores.
    sys.stdin.read()


def turns(classifier: Any, row: str) -> Iterator[Callable[[], object]]:
    """Give the work of each turn of a row, after a call that does not count."""
    import secondsight as ss
    from bench.photographs import photographs

    inputs = [classifier.tensor(file) for file in photographs(PHOTOGRAPHS[row.partition("-")[0]])]
    if row.startswith("captum"):
        yield adapter_turn(classifier, row, inputs)
        return
    named = {
        "many": "caso",
        "probable-caso": "caso",
        "probable-probable": "caso(bound=probable)",
        "window-pixel": "caso(groups=pixel)",
        "window-window": "caso(groups=window:8)",
    }
    method = named.get(row, row)
    ss.explain(classifier, ss.example_photograph(), method)
    for turn in [inputs] if row in IN_ONE_CALL else inputs:
        yield lambda turn=turn: ss.explain(classifier, turn, method)


def adapter_turn(classifier: Any, row: str, inputs: list[Any]) -> Callable[[], object]:
    """Give the work of the one turn of captum: the same raw inputs as a list, or as one tensor for the adapter."""
    import torch

    import secondsight as ss
    from secondsight.captum import CASO

    batch = (torch.stack(inputs) - classifier.mean.float()) / classifier.std.float()
    if row == "captum-tensor":
        attribution = CASO(classifier.net)
        attribution.attribute(batch[:1])
        return lambda: attribution.attribute(batch)
    raw = ss.Classifier(classifier.net, input_shape=tuple(batch.shape[1:]))
    ss.explain(raw, batch[0])
    return lambda: ss.explain(raw, list(batch))


class Side:
    """A process that serves rows with the package in `source`."""

    def __init__(self, source: Path, network: str, rows: list[str]) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "bench.ab", "--serve", network, ",".join(rows)]
        environment = os.environ | {"PYTHONPATH": str(source / "src")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)

    def answer(self) -> str:
        """Wait for a line of the process."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench.ab: {' '.join(map(str, self.process.args))} failed")
        return line

    def turn(self) -> float:
        """Let the process explain the next photographs, and return its seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.answer())


def pair(sides: tuple[Side, Side], rows: list[str], number: int) -> dict[str, tuple[float, float]]:
    """Measure one pair: for each row, the seconds of the old and of the new code."""
    for side in sides:
        side.answer()
    found = {}
    for row in rows:
        seconds = [0.0, 0.0]
        for turn in range(1 if row in IN_ONE_CALL else PHOTOGRAPHS[row]):
            for i in (0, 1) if (turn + number) % 2 else (1, 0):
                seconds[i] += sides[i].turn()
        found[row] = seconds[0], seconds[1]
    for side in sides:
        side.process.communicate()
    return found


def all_pairs(base: Path | None, network: str, rows: list[str], number: int) -> dict[str, tuple[float, float]]:
    """Measure one pair of each row: rows that compare versions share two processes, the others have two each."""
    found = {}
    versions = [row for row in rows if row not in ADAPTER]
    if versions and base is not None:
        found |= pair((Side(base, network, versions), Side(ROOT, network, versions)), versions, number)
    for row in (row for row in rows if row in ADAPTER):
        old, new = ADAPTER[row]
        found |= pair((Side(ROOT, network, [old]), Side(ROOT, network, [new])), [row], number)
    return found


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


def short_name(commit: str) -> str:
    """The short hash of a commit."""
    command = ["git", "rev-parse", "--short", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def interval(pairs: Seconds) -> tuple[float, float, float]:
    """The mean ratio of new to old, and its 95 % interval."""
    logs = [math.log(new / old) for old, new in pairs]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def figures(row: str, pairs: Seconds) -> dict[str, Any]:
    """The ratio of a row, its interval and the median seconds."""
    ratio, low, high = interval(pairs)
    old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {"ratio": ratio, "low": low, "high": high, "limit": LIMITS[row], "pairs": len(pairs), "old": old, "new": new}


def verdict(name: str, pairs: Seconds) -> str:
    """One line on a row, which is named after its network and itself."""
    f = figures(name.rpartition("/")[2], pairs)
    word = "passes" if f["high"] <= f["limit"] else "does not pass"
    times = f"old {f['old']:.2f} s, new {f['new']:.2f} s"
    return f"{name}: {f['ratio']:.3f} [{f['low']:.3f}, {f['high']:.3f}], {f['pairs']} pairs, {times}: {word}"


class Report:
    """The pairs so far, by network and row: printed and, if wanted, written as they come."""

    def __init__(self, file: Path | None, commit: str | None) -> None:
        """Read the pairs of a run that was cut short."""
        # Not at the top of the file, because the processes that are measured may have another version of the package.
        from bench import record

        self.file, self.write = file, record.write
        raw = record.read_raw(file) or {"base": None, "pairs": {}}
        self.pairs: dict[str, dict[str, Seconds]] = raw["pairs"]
        self.commit: str | None = raw["base"] or commit
        if commit not in (None, self.commit):
            raise SystemExit(f"bench.ab: {file} is of --base {self.commit}, not {commit}: give another file")

    def of(self, network: str, row: str) -> Seconds:
        """The pairs of a row."""
        return self.pairs.setdefault(network, {}).setdefault(row, [])

    def add(self, network: str, row: str, seconds: tuple[float, float]) -> None:
        """Add a pair."""
        self.of(network, row).append(seconds)
        console.print(self.line(network, row), highlight=False)
        found = {
            name: {row: self.figures(row, pairs) for row, pairs in rows.items() if pairs}
            for name, rows in self.pairs.items()
        }
        self.write(self.file, "ab", found, {"base": self.commit, "pairs": self.pairs})

    def figures(self, row: str, pairs: Seconds) -> dict[str, Any]:
        """The figures of a row, and what it is compared with."""
        old = {"captum": "explain", "probable": "caso", "window": "caso, groups=pixel"}
        return figures(row, pairs) | {"old_code": old.get(row, self.commit)}

    def line(self, network: str, row: str) -> str:
        """One line on a row."""
        return verdict(f"{network}/{row}", self.of(network, row))


def run(base: Path | None, networks: list[str], rows: list[str], count: int, report: Report) -> None:
    """Add pairs until each row has enough, the networks in turn, so that a short run has some of all."""
    for i in track(range(count), "pairs", console=console, transient=True):
        for network in networks:
            wanted = [row for row in rows if len(report.of(network, row)) <= i]
            for row, seconds in all_pairs(base, network, wanted, i).items():
                report.add(network, row, seconds)


def main() -> None:
    """Compare two versions, or be one of the two processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--rows", default="caso,cafo,many", help=f"some of {', '.join(PHOTOGRAPHS)}")
    parser.add_argument("--models", default="lite0,resnet50")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "ROWS"), help="be one of the two processes")
    arguments = parser.parse_args()
    if arguments.serve:
        network, rows = arguments.serve
        serve(network, rows.split(","))
        return
    networks, rows = arguments.models.split(","), arguments.rows.split(",")
    if unknown := set(rows) - set(PHOTOGRAPHS):
        parser.error(f"--rows: {', '.join(sorted(unknown))}; may be {', '.join(PHOTOGRAPHS)}")
    if set(rows) <= set(ADAPTER):
        report = Report(arguments.json, None)
        run(None, networks, rows, arguments.pairs, report)
    elif arguments.base is None:
        parser.error("--base is needed for these rows")
    else:
        report = Report(arguments.json, short_name(arguments.base))
        with checkout(arguments.base) as base:
            run(base, networks, rows, arguments.pairs, report)
    lines = [report.line(network, row) for row in rows for network in networks]
    console.print("\n".join(["", *lines]), highlight=False)
    if not all(line.endswith(": passes") for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
