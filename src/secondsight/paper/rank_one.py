"""Appendix F.1: how fast the Hessian of a linear model becomes rank one, with the classes and with the confidence.

H = W (diag p - pp') W' for a random W and p = [1 - (c-1) eps, eps, ..., eps] is compared with gg' / (eps (c-1)), where
g = W (p - y). c is the number of classes, d the number of inputs.
"""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure
from torch import Tensor

from secondsight.paper.finding import Finding

CONFIDENCE = 0.9999
"""p while the number of classes varies, as in the appendix."""

CLASSES = 100
"""The number of classes while p varies, as in the appendix."""

INPUTS = 4096
"""d, so large that 1/sqrt(d) = 0.016 stays below 1/sqrt(c) up to 1000 classes."""


def rank_one(quick: bool = False, seed: int = 0) -> Finding:
    """Compute the error of the rank-one Hessian by the number of classes and by the confidence.

    Args:
        quick: 6 instead of 20 points on each axis, and a quarter of the inputs.
        seed: of the random W.
    """
    points = 6 if quick else 20
    inputs = INPUTS // 4 if quick else INPUTS
    generator = torch.Generator().manual_seed(seed)
    counts = sorted({round(10 * 100 ** (i / (points - 1))) for i in range(points)})
    weights = torch.randn(inputs, max(counts), generator=generator, dtype=torch.float64)
    gram = weights.T @ weights
    by_count = [error(gram[:c, :c], (1 - CONFIDENCE) / (c - 1)) for c in counts]
    tails = [5e-3 * (1e-6 / 5e-3) ** (i / (points - 1)) for i in range(points)]
    by_tail = [error(gram[:CLASSES, :CLASSES], eps) for eps in tails]
    confidences = [1 - 10 ** (-5 * i / (points - 1)) / 2 for i in range(points)]
    both = [[error(gram[:c, :c], (1 - p) / (c - 1)) for c in counts] for p in confidences]
    last = by_tail[-1]
    return Finding(
        name="rank-one",
        where="Appendix F.1, three figures",
        claim="The relative error of the rank-one Hessian converges quickly, with the number of classes and with "
        "-log(1 - p).",
        measured=f"At p = {CONFIDENCE} it falls from {by_count[0]:.2f} at {counts[0]} classes to {by_count[-1]:.3f} at "
        f"{counts[-1]}, as 1/sqrt(c) ({1 / math.sqrt(counts[-1]):.3f}) until 1/sqrt(d) takes over. At {CLASSES} "
        f"classes, with the confidence, it falls from {by_tail[0]:.2f} to {last:.3f} and stays there: it tends to "
        f"1/sqrt(c) ({1 / math.sqrt(CLASSES):.3f}), not to 0.",
        verdict="holds in part",
        numbers={
            "inputs": inputs,
            "seed": seed,
            "classes": counts,
            "error_by_classes": by_count,
            "eps": tails,
            "error_by_eps": by_tail,
            "confidences": confidences,
            "error_by_confidence_and_classes": both,
        },
        figures=[_figure(counts, by_count, tails, by_tail, confidences, both)],
    )


def error(gram: Tensor, eps: float) -> float:
    """Return |H - gg'/(eps (c-1))| / |H| in Frobenius norms, without any d x d matrix.

    Uses |W M W'|^2 = trace(M W'W M W'W).

    Args:
        gram: W'W, of shape (c, c).
        eps: the probability of each of the c - 1 unlikely classes.
    """
    c = len(gram)
    p = torch.full((c,), eps, dtype=torch.float64)
    p[0] = 1 - (c - 1) * eps
    residual = p.clone()
    residual[0] = -(c - 1) * eps
    true = torch.diag(p) - torch.outer(p, p)
    # The entry of the likely class, without cancellation.
    true[0, 0] = p[0] * (c - 1) * eps
    difference = true - torch.outer(residual, residual) / (eps * (c - 1))
    return float((_square(difference, gram) / _square(true, gram)).sqrt())


def _square(middle: Tensor, gram: Tensor) -> Tensor:
    half = middle @ gram
    return (half * half.T).sum()


def _figure(
    counts: list[int],
    by_count: list[float],
    tails: list[float],
    by_tail: list[float],
    confidences: list[float],
    both: list[list[float]],
) -> Figure:
    figure = Figure(figsize=(13, 3.8), dpi=120, layout="constrained")
    first, second, third = figure.subplots(1, 3)
    first.loglog(counts, by_count, "o-", label="measured")
    first.loglog(counts, [1 / math.sqrt(c) for c in counts], "k:", label="1/sqrt(c)")
    first.set(xlabel="classes", ylabel="relative error", title=f"p = {CONFIDENCE}")
    first.legend()
    second.loglog([(CLASSES - 1) * eps for eps in tails], by_tail, "o-", label="measured")
    second.axhline(1 / math.sqrt(CLASSES), color="black", linestyle=":", label="1/sqrt(c)")
    second.invert_xaxis()
    second.set(xlabel="1 - p", ylabel="relative error", title=f"{CLASSES} classes")
    second.legend()
    mesh = third.pcolormesh(counts, [-math.log10(1 - p) for p in confidences], both, cmap="viridis", shading="nearest")
    third.set(xscale="log", xlabel="classes", ylabel="-log10(1 - p)", title="relative error")
    figure.colorbar(mesh, ax=third)
    return figure
