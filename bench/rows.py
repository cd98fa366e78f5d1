"""The rows of the table: what each method costs on the photographs, and what it needs in memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from rich.progress import track
from torch import Tensor

import secondsight as ss
from bench.floor import floor
from bench.measure import REPEATS, Timing, console, loss_gradient, method_with, timed, timing
from bench.memory import EIGENPAIRS, WINDOWS, peak_bytes
from bench.paper import paper_maps, worst_gaps
from bench.photographs import photographs
from bench.row import Row
from secondsight.config import Method

BATCHES = (4, 10, 40)
CAPTUM = ("smoothgrad", "integrated-gradients")
CURVATURES = ss.CASO(curvature="exact"), ss.CASO(curvature="gauss-newton")
CURVED_GE = {"vit-tiny": (16, 9), "mobilenetv3": (16, 9)}
"""What maps may cost with the exact Hessian and with Gauss-Newton; 14 and 8 g.e. on networks that are not named."""

CURVED_PEAK = 3, 2
"""The same for the peak memory over a gradient's, on all networks."""


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
    row = Row("gradient")
    for x in subject.inputs(subject.counts.caso, row.name):
        one = loss_gradient(subject.model, x[None])
        row.seconds.append(statistics.median(timed(one) for _ in range(2 * REPEATS)))
        row.costs.append(1.0)
    row.peak = subject.peak("gradient")
    yield row


def caso(subject: Subject) -> Iterator[Row]:
    median, high = (7, 14) if subject.name == "resnet50" else (9, 18)
    row = Row("caso", {"ge": median, "ge95": high, "peak_ratio": 2})
    _explain_each(subject, subject.counts.caso, row, "caso")
    row.peak = subject.peak("caso")
    yield row
    yield floor(subject.model, subject.inputs(subject.counts.caso, "floor"), row.products)


def curved(subject: Subject) -> Iterator[Row]:
    """A network that is not piecewise linear. The gap is the worst of the maps that are certified."""
    for method, ge, peak in zip(CURVATURES, CURVED_GE.get(subject.name, (14, 8)), CURVED_PEAK, strict=True):
        row = Row(f"caso-{method.curvature}", {"ge": ge, "peak_ratio": peak})
        # The first map also pays for the checks of this Hessian.
        for x in subject.inputs(1, "checks"):
            ss.explain(subject.model, x, method)
        _explain_each(subject, subject.counts.caso, row, method)
        row.gaps = [gap for gap in row.gaps if gap <= method.tolerance]
        row.also["certified"] = len(row.gaps)
        row.peak = subject.peak(row.key)
        yield row


def cafo(subject: Subject) -> Iterator[Row]:
    row = Row("cafo", {"ge": 1.3})
    _explain_each(subject, subject.counts.caso, row, "cafo")
    row.peak = subject.peak("cafo")
    yield row


def picture(subject: Subject) -> Iterator[Row]:
    """The map to look at. Captum's SmoothGrad-50 is in the same run."""
    row = Row("picture", {"ge": 25})
    _explain_each(subject, subject.counts.path, row, ss.Picture())
    row.peak = subject.peak("picture")
    yield row


def windows(subject: Subject) -> Iterator[Row]:
    row = Row("caso-window")
    _explain_each(subject, subject.counts.path, row, WINDOWS)
    row.peak = subject.peak("caso-window")
    yield row


