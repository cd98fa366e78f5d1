"""Where the time of one map goes.

    python -m bench.profile [--model lite0] [--method caso] [--repeats 5] [--ops] [PHOTO]

Each part is timed by itself: what it spends inside another part counts there. --ops lists torch's own operations.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.table import Table
from torch import Tensor

import secondsight as ss
from bench.measure import Timing, console, timing
from bench.photographs import MODELS

OPERATIONS = 15
REST = "the rest"


@dataclass(frozen=True)
class Part:
    """A function whose time has a name of its own.

    within: counted only inside that part. Elsewhere its time stays with the part that calls it.
    """

    name: str
    module: str
    function: str
    within: str | None = None
    counted: bool = False


PRODUCTS = "products: around their passes"
PARTS = (
    Part("forward pass, recorded", "operators.linearisation", "jacobian_at", counted=True),
    Part("gradient", "operators.linearisation", "Linearisation.gradient", counted=True),
    Part(PRODUCTS, "operators.gauss_newton", "GaussNewton.times_rows"),
    Part(PRODUCTS, "operators.exact_hessian", "ExactHessian.times_rows"),
    Part(PRODUCTS, "operators.averaged", "AveragedHessian.times_rows"),
    Part("products: tangent pass", "operators.jacobian", "Jacobian.jvp", PRODUCTS, counted=True),
    Part("products: backward pass", "operators.jacobian", "Jacobian.vjp", PRODUCTS, counted=True),
    Part("spectrum: L and lambda2", "optim.caso", "CasoSolver.fix_lambda2"),
    Part("path on the basis", "optim.caso", "CasoSolver.choose"),
    Part("certificate", "optim.caso", "CasoSolver._certify"),
    Part("result", "results.builder", "ExplanationBuilder.explanation"),
)


class Stopwatch:
    """Seconds and calls by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._open: list[str] = []
        self._inner: list[float] = []

    def call(self, part: Part, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if part.within is not None and part.within not in self._open:
            return function(*args, **kwargs)
        self._open.append(part.name)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent = time.perf_counter() - start
            self._open.pop()
            self.seconds[part.name] += spent - self._inner.pop()
            self.calls[part.name] += part.counted
            if self._inner:
                self._inner[-1] += spent

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All parts replaced by timed versions, and put back."""
        with ExitStack() as stack:
            for part in PARTS:
                *path, name = part.function.split(".")
                owner = functools.reduce(getattr, path, importlib.import_module(f"secondsight.{part.module}"))
                stack.enter_context(mock.patch.object(owner, name, self._timed(part, getattr(owner, name))))
            yield

    def _timed(self, part: Part, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            return self.call(part, function, *args, **kwargs)

        return timed


def profile(model: ss.Classifier, x: Tensor, method: str, repeats: int) -> tuple[Stopwatch, Timing[ss.Explanation]]:
    """Time the parts of several calls, and all of them together."""
    watch = Stopwatch()

    def work() -> ss.Explanation:
        for _ in range(repeats):
            e = ss.explain(model, x, method=method)
        return e

    # The first call on a network pays for its checks.
    ss.explain(model, x, method=method)
    with watch.watching():
        measured = timing(model, x, work)
    watch.seconds[REST] = measured.seconds - sum(watch.seconds.values())
    return watch, measured


def table(watch: Stopwatch, measured: Timing[ss.Explanation], repeats: int) -> Table:
    e = measured.result
    total = measured.seconds / repeats
    result = Table(title=f"{e.settings['model']}, {e.method}: {total:.3f} s, {total / measured.unit:.1f} g.e.")
    for column in ("part", "calls", "seconds", "per cent", "g.e."):
        result.add_column(column, justify="left" if column == "part" else "right")
    for name in dict.fromkeys([*(part.name for part in PARTS), REST]):
        seconds = watch.seconds.get(name, 0.0) / repeats
        if seconds:
            calls = watch.calls[name] / repeats
            share = seconds / total
            shown = f"{calls:g}" if calls else ""
            result.add_row(name, shown, f"{seconds:.4f}", f"{share:.1%}", f"{seconds / measured.unit:.2f}")
    if e.products:
        one = sum(watch.seconds[part.name] for part in PARTS if part.name.startswith("products")) / repeats / e.products
        result.caption = (
            f"{e.products} H-products, {one:.4f} s or {one / measured.unit:.2f} g.e. each;\n"
            f"one gradient takes {measured.unit:.4f} s."
        )
    return result


def operations(model: ss.Classifier, x: Tensor, method: str) -> str:
    """The operations of torch that take most of the time of one call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        ss.explain(model, x, method=method)
    return profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=OPERATIONS, max_name_column_width=45)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photograph", nargs="?", type=Path, default=ss.example_photograph(), metavar="PHOTO")
    parser.add_argument("--model", default="lite0", help=f"{', '.join(MODELS)}, or a name that load_model knows")
    parser.add_argument("--method", default="caso")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ops", action="store_true", help="also the operations of torch that take most")
    arguments = parser.parse_args()
    model = ss.load_model(MODELS.get(arguments.model, arguments.model))
    x = model.tensor(arguments.photograph)
    console.print(table(*profile(model, x, arguments.method, arguments.repeats), arguments.repeats))
    if arguments.ops:
        print(operations(model, x, arguments.method))


if __name__ == "__main__":
    main()
