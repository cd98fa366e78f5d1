"""One call: several inputs by one method, with progress, time and warnings around the pipeline."""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, TypeAlias

from torch import Tensor

from secondsight.batching.workers import Task, side_by_side
from secondsight.config import CAFO, CASO, Method, Smooth
from secondsight.errors import Caution, InputError, SecondsightWarning, shown
from secondsight.model.classifier import Classifier, Target, require_classifier
from secondsight.operators.linearisation import linearise_each
from secondsight.operators.tape.folding import FoldedWeights
from secondsight.option_types import whole
from secondsight.pipeline import explain_one, maximise, surrogate_at
from secondsight.request import Request
from secondsight.results.explanation import Explanation, SecondOrderExplanation

Progress: TypeAlias = Callable[[float], None] | None
"""Called with the number of Hessian products taken so far."""

CHUNK = 16
"""Inputs that `explain_chunks` holds at a time: passes of four inputs for four workers (batching/). The path of each
photograph takes 10 MB."""


@dataclass
class Cautions:
    """Warns about what changes the meaning of results: once for each kind, with the first note of that kind.

    Attributes:
        depth: the number of functions from the one that the user called to the one that calls `warn`, both included.
            Python then shows the user's line beside the warning.
        warned: the kinds that the user was warned about.
    """

    depth: int = 1
    warned: set[str] = field(default_factory=set)

    def warn(self, results: Sequence[Explanation]) -> None:
        """Warn about the cautions in these results."""
        found: dict[str, list[Caution]] = {}
        for e in results:
            for caution in {note.kind: note for note in e.notes if isinstance(note, Caution)}.values():
                found.setdefault(caution.kind, []).append(caution)
        for kind, cautions in found.items():
            if kind not in self.warned:
                self.warned.add(kind)
                others = f" ({len(cautions)} of {len(results)} maps)" if len(results) > 1 else ""
                warnings.warn(f"{cautions[0]}{others}", SecondsightWarning, stacklevel=self.depth + 2)


def explain_chunks(
    model: Classifier,
    pairs: Iterable[tuple[Any, Target]],
    config: Method,
    seed: int,
    progress: Progress,
    cautions: Cautions,
) -> Iterator[Explanation]:
    """Explain inputs with their targets, CHUNK at a time, and give one result after the other."""
    waiting, taken = iter(pairs), 0.0
    while chunk := list(itertools.islice(waiting, CHUNK)):
        report = None if progress is None else lambda count, taken=taken: progress(taken + count)
        items, targets = zip(*chunk, strict=True)
        results = explain_all(model, items, config, targets, seed, report)
        taken += sum(e.products for e in results if isinstance(e, SecondOrderExplanation))
        del chunk, items
        cautions.warn(results)
        results.reverse()
        while results:
            # A result that was given is not kept here.
            yield results.pop()


def explain_all(
    model: Classifier,
    items: Sequence[Any],
    config: Method,
    targets: Sequence[Target],
    seed: int,
    progress: Progress,
    steady: bool = False,
) -> list[Explanation]:
    """Explain inputs. CASO takes the products of several inputs in one pass. `steady` is as for `explain_one`."""
    require_classifier(model)
    seed = whole(0)("seed", seed)
    if progress is not None and not callable(progress):
        raise InputError("progress", "None or a function of a number", shown(progress))
    if isinstance(config, CAFO):
        config = config.resolved(model.takes_pictures)
    reports, folded = _Reports(progress), FoldedWeights()

    notes: dict[int, tuple[str, ...]] = {}

    def asked(i: int) -> tuple[Tensor, Request[Any]]:
        pixels = model.read(items[i])
        notes[i] = pixels.notes
        return pixels.values, Request(config, targets[i], seed, reports.of(i))

    def prepare(numbers: Sequence[int]) -> list[Task[Explanation]]:
        inputs, requests = zip(*map(asked, numbers), strict=True)
        linears = linearise_each(model, inputs, [request.target for request in requests], folded)
        surrogates = [surrogate_at(linear, request) for linear, request in zip(linears, requests, strict=True)]
        return [Task(s.H, functools.partial(maximise, s)) for s in surrogates if s.H is not None]

    start = time.perf_counter()
    with model.ready():
        if isinstance(config, CASO) and not isinstance(config, Smooth) and len(items) > 1:
            results = side_by_side(prepare, len(items))
        else:
            results = [explain_one(model, x, request, steady) for x, request in map(asked, range(len(items)))]
    seconds = (time.perf_counter() - start) / max(1, len(items))
    return [replace(e, seconds=seconds, notes=(*notes[i], *e.notes)) for i, e in enumerate(results)]


class _Reports:
    """Adds up the products that the inputs of a batch have taken, for the user's progress function."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.taken, self.lock = progress, dict[int, float](), Lock()

    def of(self, i: int) -> Progress:
        return None if self.progress is None else functools.partial(self._report, i)

    def _report(self, i: int, taken: float) -> None:
        with self.lock:
            self.taken[i] = taken
            if self.progress is not None:
                self.progress(sum(self.taken.values()))
