"""How long a new process takes to start, and what the time goes to.

    python -m bench.startup [--repeats 5] [--json FILE]

Three starts: `import secondsight`, `secondsight --help`, and `secondsight explain` on the bundled photograph. Each is
timed as a whole in processes of its own. In further processes, python -X importtime tells the time of each module by
itself, and those of a package are added up, as shares of the time of that process. Last, bench.cold_explain times the
stages of `secondsight explain`. All figures are medians.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rich.progress import track
from rich.table import Table

import secondsight as ss
from bench import record
from bench.cold_explain import PACKAGES, package_of
from bench.measure import console
from bench.page_tables import COLD, IMPORTS, STARTS
from bench.row import Figures

COMMAND = str(Path(sys.executable).with_name("secondsight"))
IMPORTED = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")
"""A line of python -X importtime: the microseconds of a module by itself, and its name."""


def words_of(start: str, folder: str) -> list[str]:
    """What follows `python` for one of STARTS."""
    if start == "import":
        return ["-c", "import secondsight"]
    if start == "help":
        return [COMMAND, "--help"]
    return [COMMAND, "explain", str(ss.example_photograph()), "--out", folder]


def run(words: list[str]) -> tuple[float, str]:
    """Run python in a new process: its seconds and what it wrote to stderr."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stderr


def import_shares(seconds: float, report: str) -> Figures:
    """Add up the modules of each package in a report of -X importtime, as shares of the seconds of the process."""
    shares: dict[str, float] = dict.fromkeys([*PACKAGES.values(), "other"], 0.0)
    for microseconds, module in IMPORTED.findall(report):
        shares[package_of(module)] += int(microseconds) / 1e6 / seconds
    return shares


def start_figures(words: list[str]) -> Figures:
    """Time one start, and its imports in another process."""
    seconds, _ = run(words)
    return import_shares(*run(["-X", "importtime", *words])) | {"seconds": seconds}


def cold_figures(folder: str) -> Figures:
    """Time the stages of the first map. What the process takes beside them is Python's own start and end."""
    seconds, report = run(["-m", "bench.cold_explain", str(ss.example_photograph()), folder])
    parts: Figures = json.loads(report.splitlines()[-1])
    return parts | {"python": seconds - sum(parts.values())}


def medians(measured: Iterable[Mapping[str, float]]) -> Figures:
    """The median of each figure."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in measured:
        for name, value in one.items():
            found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def measure(repeats: int) -> dict[str, Figures]:
    """Measure everything, each start in turn, so that a busy moment of the machine does not hit one alone."""
    measured: dict[str, list[Figures]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        works: dict[str, Callable[[], Figures]] = {
            start: lambda start=start: start_figures(words_of(start, folder)) for start in STARTS
        } | {"cold": lambda: cold_figures(folder)}
        for _ in track(range(repeats), "startup", console=console, transient=True):
            for name, work in works.items():
                measured[name].append(work())
    return {name: medians(some) for name, some in measured.items()}


def imports_table(figures: Mapping[str, Figures]) -> Table:
    table = Table("", *(words.strip("`") for words in STARTS.values()), title="seconds, and shares of importing")
    table.add_row("seconds", *(f"{figures[start]['seconds']:.2f}" for start in STARTS))
    for name, words in IMPORTS.items():
        table.add_row(words, *(f"{figures[start][name]:.1%}" for start in STARTS))
    return table


def cold_table(figures: Figures) -> Table:
    table = Table("", "seconds", "share", title="secondsight explain, by stage")
    total = sum(figures.values())
    for name, words in COLD.items():
        table.add_row(words, f"{figures[name]:.2f}", f"{figures[name] / total:.1%}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    figures = measure(arguments.repeats)
    console.print(imports_table(figures), cold_table(figures["cold"]))
    record.write(arguments.json, "startup", figures)


if __name__ == "__main__":
    main()
