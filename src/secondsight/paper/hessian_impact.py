"""Figure 1: the confidence of a prediction against the difference that second order makes, without sparsity.

The paper fixes c1 = 10. But as p tends to 1 the Hessian itself tends to 0, and beside a fixed c1 anything that small
leaves CASO parallel to CAFO. So the same is measured with c1 in proportion to L, and the share of L that the rank-one
part p/(1-p) gg' explains: the finite version of theorem 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from secondsight.curvature.hessian import curvature_at
from secondsight.model import Classifier
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import Ledger, Record
from secondsight.solve.caso import CasoSolver, Demands, Products
from secondsight.solve.certificate import Problem
from secondsight.solve.low_rank import angle_without_penalty
from secondsight.solve.penalty import L1
from secondsight.solve.select import Rule

FIXED = (1.0, 10.0, 100.0)
RELATIVE = (0.05, 0.25, 1.0)
"""Values of c1, and of c1 over L."""

BINS = 10
TOLERANCE = 1e-6
SMALLEST = 1e-300


def hessian_impact(
    model: Classifier, files: list[Path], out: Path, seed: int, progress: Callable[[int], None]
) -> Finding:
    settings = {"model": model.name, "seed": seed, "c1": list(FIXED), "c1_over_L": list(RELATIVE), "format": 1}
    ledger = Ledger(out / "hessian-impact.jsonl", settings)
    records = ledger.fill(files, lambda file: measure(model, file, seed), progress)
    sure = [record["probability"] for record in records]
    fixed = [distance(record["angle"]["10.0"]) for record in records]
    relative = [distance(record["angle_relative"]["0.25"]) for record in records]
    explained = [record["explained"] for record in records]
    rho, rho_relative = rank_correlation(sure, fixed), rank_correlation(sure, relative)
    low, high = _ends(sure, fixed)
    low_relative, high_relative = _ends(sure, relative)
    return Finding(
        name="hessian-impact",
        where="Figure 1, section 3.3",
        claim="At low confidence CASO differs much from CAFO; at high confidence they are nearly the same.",
        measured=f"{model.name}, {len(records)} photographs. At c1 = 10: mean distance {low:.3f} for the least sure "
        f"tenth and {high:.3f} for the surest; rank correlation with the confidence {rho:.2f}. At c1 = L/4, which "
        f"leaves the size of H out: {low_relative:.3f} and {high_relative:.3f}, rank correlation {rho_relative:.2f}. "
        f"The rank-one part explains {fmean(explained):.0%} of L on average.",
        verdict="holds" if rho < -0.3 and rho_relative < -0.3 else "holds in part" if rho < -0.3 else "does not hold",
        numbers={
            "settings": settings,
            "photographs": records,
            "rank_correlation": rho,
            "rank_correlation_relative": rho_relative,
        },
        figure=_figure(model.name, sure, fixed, relative, explained),
    )


def measure(model: Classifier, file: Path, seed: int) -> Record:
    """Degrees between CASO and CAFO at lambda1 = 0 for several c1, on one basis of exact products."""
    with model.ready():
        curvature, _ = curvature_at(model, model.tensor(file))
        g = curvature.gradient
        size = float(g.abs().max())
        solver = CasoSolver(
            g / max(size, SMALLEST),
            Products(curvature.product, 100),
            curvature.semidefinite,
            lambda delta: 0.0,
            Demands(
                Rule(0.0, (0.0, 1.0), 12, 0.5, 1.0), FIXED[0], None, TOLERANCE, "chosen", seed, curvature.linear.x.dtype
            ),
            L1(),
        )
        solution = solver.solve()
    problem, top = solution.problem, solution.top_eigenvalue
    bound = 2 * problem.lambda2 - problem.mu

    def angle(c1: float) -> list[float]:
        lambda2 = top / 2 + c1
        at = Problem(problem.gradient, L1(), lambda2, 2 * lambda2 - bound, problem.negative)
        return list(angle_without_penalty(at, solver.basis))

    p = curvature.linear.probabilities[0]
    others = float(p.sum() - p[curvature.linear.target])
    rank_one = (1 - others) / max(others, SMALLEST) * float(g @ g)
    return {
        "probability": 1 - others,
        "L": top,
        "products": solution.products,
        "angle": {str(c1): angle(c1)[0] for c1 in FIXED},
        "angle_error": {str(c1): angle(c1)[1] for c1 in FIXED},
        "angle_relative": {str(share): angle(share * top)[0] if top > 0 else 0.0 for share in RELATIVE},
        "angle_relative_error": {str(share): angle(share * top)[1] if top > 0 else 0.0 for share in RELATIVE},
        "explained": min(1.0, rank_one / top) if top > 0 else 1.0,
    }


def distance(degrees: float) -> float:
    """Frobenius distance of two maps of unit L2 norm at that angle."""
    return 2 * math.sin(math.radians(degrees) / 2)


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's; 0 where one side is constant."""
    if len(x) < 2:
        return 0.0
    ranks = torch.stack([_ranks(x), _ranks(y)])
    if bool((ranks.std(1) == 0).any()):
        return 0.0
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: list[float]) -> Tensor:
    """Ties share their mean rank."""
    _, place, counts = torch.tensor(values, dtype=torch.float64).unique(return_inverse=True, return_counts=True)
    mean: Tensor = (counts.cumsum(0) - (counts + 1) / 2)[place]
    return mean


def _ends(sure: list[float], distances: list[float]) -> tuple[float, float]:
    """Mean distance of the tenth of lowest and of highest confidence."""
    ordered = [d for _, d in sorted(zip(sure, distances, strict=True))]
    tenth = max(1, len(ordered) // BINS)
    return fmean(ordered[:tenth]), fmean(ordered[-tenth:])


def _figure(name: str, sure: list[float], fixed: list[float], relative: list[float], explained: list[float]) -> Figure:
    figure = Figure(figsize=(13, 3.9), dpi=120, layout="constrained")
    axes: Any = figure.subplots(1, 3)
    panels = (
        (fixed, "distance of CASO and CAFO", "c1 = 10, as in the paper"),
        (relative, "distance of CASO and CAFO", "c1 = L / 4"),
        (explained, "share of L", "p/(1-p) gg' against H"),
    )
    for ax, (values, label, title) in zip(axes, panels, strict=True):
        ax.scatter(sure, values, s=8, alpha=0.5, edgecolors="none")
        centres = [(i + 0.5) / BINS for i in range(BINS)]
        inside = [
            [v for p, v in zip(sure, values, strict=True) if i <= min(p, 0.999) * BINS < i + 1] for i in range(BINS)
        ]
        drawn = [(c, fmean(some)) for c, some in zip(centres, inside, strict=True) if some]
        ax.plot(*zip(*drawn, strict=True), "k.-", label="mean")
        ax.set(xlabel="confidence", ylabel=label, title=title, xlim=(0, 1), ylim=(0, None))
        ax.legend()
    figure.suptitle(name, parse_math=False)
    return figure
