"""Old code against new code: alternating processes, and the ratio of their times with its 95 % interval.

    python -m bench.ab --base COMMIT [--rows caso,cafo,many] [--models lite0,resnet50] [--pairs 20] [--json FILE]

A pair is one process with the code of COMMIT and one with the code of this folder. Each loads the network and explains
photographs that do not count. Then they take turns: photograph by photograph or, for "many", all 40 in one call. The
other process waits. Who begins changes from turn to turn and from pair to pair. The ratio is new over old, the mean of
the pairs by logarithms, with Student's interval. A row passes if the upper end is at most 1.05. Leave the machine alone
meanwhile.

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
ROWS = {"caso": 8, "cafo": 12, "many": 40}
"""The photographs of each row: enough that a pair times some seconds."""

Pairs = dict[str, list[tuple[float, float]]]
"""By row: seconds of the old and of the new code."""

console = Console(width=160)


def serve(network: str, rows: list[str]) -> None:
    """Explain the next photographs whenever a line comes in, and print the seconds.

    This is the process that is measured. Only names that every version of the package has are used.
    """
    import secondsight as ss
    from bench.photographs import model, photographs

    classifier = model(network)
    inputs = {row: [classifier.tensor(file) for file in photographs(ROWS[row])] for row in rows}
    for method in {"caso" if row == "many" else row for row in rows}:
        ss.explain(classifier, ss.example_photograph(), method)
    print("ready", flush=True)
    for row in rows:
        for turn in [inputs[row]] if row == "many" else inputs[row]:
            sys.stdin.readline()
            start = time.perf_counter()
            ss.explain(classifier, turn, "caso" if row == "many" else row)
            print(time.perf_counter() - start, flush=True)
    # Stay until the other process is done, too: leaving takes a second of both cores.
    sys.stdin.read()


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


def pair(base: Path, network: str, rows: list[str], number: int) -> dict[str, tuple[float, float]]:
    """Measure one pair: for each row, the seconds of the old and of the new code."""
    sides = [Side(source, network, rows) for source in (base, ROOT)]
    for side in sides:
        side.answer()
    found = {}
    for row in rows:
        seconds = [0.0, 0.0]
        for turn in range(1 if row == "many" else ROWS[row]):
            for i in (0, 1) if (turn + number) % 2 else (1, 0):
                seconds[i] += sides[i].turn()
        found[row] = seconds[0], seconds[1]
    for side in sides:
        side.process.communicate()
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


def run(base: Path, networks: list[str], rows: list[str], count: int, pairs: Pairs, file: Path | None) -> None:
    """Add pairs until each row has enough, the networks in turn, so that a short run has some of all."""
    for i in track(range(count), "pairs", console=console, transient=True):
        for network in networks:
            wanted = [row for row in rows if len(pairs.setdefault(f"{network}/{row}", [])) <= i]
            if not wanted:
                continue
            for row, times in pair(base, network, wanted, i).items():
                pairs[f"{network}/{row}"].append(times)
                console.print(verdict(f"{network}/{row}", pairs[f"{network}/{row}"]), highlight=False)
            if file is not None:
                file.write_text(json.dumps(pairs, indent=1))


def main() -> None:
    """Compare two versions, or be one of the two processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--models", default="lite0,resnet50")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="file for the seconds of each pair")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "ROWS"), help="be one of the two processes")
    arguments = parser.parse_args()
    if arguments.serve:
        network, rows = arguments.serve
        serve(network, rows.split(","))
        return
    if unknown := set(arguments.rows.split(",")) - set(ROWS):
        parser.error(f"--rows: {', '.join(sorted(unknown))}; may be {', '.join(ROWS)}")
    if arguments.base is None:
        parser.error("--base is needed")
    file: Path | None = arguments.json
    pairs: Pairs = json.loads(file.read_text()) if file is not None and file.exists() else {}
    networks, rows = arguments.models.split(","), arguments.rows.split(",")
    with checkout(arguments.base) as base:
        run(base, networks, rows, arguments.pairs, pairs, file)
    lines = [verdict(f"{network}/{row}", pairs[f"{network}/{row}"]) for row in rows for network in networks]
    console.print("\n".join(["", *lines]), highlight=False)
    if not all(line.endswith(": passes") for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
