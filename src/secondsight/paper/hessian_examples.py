"""Figure 2 and appendix F.2: CAFO and CASO of the least and the most confident predictions, without sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch

from secondsight.api import explain
from secondsight.config import CASO
from secondsight.model.classifier import Classifier
from secondsight.paper.finding import Finding
from secondsight.paper.hessian_survival import angle
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture
from secondsight.plotting.shades import normalise
from secondsight.results.explanation import SecondOrderExplanation
from secondsight.results.first_order import first_order_map

PAIRS = 3
"""Predictions from each end of the confidence: six rows fit a page."""

Extremes = tuple[list[SecondOrderExplanation], list[SecondOrderExplanation]]
"""The maps of the least and of the most confident predictions."""


def hessian_examples(run: Run) -> Finding:
    """Measure the angle of CASO and CAFO for the least and the most confident predictions, and draw both maps.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    run.model.require_pictures()
    settings, records = run.records("hessian-examples", lambda file: confidence(run.model, file), format=1)
    low, high = extremes(run, run.files, records)
    unsure, sure = (fmean(angle(e.delta, first_order_map(e)) for e in some) for some in (low, high))
    drawn = [*low, *high]
    if run.shown is not None:
        _, theirs = run.records("hessian-examples-shown", lambda file: confidence(run.model, file), run.shown, format=1)
        drawn = [e for some in extremes(run, run.shown, theirs) for e in some]
    return Finding(
        name="hessian-examples",
        where="Figure 2, appendix F.2",
        claim="CASO and CAFO look different where the confidence is low, and alike where it is high.",
        measured=f"{run.model.name}, the {len(low)} least and the {len(high)} most confident of {len(run.files)} "
        f"photographs: on average {unsure:.1f} degrees apart (p up to {max(e.probability for e in low):.2f}) against "
        f"{sure:.1f} degrees (p from {min(e.probability for e in high):.2f}).",
        verdict="holds" if unsure > 2 * sure else "does not hold",
        numbers={"settings": settings, "confidences": records, "shown": [e.summary() for e in [*low, *high]]},
        figures=[maps_figure(run.model.name, [_row(e) for e in drawn], 8.0, PAPER_COLOURS)],
    )


def extremes(run: Run, files: Sequence[Path], records: Sequence[Record]) -> Extremes:
    """Explain the least and the most confident predictions by CASO, up to PAIRS of each.

    Args:
        run: the network and the options.
        files: the photographs.
        records: the confidence of each photograph, in the same order.

    Returns:
        The maps of the least confident and those of the most confident.
    """
    order = sorted(range(len(files)), key=lambda i: records[i]["probability"])
    pairs = min(PAIRS, len(files) // 2) or 1
    method = CASO(**{"lambda1": 0.0} | {name: value for name, value in run.options.items() if name in CASO.options()})

    def explained(some: Sequence[int]) -> list[SecondOrderExplanation]:
        return [explain(run.model, files[i], method, seed=run.seed) for i in some]

    return explained(order[:pairs]), explained(order[-pairs:])


def confidence(model: Classifier, file: Path) -> Record:
    """Return the predicted class of a photograph and its probability."""
    with torch.no_grad():
        p = model(model.tensor(file)[None])[0].double().softmax(0)
    return {"probability": float(p.max()), "target": int(p.argmax())}


def _row(e: SecondOrderExplanation) -> Row:
    panels = [
        Panel(picture(e.input.numpy()), f"{e.label}, p = {e.probability:.2f}"),
        Panel(normalise(first_order_map(e).numpy()), "CAFO"),
        Panel(normalise(e.delta.numpy()), f"CASO, {angle(e.delta, first_order_map(e)):.1f} degrees away"),
    ]
    return Row(panels, len(panels), fontsize=9)
