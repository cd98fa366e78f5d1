"""Figure 2 and appendix F.2: CAFO and CASO of the least and the most confident predictions, without sparsity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import torch

from secondsight.explain import explain
from secondsight.explanation import Explanation
from secondsight.model import Classifier
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import Ledger, Record
from secondsight.render.figure import PAPER_COLOURS, Panel, Row, maps_figure, picture
from secondsight.render.normalise import normalise

PAIRS = 3


def hessian_examples(
    model: Classifier, files: list[Path], out: Path, seed: int, progress: Callable[[int], None]
) -> Finding:
    model.require_pictures()
    settings = {"model": model.name, "format": 1}
    records = Ledger(out / "hessian-examples.jsonl", settings).fill(
        files, lambda file: confidence(model, file), progress
    )
    order = sorted(range(len(files)), key=lambda i: records[i]["probability"])
    pairs = min(PAIRS, len(files) // 2) or 1
    low, high = (
        [explain(model, files[i], lambda1=0.0, seed=seed) for i in some] for some in (order[:pairs], order[-pairs:])
    )
    unsure, sure = (fmean(e.second_order.angle for e in some) for some in (low, high))
    return Finding(
        name="hessian-examples",
        where="Figure 2, appendix F.2",
        claim="CASO and CAFO look different where the confidence is low, and alike where it is high.",
        measured=f"{model.name}, the {pairs} least and the {pairs} most confident of {len(files)} photographs: on "
        f"average {unsure:.1f} degrees apart (p up to {max(e.probability for e in low):.2f}) against {sure:.1f} "
        f"degrees (p from {min(e.probability for e in high):.2f}).",
        verdict="holds" if unsure > 2 * sure else "does not hold",
        numbers={"settings": settings, "confidences": records, "shown": [e.summary() for e in [*low, *high]]},
        figure=maps_figure(model.name, [_row(e) for e in [*low, *high]], 8.0, PAPER_COLOURS),
    )


def confidence(model: Classifier, file: Path) -> Record:
    with torch.no_grad():
        p = model(model.tensor(file)[None])[0].double().softmax(0)
    return {"probability": float(p.max()), "target": int(p.argmax())}


def _row(e: Explanation) -> Row:
    assert e.second_order is not None
    panels = [
        Panel(picture(e.input.numpy()), f"{e.label}, p = {e.probability:.2f}"),
        Panel(normalise(e.cafo().numpy()), "CAFO"),
        Panel(normalise(e.delta.numpy()), f"CASO, {e.second_order.angle:.1f} degrees away"),
    ]
    return Row(panels, len(panels), fontsize=9)
