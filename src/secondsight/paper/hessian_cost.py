"""Section 3.1: what the decomposition of the whole Hessian costs, and what the largest eigenpairs cost alone."""

from __future__ import annotations

import time
from pathlib import Path

from matplotlib.figure import Figure

from secondsight.comparison import gradient_seconds
from secondsight.operators.input_hessian import input_hessian
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run

LARGEST = 20
"""How many of the largest eigenpairs are computed alone: few beside the 1000 classes, and most of the trace."""


def hessian_cost(run: Run) -> Finding:
    """Time the whole decomposition of the Hessian and the largest eigenpairs alone, on the first photograph.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    settings, (record,) = run.records("hessian-cost", lambda file: measure(run, file), run.files[:1], format=1)
    values, top, unit = record["eigenvalues"], record["top"], record["gradient_seconds"]
    whole, some = record["whole_seconds"], record["top_seconds"]
    return Finding(
        name="hessian-cost",
        where="Section 3.1",
        claim="The decomposition of the Hessian, 1000 classes, takes about 4.2 seconds on a GTX 1080 Ti.",
        measured=f"{run.model.name} on this machine ({run.model.device.type}): {whole:.1f} s, {whole / unit:.0f} times "
        f"one gradient, {len(values)} eigenvalues above rounding, without the d x d matrix. The {LARGEST} largest "
        f"alone: {some:.1f} s, {some / unit:.0f} gradients; they hold {sum(top) / sum(values):.1%} of the trace. "
        "Seconds of different machines cannot be compared.",
        verdict="holds in part",
        numbers={"settings": settings} | record,
        figures=[_figure(values, top)],
    )


def measure(run: Run, file: Path) -> Record:
    """Time one gradient, the largest eigenpairs and the whole decomposition at one photograph, each in seconds."""
    x = run.model.tensor(file)
    unit = gradient_seconds(run.model, x)
    h = input_hessian(run.model, x, curvature="gauss-newton")
    start = time.perf_counter()
    top, _ = h.eigh(LARGEST, seed=run.seed)
    top_seconds = time.perf_counter() - start
    start = time.perf_counter()
    values, _ = h.eigh()
    return {
        "gradient_seconds": unit,
        "whole_seconds": time.perf_counter() - start,
        "top_seconds": top_seconds,
        "eigenvalues": values.tolist(),
        "top": top.tolist(),
    }


def _figure(values: list[float], top: list[float]) -> Figure:
    figure = Figure(figsize=(6, 4), dpi=120, layout="constrained")
    ax = figure.subplots()
    ax.loglog(range(1, len(values) + 1), values, label="whole decomposition")
    ax.loglog(range(1, len(top) + 1), top, "o", label=f"{LARGEST} by Krylov steps")
    ax.set(xlabel="number", ylabel="eigenvalue of the Hessian")
    ax.legend()
    return figure
