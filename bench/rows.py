"""The rows of the table: what each method costs on the photographs, and what it needs in memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import track
from torch import Tensor

import secondsight as ss
from bench.floor import floor
from bench.measure import REPEATS, Row, Timing, console, loss_gradient, timed, timing
from bench.memory import EIGENPAIRS, peak_bytes
from bench.paper import paper_maps, worst_gaps
from bench.photographs import photographs

BATCHES = (4, 10, 40)
CAPTUM = {"smoothgrad": "SmoothGrad", "integrated-gradients": "Integrated Gradients"}


@dataclass(frozen=True)
class Counts:
    """How many photographs each kind of row takes; none: the row is left out."""

    caso: int
    path: int
    batch: int
    captum: int
    smooth: int
    spectrum: int
    baseline: int


@dataclass(frozen=True)
class Subject:
    """A network, and what is to be measured on it.

    thorough: whether memory is also measured where that takes minutes.
    """

    name: str
    model: ss.Classifier
    counts: Counts
    thorough: bool

    def inputs(self, count: int, what: str) -> Iterable[Tensor]:
        files = photographs(count)
        return map(self.model.tensor, track(files, f"{self.model.name} {what}", console=console, transient=True))

    def peak(self, what: str, slow: bool = False) -> int | None:
        return None if slow and not self.thorough else peak_bytes(self.name, what, photographs(1)[0])


def gradient(subject: Subject) -> Iterator[Row]:
    row = Row("gradient of the loss: the unit")
    for x in subject.inputs(subject.counts.caso, row.name):
        one = loss_gradient(subject.model, x[None])
        row.seconds.append(statistics.median(timed(one) for _ in range(2 * REPEATS)))
        row.costs.append(1.0)
    row.peak = subject.peak("gradient")
    yield row


def caso(subject: Subject) -> Iterator[Row]:
    median, high = (7, 14) if subject.name == "resnet50" else (9, 18)
    target = f"{median}, 95 %: {high}, memory 2"
    row = _explained(subject, subject.counts.caso, "caso: certified map, path of 16", target, method="caso")
    row.peak = subject.peak("caso")
    yield row
    yield floor(subject.model, subject.inputs(subject.counts.caso, "floor"), row.products)


def cafo(subject: Subject) -> Iterator[Row]:
    row = _explained(subject, subject.counts.caso, "cafo: exact map, path of 16", "1.3", method="cafo")
    row.peak = subject.peak("cafo")
    yield row


def path(subject: Subject) -> Iterator[Row]:
    """Every point of the path certified, beside the default on the same photographs."""
    row = Row("caso, all 16 points certified")
    further = Row("  each further certified point", "1")
    further.note = "A further point costs what certifying all adds to certifying one, over the number of points added."
    for x in subject.inputs(subject.counts.path, row.name):
        one, every = (_timed_explain(subject.model, x, x, certify=certify) for certify in ("chosen", "path"))
        _add(row, every)
        row.gaps[-1] = max(_gap(point.relative_gap) for point in every.result.path)
        added = len(every.result.path) - 1
        further.costs.append((every.cost - one.cost) / added)
        further.seconds.append((every.seconds - one.seconds) / added)
    row.peak = subject.peak("caso-path")
    yield row
    yield further


def batch(subject: Subject) -> Iterator[Row]:
    """Many photographs in one call, and the same ones one by one: half of them right before, half right after."""
    inputs = list(subject.inputs(subject.counts.batch, "reading"))
    model = subject.model
    for size in (size for size in BATCHES if size <= len(inputs)):
        row, apart = Row(f"caso, {size} in one call, each"), 0.0
        chunks = [inputs[i : i + size] for i in range(0, len(inputs) - size + 1, size)]
        for chunk in track(chunks, f"{model.name} {row.name}", console=console, transient=True):
            apart += sum(timed(lambda x=x: ss.explain(model, x)) for x in chunk[: size // 2])
            call = _timed_explain(model, chunk[0], torch.stack(chunk))
            apart += sum(timed(lambda x=x: ss.explain(model, x)) for x in chunk[size // 2 :])
            for e in call.result:
                _add(row, Timing(e, call.seconds / size, call.unit))
        share = sum(row.seconds) / apart
        row.target = f"0.7 of one by itself (here {share:.2f})"
        row.note = f"{size} in one call take {share:.2f} of the time that they take one by one."
        row.peak = subject.peak(f"batch-{size}", slow=True)
        yield row


def captum(subject: Subject) -> Iterator[Row]:
    for method, name in CAPTUM.items():
        title = f"Captum {name}-50, 10 at a time"
        row = _explained(subject, subject.counts.captum, title, method=method, n=50, batch_size=10)
        row.peak = subject.peak(method, slow=True)
        yield row


def eigenpairs(subject: Subject) -> Iterator[Row]:
    row = Row(f"top {EIGENPAIRS} eigenpairs", "60")
    row.note = "Gap of the eigenpairs: the largest residual |Hv - lambda v| over the largest eigenvalue."
    for x in subject.inputs(subject.counts.spectrum, row.name):
        measured = timing(subject.model, x, lambda x=x: ss.input_hessian(subject.model, x).eigh(EIGENPAIRS))
        values, vectors = measured.result
        residuals = (ss.input_hessian(subject.model, x).matmul(vectors) - vectors * values).norm(dim=0)
        _add_time(row, measured)
        row.gaps.append(float(residuals.max() / values[0]))
    row.peak = subject.peak("eigenpairs", slow=True)
    yield row


def factor(subject: Subject) -> Iterator[Row]:
    row = Row("full factor, 1000 classes", "450, memory 1.3 GB")
    row.note = "Gap of the factor B: |BB'g - Hg| over |Hg|; its memory is that beside B itself."
    for x in subject.inputs(subject.counts.spectrum, row.name):
        measured = timing(subject.model, x, lambda x=x: ss.input_hessian(subject.model, x).factor())
        h, b = ss.input_hessian(subject.model, x), measured.result
        hg = h.matmul(h.gradient)
        _add_time(row, measured)
        row.gaps.append(float(((b @ (b.T @ h.gradient.to(b))).to(hg) - hg).norm() / hg.norm()))
    row.peak = subject.peak("factor", slow=True)
    yield row


def smooth(subject: Subject) -> Iterator[Row]:
    title = "smooth-caso, n = 50: certified map, path of 16"
    row = _explained(subject, subject.counts.smooth, title, "200", method="smooth-caso", n=50)
    row.peak = subject.peak("smooth-caso", slow=True)
    yield row


def baseline(subject: Subject) -> Iterator[Row]:
    """The paper's algorithm, and our certified gaps at the same penalties, for comparison."""
    row, ours = Row("the paper's algorithm, 8 values"), [0.0]
    for x in subject.inputs(subject.counts.baseline, row.name):
        measured = timing(subject.model, x, lambda x=x: paper_maps(subject.model, x))
        _add_time(row, measured)
        row.products.append(measured.result.products)
        theirs, us = worst_gaps(subject.model, x, measured.result)
        row.gaps.append(theirs)
        ours.append(us)
    row.note = f"At the paper's eight values of lambda1 and its lambda2 our worst gap is {max(ours):.0e}."
    row.peak = subject.peak("paper", slow=True)
    yield row


