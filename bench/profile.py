"""Where the time of one map goes.

    python -m bench.profile [--model lite0] [--method caso] [--repeats 5] [--ops] [--json FILE] [PHOTO]

Each part is timed by itself: what it spends inside another part counts there. --ops lists torch's own operations.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

import secondsight as ss
from bench import record
from bench.measure import Timing, console, timing
from bench.photographs import MODELS
from bench.row import Figures
from bench.stopwatch import Part, Stopwatch

OPERATIONS = 15
REST = "the rest"


PRODUCTS = "products: around their passes"
PATH = "path on the basis"
PARTS = (
    Part("forward pass, recorded", "operators.linearisation", "jacobian_at", counted=True),
    Part("gradient", "operators.linearisation", "Linearisation.gradient", counted=True),
    Part(PRODUCTS, "operators.gauss_newton", "GaussNewton.times_rows"),
    Part(PRODUCTS, "operators.exact_hessian", "ExactHessian.times_rows"),
    Part(PRODUCTS, "operators.averaged", "AveragedHessian.times_rows"),
    Part("products: tangent pass", "operators.jacobian", "Jacobian.jvp", PRODUCTS, counted=True),
    Part("products: backward pass", "operators.jacobian", "Jacobian.vjp", PRODUCTS, counted=True),
    Part("spectrum: L and lambda2", "optim.caso", "CasoSolver.fix_lambda2"),
    Part(PATH, "optim.caso", "CasoSolver.choose"),
    Part("certificate", "optim.caso", "CasoSolver._certify"),
    Part("result", "results.builder", "ResultBuilder.fields"),
)


def profile(model: ss.Classifier, x: Tensor, method: str, repeats: int) -> tuple[Stopwatch, Timing[ss.Explanation]]:
    """Time the parts of several calls, and all of them together."""
    watch = Stopwatch()

    def work() -> ss.Explanation:
        for _ in range(repeats):
            e = ss.explain(model, x, method)
        return e

    # The first call on a network pays for its checks.
    ss.explain(model, x, method)
    with watch.watching(PARTS):
        measured = timing(model, x, work)
    watch.seconds[REST] = measured.seconds - sum(watch.seconds.values())
    return watch, measured


def table(watch: Stopwatch, measured: Timing[ss.Explanation], repeats: int) -> Table:
    e = measured.result
    total = measured.seconds / repeats
    result = Table(title=f"{e.model}, {e.method}: {total:.3f} s, {total / measured.unit:.1f} g.e.")
    for column in ("part", "calls", "seconds", "per cent", "g.e."):
        result.add_column(column, justify="left" if column == "part" else "right")
    for name in dict.fromkeys([*(part.name for part in PARTS), REST]):
        seconds = watch.seconds.get(name, 0.0) / repeats
        if seconds:
            calls = watch.calls[name] / repeats
            share = seconds / total
            shown = f"{calls:g}" if calls else ""
            result.add_row(name, shown, f"{seconds:.4f}", f"{share:.1%}", f"{seconds / measured.unit:.2f}")
    if isinstance(e, ss.SecondOrderExplanation):
        one = product_seconds(watch, e, repeats)
        result.caption = (
            f"{e.products} H-products, {one:.4f} s or {one / measured.unit:.2f} g.e. each;\n"
            f"one gradient takes {measured.unit:.4f} s."
        )
    return result


def product_seconds(watch: Stopwatch, e: ss.SecondOrderExplanation, repeats: int) -> float:
    """Of one H-product: the passes and what is around them."""
    names = {part.name for part in PARTS if part.name.startswith("products")}
    return sum(watch.seconds[name] for name in names) / repeats / e.products


def figures(watch: Stopwatch, measured: Timing[ss.Explanation], repeats: int) -> Figures:
    """What is kept in bench/figures.json: in gradients, all of the map, its path and one H-product."""
    e, total = measured.result, measured.seconds / repeats
    found = {"ge": total / measured.unit, "path_ge": watch.seconds[PATH] / repeats / measured.unit}
    if isinstance(e, ss.SecondOrderExplanation):
        found["product_ge"] = product_seconds(watch, e, repeats) / measured.unit
    return found


def operations(model: ss.Classifier, x: Tensor, method: str) -> str:
    """The operations of torch that take most of the time of one call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        ss.explain(model, x, method)
    return profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=OPERATIONS, max_name_column_width=45)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photograph", nargs="?", type=Path, default=ss.example_photograph(), metavar="PHOTO")
    parser.add_argument("--model", default="lite0", help=f"{', '.join(MODELS)}, or a name that load_model knows")
    parser.add_argument("--method", default="caso")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    parser.add_argument("--ops", action="store_true", help="also the operations of torch that take most")
    arguments = parser.parse_args()
    model = ss.load_model(MODELS.get(arguments.model, arguments.model))
    x = model.tensor(arguments.photograph)
    measured = profile(model, x, arguments.method, arguments.repeats)
    console.print(table(*measured, arguments.repeats))
    found = figures(*measured, arguments.repeats)
    record.write(arguments.json, "profile", {arguments.model: {arguments.method: found}})
    if arguments.ops:
        print(operations(model, x, arguments.method))


if __name__ == "__main__":
    main()
