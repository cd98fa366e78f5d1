"""Figure 1: the confidence of a prediction against the difference that second order makes, without sparsity.

The paper fixes c1 = 10. But as p tends to 1 the Hessian itself tends to 0. A Hessian that is small beside c1 leaves
CASO nearly parallel to CAFO, whatever the structure of the Hessian. So the distance is also measured with c1 in
proportion to L.

Beyond the paper, theorem 4 for finite p: H = p/(1-p) gg' + R. By the law of total variance, R is 1 - p times the
covariance of the logits' gradients among the other classes. With a = 2 lambda2, CASO solves (aI - R) D = s g for some
number s. So the rank-one part changes the length of D and never its direction, and sin(angle to CAFO) <= |R| / a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from secondsight.model.classifier import Classifier
from secondsight.operators.hessian_choice import hessian_at
from secondsight.optim.caso import CasoSolver
from secondsight.optim.lambda_choice import HighestLossRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.penalties import L1
from secondsight.optim.problem import C1, Problem
from secondsight.optim.second_order_angle import angle_without_penalty
from secondsight.paper.finding import Finding, Verdict
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run

FIXED = (1.0, 10.0, 100.0)
"""Values of c1: the paper's 10, and ten times less and more."""

RELATIVE = (0.05, 0.25, 1.0)
"""Values of c1 over L, from a weak penalty to a strong one. The verdict takes 0.25."""

BINS = 10
"""Means are taken over tenths: of the photographs, and of the range of the confidence."""

TOLERANCE = 1e-6
"""On the relative gap: below the default of `explain`, because the error of an angle goes with the root of the gap."""

SMALLEST = 1e-300
"""Stands in for zero in a denominator: far below any number that occurs, and still a normal float64."""


def hessian_impact(run: Run) -> Finding:
    """Measure the distance of CASO and CAFO and its rank correlation with the confidence, for several c1.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    settings, records = run.records(
        "hessian-impact",
        lambda file: measure(run.model, file, run.seed),
        c1=list(FIXED),
        c1_over_L=list(RELATIVE),
        format=2,
    )
    sure = [record["probability"] for record in records]
    fixed = {c1: [distance(record["angle"][str(c1)]) for record in records] for c1 in FIXED}
    relative = [distance(record["angle_relative"]["0.25"]) for record in records]
    rho = {c1: rank_correlation(sure, fixed[c1]) for c1 in FIXED}
    rho_relative = rank_correlation(sure, relative)
    low, high = ends(sure, fixed[10.0])
    low_relative, high_relative = ends(sure, relative)
    means = ", ".join(f"{fmean(fixed[c1]):.3f} (rank correlation {rho[c1]:.2f}) at c1 = {c1:g}" for c1 in FIXED)
    inside = sum(_sine(record) <= bound(record) + math.radians(record["angle_error"]["10.0"]) for record in records)
    return Finding(
        name="hessian-impact",
        where="Figure 1, section 3.3",
        claim="At low confidence CASO differs much from CAFO; at high confidence they are nearly the same. The value "
        "of c1 hardly matters.",
        measured=f"{run.model.name}, {len(records)} photographs. At c1 = 10: mean distance {low:.3f} for the least "
        f"sure tenth and {high:.3f} for the surest; rank correlation with the confidence {rho[10.0]:.2f}. At c1 = L/4, "
        f"which leaves the size of H out: {low_relative:.3f} and {high_relative:.3f}, rank correlation "
        f"{rho_relative:.2f}. c1 does matter: mean distance {means}. Beyond the paper: the rank-one part p/(1-p) gg' "
        f"explains {fmean(record['explained'] for record in records):.0%} of L on average, and "
        f"sin(angle) <= |R| / (2 lambda2), R the rest, held on {inside} of {len(records)}.",
        verdict=verdict(rho[10.0], rho_relative),
        numbers={
            "settings": settings,
            "photographs": records,
            "rank_correlation": {str(c1): value for c1, value in rho.items()},
            "rank_correlation_relative": rho_relative,
        },
        figures=[_figure(run.model.name, records, sure, fixed, relative)],
    )


def verdict(rho: float, rho_relative: float) -> Verdict:
    """Judge whether the distance of CASO and CAFO falls with the confidence.

    Args:
        rho: rank correlation of distance and confidence at c1 = 10.
        rho_relative: the same at c1 = L/4, where the size of H alone has no effect.
    """
    if rho >= -0.3:
        return "does not hold"
    return "holds" if rho_relative < -0.3 else "holds in part"


def measure(model: Classifier, file: Path, seed: int, choice: str = "auto") -> Record:
    """Measure the degrees between CASO and CAFO at lambda1 = 0 for several c1, from the same Hessian products.

    Args:
        model: the network.
        file: the photograph.
        seed: of the eigenvalue estimate's start.
        choice: the curvature, as for `explain`.

    Returns:
        The angles in degrees and their error bounds, by c1 and by c1 / L. Also the probability of the class, L, an
        upper bound of minus the smallest eigenvalue (`negative`), the products taken, the share of L that the rank-one
        part p/(1-p) gg' explains, and the largest eigenvalue of the rest R.
    """
    with model.ready():
        H, _ = hessian_at(model, model.tensor(file), choice=choice)
        g = H.gradient
        solver = CasoSolver(
            gradient=g / max(float(g.abs().max()), SMALLEST),
            H=MeteredOperator(H, most=100),
            penalty=L1(),
            sparsity=lambda delta: 0.0,
            c1=C1(FIXED[0]),
            lambda2=None,
            tolerance=TOLERANCE,
            seed=seed,
            dtype=H.linear.x.dtype,
        )
        solver.fix_lambda2()
        solver.choose(HighestLossRule((0.0, 1.0), (0.0,)))
    problem, top = solver.problem, solver.top

    def angle(c1: float) -> tuple[float, float]:
        lambda2 = top / 2 + c1
        bounds = solver.bound.at(solver.basis, solver.H.psd, lambda2)
        at = Problem(problem.gradient, L1(), lambda2, bounds.top, bounds.negative)
        return angle_without_penalty(at, solver.basis)

    p = H.linear.probabilities[0]
    others = float(p.sum() - p[H.linear.target])
    rank_one = (1 - others) / max(others, SMALLEST) * float(g @ g)
    fixed = {str(c1): angle(c1) for c1 in FIXED}
    relative = {str(share): angle(share * top) if top > 0 else (0.0, 0.0) for share in RELATIVE}
    along = solver.basis.vectors.inner((g / g.norm())[None])[:, 0] if bool(g.any()) else g.new_zeros(0)
    rest = solver.basis.projected() - rank_one * torch.outer(along, along) if len(along) else along[:, None]
    return {
        "probability": 1 - others,
        "L": top,
        "negative": problem.negative,
        "products": solver.H.taken,
        "angle": {c1: degrees for c1, (degrees, _) in fixed.items()},
        "angle_error": {c1: error for c1, (_, error) in fixed.items()},
        "angle_relative": {share: degrees for share, (degrees, _) in relative.items()},
        "angle_relative_error": {share: error for share, (_, error) in relative.items()},
        "explained": min(1.0, rank_one / top) if top > 0 else 1.0,
        # A Ritz value: a lower bound, and close because the basis holds g and its products.
        "rest": max(0.0, float(torch.linalg.eigvalsh(rest)[-1])) if len(rest) else 0.0,
    }


def bound(record: Record) -> float:
    """Return |R| / (2 lambda2) at c1 = 10, the bound on the sine of the angle between CASO and CAFO."""
    return float(record["rest"] / (record["L"] + 20))


def _sine(record: Record) -> float:
    return math.sin(math.radians(record["angle"]["10.0"]))


def distance(degrees: float) -> float:
    """Return the Frobenius distance of two maps of unit norm with this angle between them."""
    return 2 * math.sin(math.radians(degrees) / 2)


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Return Spearman's rank correlation; 0 if one side is constant or has a single value."""
    if len(x) < 2:
        return 0.0
    ranks = torch.stack([_ranks(x), _ranks(y)])
    if bool((ranks.std(1) == 0).any()):
        return 0.0
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: list[float]) -> Tensor:
    """Rank values from 1; equal values share their mean rank."""
    _, place, counts = torch.tensor(values, dtype=torch.float64).unique(return_inverse=True, return_counts=True)
    mean: Tensor = (counts.cumsum(0) - (counts + 1) / 2)[place]
    return mean


