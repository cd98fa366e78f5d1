"""Cost of certified maps in gradient equivalents, beside Captum's methods, the paper's algorithm and the floor.

    make bench        (or: python -m bench.run [--models lite0] [--rows caso,cafo] [--quick] [--json FILE])

One process and one table for each network. Those of bench/curved_networks.py are not piecewise linear: `caso` with
either Hessian on few photographs, and Captum's methods on one. A gradient equivalent (g.e.) is the wall time of one
loss gradient on the same network, photograph and threads, taken right before and after what it is compared with.
Memory is the peak above the loaded network, in a process of its own.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import torch

import secondsight as ss
from bench import record
from bench.curved_networks import ARCHITECTURES, classifier
from bench.measure import console
from bench.photographs import model as load
from bench.row import Figures, Row
from bench.rows import OF_CURVED, ROWS, Counts, Subject, gradient
from bench.table import line, table

QUICK = Counts(caso=2, path=1, batch=4, captum=1, smooth=1, spectrum=1, baseline=0)


class Report:
    """The rows so far, by network: printed and, if wanted, written as they come."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.rows: dict[str, list[Row]] = {}

    def add(self, network: str, row: Row) -> None:
        self.rows.setdefault(network, []).append(row)
        console.print(line(row, self.gradient_peak(network)), highlight=False)
        figures = {name: self.figures(name) for name in self.rows}
        record.write(self.file, "run", figures, {name: list(map(asdict, rows)) for name, rows in self.rows.items()})

    def gradient_peak(self, network: str) -> int | None:
        return self.rows[network][0].peak

    def figures(self, network: str) -> dict[str, Figures]:
        return {row.key: row.figures(self.gradient_peak(network)) for row in self.rows[network]}

    def show(self, network: str, name: str) -> None:
        title = f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}"
        console.print(table(title, self.rows[network], self.gradient_peak(network)))


def bench(subject: Subject, wanted: list[str], report: Report) -> None:
    # The first call on a network pays for its checks.
    ss.explain(subject.model, ss.example_photograph())
    try:
        for measure in (gradient, *(ROWS[name][0] for name in wanted)):
            for row in measure(subject):
                report.add(subject.name, row)
    finally:
        if subject.name in report.rows:
            report.show(subject.name, subject.model.name)


def subject_of(name: str, asked: Counts, curved: int, thorough: bool) -> Subject:
    """Load a network. The slow ones that are not piecewise linear take `curved` photographs, and one for Captum."""
    if name not in ARCHITECTURES:
        return Subject(name, load(name), asked, thorough)
    few = replace(asked, caso=min(asked.caso, curved), captum=min(asked.captum, 1))
    return Subject(name, classifier(name), few, thorough)


def rows_of(subject: Subject, wanted: list[str]) -> list[str]:
    """Choose the wanted rows that this network has."""
    if subject.name in ARCHITECTURES:
        return [row for row in wanted if row in OF_CURVED]
    return [row for row in wanted if row != "curved" and getattr(subject.counts, ROWS[row][1])]


def counts(arguments: argparse.Namespace) -> Counts:
    """What was asked for; a small number of photographs is one for the middling rows too."""
    photographs = arguments.photographs
    asked = Counts(
        caso=photographs,
        path=min(photographs, arguments.path),
        batch=min(photographs, arguments.batch),
        captum=min(photographs, arguments.captum),
        smooth=arguments.smooth,
        spectrum=arguments.spectrum,
        baseline=arguments.baseline,
    )
    return QUICK if arguments.quick else asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(["resnet50", "lite0", *ARCHITECTURES]))
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--photographs", type=int, default=40, help="for caso and cafo")
    parser.add_argument("--curved", type=int, default=4, help="for caso on networks that are not piecewise linear")
    parser.add_argument("--path", type=int, default=10, help="photographs with every point certified")
    parser.add_argument("--batch", type=int, default=40, help="photographs for many in one call")
    parser.add_argument("--captum", type=int, default=5, help="photographs for SmoothGrad and Integrated Gradients")
    parser.add_argument("--smooth", type=int, default=2, help="photographs for smooth-caso")
    parser.add_argument("--spectrum", type=int, default=2, help="photographs for eigenpairs and factor")
    parser.add_argument("--baseline", type=int, default=3, help="photographs for the paper's algorithm")
    parser.add_argument("--quick", action="store_true", help="a smoke run: two photographs, one for slow rows")
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    if arguments.quick and arguments.json:
        parser.error("--quick measures too little for --json")
    wanted = arguments.rows.split(",")
    if unknown := set(wanted) - set(ROWS):
        parser.error(f"--rows: {', '.join(sorted(unknown))}; may be {', '.join(ROWS)}")
    asked, report = counts(arguments), Report(arguments.json)
    for name in arguments.models.split(","):
        subject = subject_of(name, asked, arguments.curved, thorough=not arguments.quick)
        bench(subject, rows_of(subject, wanted), report)


if __name__ == "__main__":
    main()