ROWS: dict[str, tuple[Callable[[Subject], Iterator[Row]], str]] = {
    "caso": (caso, "caso"),
    "cafo": (cafo, "caso"),
    "path": (path, "path"),
    "captum": (captum, "captum"),
    "batch": (batch, "batch"),
    "eigenpairs": (eigenpairs, "spectrum"),
    "smooth": (smooth, "smooth"),
    "factor": (factor, "spectrum"),
    "baseline": (baseline, "baseline"),
}
"""In the order they are run, the longest last, with the field of Counts that says on how many photographs."""


def _explained(subject: Subject, count: int, name: str, target: str = "", **options: Any) -> Row:
    row = Row(name, target)
    for x in subject.inputs(count, name):
        _add(row, _timed_explain(subject.model, x, x, **options))
    return row


def _timed_explain(model: ss.Classifier, x: Tensor, explained: Tensor, **options: Any) -> Timing[Any]:
    """Of one input or a batch, in gradients at x."""
    return timing(model, x, lambda: ss.explain(model, explained, **options))


def _add(row: Row, measured: Timing[ss.Explanation]) -> None:
    _add_time(row, measured)
    e = measured.result
    if e.products is not None:
        row.products.append(e.products)
        row.gaps.append(_gap(e.relative_gap))


def _add_time(row: Row, measured: Timing[Any]) -> None:
    row.costs.append(measured.cost)
    row.seconds.append(measured.seconds)


def _gap(relative: float | None) -> float:
    """What has no certificate counts as infinitely far."""
    return float("inf") if relative is None else relative