def ends(sure: list[float], distances: list[float]) -> tuple[float, float]:
    """Return the mean distance of the least confident tenth and that of the most confident tenth.

    Args:
        sure: the confidence of each photograph.
        distances: the distance of CASO and CAFO of each photograph.
    """
    ordered = [d for _, d in sorted(zip(sure, distances, strict=True))]
    tenth = max(1, len(ordered) // BINS)
    return fmean(ordered[:tenth]), fmean(ordered[-tenth:])


def _figure(
    name: str, records: Sequence[Record], sure: list[float], fixed: dict[float, list[float]], relative: list[float]
) -> Figure:
    figure = Figure(figsize=(13, 7.6), dpi=120, layout="constrained")
    axes: Any = figure.subplots(2, 3)
    away = "distance of CASO and CAFO"
    for ax, c1 in zip(axes[0], FIXED, strict=True):
        scatter(ax, sure, fixed[c1], away, f"c1 = {c1:g}{', as in the paper' if c1 == 10 else ''}")
    scatter(axes[1, 0], sure, relative, away, "c1 = L / 4")
    scatter(axes[1, 1], sure, [record["explained"] for record in records], "share of L", "p/(1-p) gg' against H")
    bounds, sines = [bound(record) for record in records], [_sine(record) for record in records]
    axes[1, 2].scatter(bounds, sines, s=8, alpha=0.5, edgecolors="none")
    axes[1, 2].axline((0, 0), slope=1, color="k", lw=0.8)
    axes[1, 2].set(xlabel="|R| / (2 lambda2)", ylabel="sine of the angle of CASO and CAFO", title="c1 = 10")
    figure.suptitle(name, parse_math=False)
    return figure


def scatter(ax: Axes, sure: list[float], values: list[float], label: str, title: str) -> None:
    """Draw values against the confidence, with the mean of each tenth of its range.

    Args:
        ax: where to draw.
        sure: the confidence of each photograph.
        values: one for each photograph.
        label: the name of the values, for the axis.
        title: the title of the plot.
    """
    ax.scatter(sure, values, s=8, alpha=0.5, edgecolors="none")
    centres = [(i + 0.5) / BINS for i in range(BINS)]
    inside = [[v for p, v in zip(sure, values, strict=True) if i <= min(p, 0.999) * BINS < i + 1] for i in range(BINS)]
    drawn = [(c, fmean(some)) for c, some in zip(centres, inside, strict=True) if some]
    ax.plot(*zip(*drawn, strict=True), "k.-", label="mean")
    ax.set(xlabel="confidence", ylabel=label, title=title, xlim=(0, 1), ylim=(0, None))
    ax.legend()