def path(subject: Subject) -> Iterator[Row]:
    """Every point of the path certified, beside the default on the same photographs."""
    row, further = Row("path"), Row("further", {"ge": 1})
    further.note = "A further point costs what certifying all adds to certifying one, over the number of points added."
    for x in subject.inputs(subject.counts.path, row.name):
        one, every = (_timed_explain(subject.model, x, ss.CASO(certify=certify)) for certify in ("chosen", "path"))
        _add(row, every)
        # A point without a certificate counts as infinitely far.
        row.gaps[-1] = max(inf if point.relative_gap is None else point.relative_gap for point in every.result.path)
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
        row, apart = Row(f"batch-{size}", {"share": 0.7}), 0.0
        chunks = [inputs[i : i + size] for i in range(0, len(inputs) - size + 1, size)]
        for chunk in track(chunks, f"{model.name} {row.name}", console=console, transient=True):
            apart += sum(timed(lambda x=x: ss.explain(model, x)) for x in chunk[: size // 2])
            call = timing(model, chunk[0], lambda chunk=chunk: ss.explain(model, chunk))
            apart += sum(timed(lambda x=x: ss.explain(model, x)) for x in chunk[size // 2 :])
            for e in call.result:
                _add(row, Timing(e, call.seconds / size, call.unit))
        row.also["share"] = sum(row.seconds) / apart
        row.note = f"{size} in one call take {row.also['share']:.2f} of the time that they take one by one."
        row.peak = subject.peak(f"batch-{size}", slow=True)
        yield row


def captum(subject: Subject) -> Iterator[Row]:
    for method in CAPTUM:
        row = Row(method)
        _explain_each(subject, subject.counts.captum, row, method_with(method, n=50, n_steps=50, batch_size=10))
        row.peak = subject.peak(method, slow=True)
        yield row


def eigenpairs(subject: Subject) -> Iterator[Row]:
    row = Row("eigenpairs", {"ge": 60})
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
    row = Row("factor", {"ge": 450, "peak_gb": 1.3})
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
    row = Row("smooth-caso", {"ge": 200})
    _explain_each(subject, subject.counts.smooth, row, ss.SmoothCASO(n=50))
    row.peak = subject.peak("smooth-caso", slow=True)
    yield row
    row = Row("smooth-caso-window")
    _explain_each(subject, subject.counts.smooth, row, ss.SmoothCASO(n=50, groups="window:8"))
    yield row


def baseline(subject: Subject) -> Iterator[Row]:
    """The paper's algorithm, and our certified gaps at the same penalties, for comparison."""
    row, ours = Row("paper"), [0.0]
    for x in subject.inputs(subject.counts.baseline, row.name):
        measured = timing(subject.model, x, lambda x=x: paper_maps(subject.model, x))
        _add_time(row, measured)
        row.products.append(measured.result.products)
        theirs, us = worst_gaps(subject.model, x, measured.result)
        row.gaps.append(theirs)
        ours.append(us)
    row.also["our_gap"] = max(ours)
    row.note = f"At the paper's eight values of lambda1 and its lambda2 our worst gap is {max(ours):.0e}."
    row.peak = subject.peak("paper", slow=True)
    yield row


ROWS: dict[str, tuple[Callable[[Subject], Iterator[Row]], str]] = {
    "caso": (caso, "caso"),
    "curved": (curved, "caso"),
    "cafo": (cafo, "caso"),
    "picture": (picture, "path"),
    "windows": (windows, "path"),
    "path": (path, "path"),
    "captum": (captum, "captum"),
    "batch": (batch, "batch"),
    "eigenpairs": (eigenpairs, "spectrum"),
    "smooth": (smooth, "smooth"),
    "factor": (factor, "spectrum"),
    "baseline": (baseline, "baseline"),
}
"""In the order they are run, the longest last, with the field of Counts that says on how many photographs."""

OF_CURVED = ("curved", "captum")
"""The rows of networks that are not piecewise linear. Of these rows, other networks have only "captum"."""


def _explain_each(subject: Subject, count: int, row: Row, method: Method | str) -> None:
    for x in subject.inputs(count, row.name):
        _add(row, _timed_explain(subject.model, x, method))


def _timed_explain(model: ss.Classifier, x: Tensor, method: Method | str) -> Timing[Any]:
    return timing(model, x, lambda: ss.explain(model, x, method))


def _add(row: Row, measured: Timing[ss.Explanation]) -> None:
    _add_time(row, measured)
    e = measured.result
    if isinstance(e, ss.SparseExplanation):
        row.gaps.append(e.certificate.relative_gap)
    if isinstance(e, ss.SecondOrderExplanation):
        row.products.append(e.products)


def _add_time(row: Row, measured: Timing[Any]) -> None:
    row.costs.append(measured.cost)
    row.seconds.append(measured.seconds)
