"""Appendix F.3: the same scatter and examples for a network that is not piecewise linear.

A piecewise-linear network is made smooth: softplus(beta) stands in place of each ReLU. beta is the smallest with which
the network stays within 3 points of its accuracy, so labels are needed. Other networks, such as
timm:vit_tiny_patch16_224@FILE, are taken as they are. For these networks the true Hessian H is not the Gauss-Newton
matrix G. So both are measured, and how far they are apart: H - G, the ends of their spectra, their maps, and the
products that a certified map takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from secondsight.api import explain
from secondsight.config import CASO
from secondsight.errors import InputError, SecondsightWarning
from secondsight.model.classifier import Classifier
from secondsight.model.diagnosis import is_piecewise_linear
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.hessian_choice import hessian_at
from secondsight.operators.lanczos import lanczos_eigh
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
"""Share of all photographs that the smooth network may lose in accuracy: 3 points less is much the same classifier."""

HESSIANS = 20
"""Photographs whose Hessians are measured at most: ten seconds each on two CPU threads. The accuracy is that of all."""

CHOICES = ("exact", "gauss-newton")
"""Both Hessians, by the names that `explain` gives them."""

PROBES = 8
"""Random vectors for |H - G| / |H|. The estimate is within a few percent, because many eigenvalues add to the norms."""

END = 0.01
"""The error of the smallest eigenvalue, as a share of the width of the spectrum. H counts as indefinite if its smallest
eigenvalue is further than that below zero."""

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
        "non-relu", lambda file: _compared(model, file, run.seed), files, network=model.name, format=2
    )
    sure = [record["exact"]["probability"] for record in records]
    away = {kind: [distance(record[kind]["angle"]["10.0"]) for record in records] for kind in CHOICES}
    relative = [distance(record["exact"]["angle_relative"]["0.25"]) for record in records]
    rho = {kind: rank_correlation(sure, away[kind]) for kind in CHOICES}
    rho_relative = rank_correlation(sure, relative)
    ratios = [record["exact"]["L"] / record["gauss-newton"]["L"] for record in records if record["gauss-newton"]["L"]]
    summary = _summary(records, ratios)
    low, high = ends(sure, away["exact"])
    least, most = (min(ratios), max(ratios)) if ratios else (0.0, 0.0)
    exact, newton = (summary[kind] for kind in CHOICES)
    return Finding(
        name="non-relu",
        where="Appendix F.3",
        claim="Also for a network that is not piecewise linear, CASO and CAFO differ at low confidence and agree at "
        "high confidence.",
        measured=f"{made}. {len(records)} photographs, c1 = 10, exact Hessian: mean distance {low:.3f} for the least "
        f"sure tenth and {high:.3f} for the surest, rank correlation with the confidence {rho['exact']:.2f} "
        f"(Gauss-Newton {rho['gauss-newton']:.2f}); at c1 = L/4 {rho_relative:.2f}. The mean distance is "
        f"{fmean(away['exact']):.3f} by the exact Hessian H and {fmean(away['gauss-newton']):.3f} by the Gauss-Newton "
        f"matrix G. L of H over L of G: median {summary['ratio_of_L']:.2f}, from {least:.2f} to {most:.2f}. Other "
        f"medians: |H - G| / |H| is {summary['difference']:.2f} in the Frobenius norm, and for the product with the "
        f"gradient {summary['difference_at_gradient']:.2f}; the smallest eigenvalue of H is {summary['smallest']:.2f} "
        f"L, and H is indefinite on {summary['indefinite']} of {len(records)}; CASO by H and CASO by G are "
        f"{summary['maps_apart']:.1f} degrees apart at lambda1 = 0 and {summary['chosen_maps_apart']:.1f} at the "
        f"chosen lambda1. Certified at default options: {exact['certified']} maps by H, with {exact['products']:g} "
        f"products each (median), and {newton['certified']} by G, with {newton['products']:g}.",
        verdict=verdict(rho["exact"], rho_relative),
        numbers={
            "settings": settings,
            "accuracies": accuracies,
            "summary": summary,
            "photographs": records,
            "rank_correlation": rho,
            "rank_correlation_relative": rho_relative,
            "ratio_of_L": ratios,
        },
        figures=[_figure(model.name, records, sure, away), _examples(run, model)],
    )


def _summary(records: Sequence[Record], ratios: Sequence[float]) -> dict[str, Any]:
    """Sum up both Hessians over the photographs: medians, and how many maps are certified and Hessians indefinite."""

    def middle(value: Callable[[Record], float]) -> float:
        return median(map(value, records))

    return {
        "photographs": len(records),
        "ratio_of_L": median(ratios) if ratios else 0.0,
        "difference": middle(lambda r: r["difference"]),
        "difference_at_gradient": middle(lambda r: r["difference_at_gradient"]),
        "smallest": middle(_smallest_share),
        "indefinite": sum(r["smallest"] < -END * (r["exact"]["L"] - r["smallest"]) for r in records),
        "maps_apart": middle(lambda r: r["maps_apart"]),
        "chosen_maps_apart": middle(lambda r: r["chosen_maps_apart"]),
    } | {
        kind: {
            "angle": middle(lambda r, kind=kind: r[kind]["angle"]["10.0"]),  # type: ignore[misc]
            "certified": sum(r[kind]["certified"] for r in records),
            "products": middle(lambda r, kind=kind: r[kind]["map_products"]),  # type: ignore[misc]
        }
        for kind in CHOICES
    }


def _smallest_share(record: Record) -> float:
    """Return the smallest eigenvalue of H over L, the largest; 0 if L is 0."""
    return float(record["smallest"] / record["exact"]["L"]) if record["exact"]["L"] else 0.0


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


def _compared(model: Classifier, file: Path, seed: int) -> Record:
    """Measure both Hessians at one photograph, how far they are apart, and their maps."""
    record: Record = {kind: measure(model, file, seed, kind) for kind in CHOICES}
    with model.ready():
        H, G = (hessian_at(model, model.tensor(file), choice=kind)[0] for kind in CHOICES)
        probes = torch.randn(H.size, PROBES, generator=torch.Generator().manual_seed(seed)).to(H.gradient)
        record["difference"] = _difference(H, G, probes)
        record["difference_at_gradient"] = _difference(H, G, H.gradient)
        record["smallest"] = _smallest_eigenvalue(H, record["exact"]["L"], H.gradient, seed)
    maps: dict[str, SecondOrderExplanation] = {}
    dense: dict[str, Tensor] = {}
    with warnings.catch_warnings():
        # The warnings say that a map is not certified, and the record says so, too.
        warnings.simplefilter("ignore", SecondsightWarning)
        for kind in CHOICES:
            maps[kind] = explain(model, file, CASO(curvature=kind), seed=seed)
            dense[kind] = explain(model, file, CASO(curvature=kind, lambda1=0.0), seed=seed).delta
            certificate = maps[kind].certificate
            record[kind] |= {"certified": certificate.holds, "map_products": maps[kind].products}
    record["maps_apart"] = angle(*(dense[kind] for kind in CHOICES))
    record["chosen_maps_apart"] = angle(*(maps[kind].delta for kind in CHOICES))
    return record


def _difference(H: SymmetricOperator, G: SymmetricOperator, v: Tensor) -> float:
    """Return |HV - GV| / |HV|; 0 if HV is 0. With random columns it estimates |H - G| / |H|, in the Frobenius norm."""
    exact, approximate = H @ v, G @ v
    return float((exact - approximate).norm() / exact.norm()) if bool(exact.any()) else 0.0


class _Reflected(SymmetricOperator):
    """top I - H, whose largest eigenvalue belongs to the smallest of H."""

    psd = False

    def __init__(self, H: SymmetricOperator, top: float) -> None:
        self.H, self.top = H, top

    @property
    def size(self) -> int:
        return self.H.size

    def times_rows(self, rows: Tensor) -> Tensor:
        return self.top * rows - self.H.times_rows(rows)


def _smallest_eigenvalue(H: SymmetricOperator, top: float, start: Tensor, seed: int) -> float:
    """Find the smallest eigenvalue, to END times the distance to the largest, `top`."""
    (value,), _ = lanczos_eigh(_Reflected(H, top), start, 1, END, seed)
    return top - float(value)


def _figure(name: str, records: list[Record], sure: list[float], away: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(13, 7.6), dpi=120, layout="constrained")
    axes: Any = figure.subplots(2, 3)
    for ax, (kind, values) in zip(axes[0], away.items(), strict=False):
        scatter(ax, sure, values, "distance of CASO and CAFO", f"{kind}, c1 = 10")
    ratio = [r["exact"]["L"] / r["gauss-newton"]["L"] if r["gauss-newton"]["L"] else 1.0 for r in records]
    scatter(axes[0, 2], sure, ratio, "L, exact over Gauss-Newton", "largest eigenvalues")
    scatter(axes[1, 0], sure, [r["maps_apart"] for r in records], "degrees", "CASO, exact and Gauss-Newton")
    scatter(axes[1, 1], sure, [r["difference"] for r in records], "|H - G| / |H|", "what Gauss-Newton misses")
    scatter(axes[1, 2], sure, [-_smallest_share(r) for r in records], "-smallest / largest", "eigenvalues, exact")
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
