"""Appendix F.3: the same scatter and examples for a network that is not piecewise linear.

A piecewise-linear network is made smooth: softplus(beta) in place of each ReLU, with the smallest beta that stays
within 3 points of its accuracy; that needs labels. Other networks (timm:seresnet50@FILE, say) are taken as they are. In
a smooth network the true Hessian is not the Gauss-Newton matrix, so both are measured.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from matplotlib.figure import Figure

from secondsight.api import explain
from secondsight.config import CASO
from secondsight.errors import InputError
from secondsight.model.classifier import Classifier
from secondsight.model.diagnosis import is_piecewise_linear
from secondsight.paper.finding import Finding
from secondsight.paper.hessian_examples import confidence
from secondsight.paper.hessian_impact import distance, ends, measure, rank_correlation, scatter, verdict
from secondsight.paper.hessian_survival import angle
from secondsight.paper.photographs import Record, read_labels
from secondsight.paper.run import Run, evenly
from secondsight.paper.softened import softened
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture
from secondsight.plotting.shades import normalise
from secondsight.results.explanation import SecondOrderExplanation
from secondsight.results.first_order import first_order_map

BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Powers of two, from clearly smooth to nearly ReLU."""

POINTS = 0.03
"""Accuracy that the smooth network may lose: with 3 points less it is still much the same classifier."""

HESSIANS = 20
"""Photographs whose Hessians are measured, half a minute each on two CPU threads; the accuracy is taken on all."""

CHOICES = ("exact", "gauss-newton")
"""Both Hessians, by the names that `explain` gives them."""

EXAMPLES = 2
"""Pictures whose maps are drawn: the least confident, whose maps should differ most."""


def non_relu(run: Run) -> Finding:
    """Measure the distance of CASO and CAFO by both Hessians, and its rank correlation with the confidence.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    run.model.require_pictures()
    model, made, accuracies = _smooth_network(run)
    files = evenly(run.files, HESSIANS)
    settings, records = run.records(
        "non-relu", lambda file: _both(model, file, run.seed), files, network=model.name, format=1
    )
    sure = [record["exact"]["probability"] for record in records]
    away = {kind: [distance(record[kind]["angle"]["10.0"]) for record in records] for kind in CHOICES}
    relative = [distance(record["exact"]["angle_relative"]["0.25"]) for record in records]
    rho = {kind: rank_correlation(sure, away[kind]) for kind in CHOICES}
    rho_relative = rank_correlation(sure, relative)
    ratios = [record["exact"]["L"] / record["gauss-newton"]["L"] for record in records if record["gauss-newton"]["L"]]
    low, high = ends(sure, away["exact"])
    least, middle, most = (min(ratios), median(ratios), max(ratios)) if ratios else (0.0, 0.0, 0.0)
    return Finding(
        name="non-relu",
        where="Appendix F.3",
        claim="Also for a network that is not piecewise linear, CASO and CAFO differ at low confidence and agree at "
        "high confidence.",
        measured=f"{made}. {len(records)} photographs, c1 = 10, exact Hessian: mean distance {low:.3f} for the least "
        f"sure tenth and {high:.3f} for the surest, rank correlation with the confidence {rho['exact']:.2f} "
        f"(Gauss-Newton {rho['gauss-newton']:.2f}); at c1 = L/4 {rho_relative:.2f}. L of the exact Hessian over L of "
        f"Gauss-Newton: median {middle:.2f}, from {least:.2f} to {most:.2f}. The mean distance is "
        f"{fmean(away['exact']):.3f} by the exact Hessian and {fmean(away['gauss-newton']):.3f} by Gauss-Newton.",
        verdict=verdict(rho["exact"], rho_relative),
        numbers={
            "settings": settings,
            "accuracies": accuracies,
            "photographs": records,
            "rank_correlation": rho,
            "rank_correlation_relative": rho_relative,
            "ratio_of_L": ratios,
        },
        figures=[_figure(model.name, records, sure, away), _examples(run, model)],
    )


def _smooth_network(run: Run) -> tuple[Classifier, str, dict[str, float]]:
    """Return the network to measure, how it was made, in words, and the accuracy at each beta."""
    model = run.model
    with model.ready():
        if not is_piecewise_linear(model, model.tensor(run.files[0])):
            return model, f"{model.name}, as it is", {}
    labels = read_labels(run.files[0].parent)
    if not all(file.name in labels for file in run.files):
        wanted = "photographs with their classes in labels.csv (columns file, class_index), which choose beta"
        raise InputError("--images", wanted, f"{str(run.files[0].parent)!r}, whose labels are missing")
    _, records = run.records(
        "non-relu-accuracy", lambda file: _correct(model, file, labels[file.name]), betas=list(BETAS), format=1
    )
    right = {key: fmean(record[key] for record in records) for key in ("relu", *map(str, BETAS))}
    near = [beta for beta in BETAS if right[str(beta)] >= right["relu"] - POINTS]
    beta = near[0] if near else BETAS[-1]
    words = (
        f"{model.name} with softplus(beta) in place of ReLU, beta = {beta:g}, "
        f"{'the smallest' if near else 'the largest'} of {', '.join(f'{b:g}' for b in BETAS)}"
        f"{' within 3 points of the accuracy' if near else ', none of which comes within 3 points of the accuracy'}: "
        f"{right[str(beta)]:.1%} against {right['relu']:.1%} on {len(records)} photographs"
    )
    return softened(model, beta), words, right


def _correct(model: Classifier, file: Path, label: int) -> Record:
    x = model.tensor(file)[None]
    networks = {"relu": model} | {str(beta): softened(model, beta) for beta in BETAS}
    with torch.no_grad():
        return {key: int(network(x)[0].argmax()) == label for key, network in networks.items()}


def _both(model: Classifier, file: Path, seed: int) -> Record:
    return {kind: measure(model, file, seed, kind) for kind in CHOICES}


def _figure(name: str, records: list[Record], sure: list[float], away: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(13, 3.9), dpi=120, layout="constrained")
    axes: Any = figure.subplots(1, 3)
    for ax, (kind, values) in zip(axes, away.items(), strict=False):
        scatter(ax, sure, values, "distance of CASO and CAFO", f"{kind}, c1 = 10")
    ratio = [r["exact"]["L"] / r["gauss-newton"]["L"] if r["gauss-newton"]["L"] else 1.0 for r in records]
    scatter(axes[2], sure, ratio, "L, exact over Gauss-Newton", "largest eigenvalues")
    figure.suptitle(name, parse_math=False)
    return figure


def _examples(run: Run, model: Classifier) -> Figure:
    """Draw CAFO, and CASO by both Hessians, of the least confident pictures."""
    least = sorted(run.pictures, key=lambda file: confidence(model, file)["probability"])[:EXAMPLES]
    rows = []
    for file in least:
        maps: dict[str, SecondOrderExplanation] = {
            kind: explain(model, file, CASO(lambda1=0.0, curvature=kind), seed=run.seed) for kind in CHOICES
        }
        first = maps[CHOICES[0]]
        panels = [
            Panel(picture(first.input.numpy()), f"{first.label}, p = {first.probability:.2f}"),
            Panel(normalise(first_order_map(first).numpy()), "CAFO"),
            *(
                Panel(
                    normalise(e.delta.numpy()), f"CASO, {kind},\n{angle(e.delta, first_order_map(e)):.1f} degrees away"
                )
                for kind, e in maps.items()
            ),
        ]
        rows.append(Row(panels, len(panels), fontsize=9))
    return maps_figure(model.name, rows, 10.0, PAPER_COLOURS)
