"""Beyond the paper: how much of the difference between CASO and CAFO is left with a sparsity penalty and smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from secondsight.api import explain
from secondsight.config import CASO, SmoothCASO
from secondsight.optim.penalties import L1
from secondsight.optim.second_order_angle import degrees_between
from secondsight.paper.finding import Finding
from secondsight.paper.hessian_impact import rank_correlation
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run
from secondsight.results.explanation import SecondOrderExplanation
from secondsight.results.first_order import first_order_map

SAMPLES = 16
"""How many noisy copies are averaged: more change the angles little, and the time grows in proportion."""

METHODS = (CASO(), SmoothCASO(n=SAMPLES))
"""The paper's two methods that use the Hessian."""


def hessian_survival(run: Run) -> Finding:
    """Measure the angle of CASO and CAFO without and with a sparsity penalty, with and without noisy copies.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    settings, records = run.records("hessian-survival", lambda file: measure(run, file), n=SAMPLES, format=1)
    dense, sparse = ({m.name: fmean(r[m.name][key] for r in records) for m in METHODS} for key in ("dense", "chosen"))
    common = {m.name: fmean(r[m.name]["common"] for r in records) for m in METHODS}
    sure = [r["probability"] for r in records]
    rho = {key: rank_correlation(sure, [r["caso"][key] for r in records]) for key in ("dense", "chosen")}
    return Finding(
        name="hessian-survival",
        where="Beyond the paper",
        claim="The paper shows what the Hessian changes at lambda1 = 0 and without noise. How much of it is left in "
        "maps as they are used?",
        measured=f"{run.model.name}, {len(records)} photographs, c1 = 10, CASO against CAFO at equal penalties. Mean "
        f"angle {dense['caso']:.1f} degrees at lambda1 = 0 and {sparse['caso']:.1f} at the chosen lambda1, where "
        f"{common['caso']:.0%} of the entries that either keeps are kept by both; rank correlation with the confidence "
        f"{rho['dense']:.2f} and {rho['chosen']:.2f}. Averaged over {SAMPLES} noisy copies: {dense['smooth-caso']:.1f} "
        f"and {sparse['smooth-caso']:.1f} degrees, {common['smooth-caso']:.0%} in common.",
        verdict="beyond the paper",
        numbers={"settings": settings, "photographs": records, "rank_correlation": rho},
        figures=[_figure(run.model.name, records)],
    )


def measure(run: Run, file: Path) -> Record:
    """Measure one photograph: the angle of CASO and CAFO at lambda1 = 0, at the chosen lambda1 and along the path."""
    record: Record = {}
    for method in METHODS:
        e = explain(run.model, file, method, seed=run.seed)
        record["probability"] = e.probability
        record[method.name] = {
            "dense": e.second_order.angle,
            "chosen": angle(e.delta, first_order_map(e)),
            "common": common(e.delta, first_order_map(e)),
            "path": _along(e),
        }
    return record


def _along(e: SecondOrderExplanation) -> list[dict[str, float]]:
    """Return the angle of CASO and CAFO at each lambda1 of the path, with lambda1 as a share of lambda1_max."""
    assert e.gradient is not None
    assert e.lambda1_max is not None
    g = e.gradient.double().flatten()
    return [
        {"share": point.lambda1 / e.lambda1_max, "angle": angle(point.delta, L1().threshold(g, point.lambda1))}
        for point in e.path
        if e.lambda1_max > 0
    ]


def angle(u: Tensor, v: Tensor) -> float:
    """Return the degrees between two maps; 0 if both are zero, 90 if only one is."""
    u, v = u.double().flatten(), v.double().flatten()
    if not bool(u.any()) or not bool(v.any()):
        return 0.0 if bool(u.any()) == bool(v.any()) else 90.0
    return degrees_between(u, v)


def common(u: Tensor, v: Tensor) -> float:
    """Of the entries that at least one map keeps, return the share that both keep; 1 if both maps are zero."""
    kept, both = (u != 0) | (v != 0), (u != 0) & (v != 0)
    return float(both.sum() / kept.sum()) if bool(kept.any()) else 1.0


def _figure(name: str, records: Sequence[Record]) -> Figure:
    figure = Figure(figsize=(9.5, 3.9), dpi=120, layout="constrained")
    axes: Any = figure.subplots(1, 2)
    titles = ("single input", f"average over {SAMPLES} noisy copies")
    for ax, method, title in zip(axes, METHODS, titles, strict=True):
        for record in records:
            points = record[method.name]["path"]
            ax.semilogx([p["share"] for p in points], [p["angle"] for p in points], color="C0", alpha=0.25, lw=0.8)
        mean = fmean(record[method.name]["dense"] for record in records)
        ax.axhline(mean, color="k", lw=0.8, ls="--", label="mean at lambda1 = 0")
        ax.set(xlabel="lambda1 / lambda1_max", ylabel="degrees between CASO and CAFO", title=title, ylim=(0, None))
        ax.legend()
    figure.suptitle(name, parse_math=False)
    return figure
