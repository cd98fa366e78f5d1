"""Appendix D: maps with and without multiplication by the input: artefacts, lost invariance, and completeness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from secondsight.api import explain
from secondsight.config import PAPER_C1, class_of, method_of
from secondsight.model.classifier import Classifier
from secondsight.paper.finding import Finding
from secondsight.paper.hessian_impact import rank_correlation
from secondsight.paper.photographs import Record
from secondsight.paper.run import Run
from secondsight.plotting.figures import PAPER_COLOURS, Panel, Row, maps_figure, picture
from secondsight.plotting.shades import normalise

METHODS = ("gradient", "integrated-gradients", "cafo", "caso")
"""The methods that use no noisy copies."""

SHIFT = 0.25
"""Added to pixels in [0, 1]: a quarter of their range, so that maps times the input change visibly."""

SHOWN = 3
"""Photographs in the figure, each in a row of nine panels."""

PIXELS = 2000
"""Pixels whose ranks are compared: a sample of 2000 gives a correlation to about 1/sqrt(2000) = 0.02."""


def input_multiplication(run: Run) -> Finding:
    """Compare maps with and without multiplication by the input: brightness, invariance under a shift, completeness.

    Args:
        run: the network, the photographs and where the records are kept.
    """
    run.model.require_pictures()
    settings, records = run.records(
        "input-multiplication",
        lambda file: measure(run.model, file, run.seed),
        methods=list(METHODS),
        shift=SHIFT,
        format=1,
    )
    plain, times = (fmean(r[key][m] for r in records for m in METHODS) for key in ("brightness", "brightness_times"))
    lost = fmean(r["shift_times"][m] for r in records for m in METHODS)
    kept = max(r["shift"][m] for r in records for m in METHODS)
    with_factor, without = (fmean(r[key] for r in records) for key in ("incomplete_times", "incomplete"))
    return Finding(
        name="input-multiplication",
        where="Appendix D",
        claim="Multiplying by the input brings artefacts that the importance values do not have, and takes away the "
        "invariances of the network; it helps only where completeness is asked for.",
        measured=f"{run.model.name}, {len(records)} photographs, {', '.join(METHODS)}. Rank correlation of a map with "
        f"the brightness of the picture: {plain:.2f} without, {times:.2f} with. For a network that takes the picture "
        f"plus {SHIFT} and subtracts it again, maps change by at most {kept:.0e} without and by {lost:.0%} with. "
        f"Integrated Gradients needs it: it misses f(x) - f(0) by {without:.0%} without and by {with_factor:.0%} with.",
        verdict="holds" if times > plain + 0.05 and lost > 0.05 and kept < 1e-2 else "holds in part",
        numbers={"settings": settings, "photographs": records},
        figures=[_figure(run.model, run.pictures[:SHOWN], run.seed)],
    )


def measure(model: Classifier, file: Path, seed: int) -> Record:
    """Measure each method on one photograph, with and without multiplication by the input.

    Returns:
        For each method the rank correlation of the map with the picture's brightness, and how much the map changes when
        the input is shifted and the network takes the shift back. For Integrated Gradients also by which share the sum
        of the map misses f(x) - f(0). Names that end in `_times` stand for the map times the input.
    """
    x = model.tensor(file)
    brightness = _some(x.sum(0), seed)
    record: Record = {key: {} for key in ("brightness", "brightness_times", "shift", "shift_times")}
    shifted = _shifted(model)
    for method in METHODS:
        # Integrated Gradients would start from black plus the shift and give an equal map, so it is not run again.
        delta = _map(model, x, method, seed)
        other = _map(shifted, x + SHIFT, method, seed) if method != "integrated-gradients" else delta
        record["brightness"][method] = rank_correlation(_some(delta.abs().sum(0), seed), brightness)
        record["brightness_times"][method] = rank_correlation(_some((delta * x).abs().sum(0), seed), brightness)
        record["shift"][method] = _change(delta, other)
        record["shift_times"][method] = _change(delta * x, other * (x + SHIFT))
        if method == "integrated-gradients":
            with torch.no_grad():
                ends = model(torch.stack([x, torch.zeros_like(x)]))
            target = int(ends[0].argmax())
            rise = float(ends[0, target] - ends[1, target])
            record["incomplete_times"] = abs(float((delta * x).sum()) - rise) / abs(rise)
            record["incomplete"] = abs(float(delta.sum()) - rise) / abs(rise)
    return record


def _map(model: Classifier, x: Tensor, method: str, seed: int) -> Tensor:
    options = {"times_input": False, "lambda1": 0.0, "c1": PAPER_C1}
    config = method_of(method)
    config = config.with_options(**{name: value for name, value in options.items() if config.has(name)})
    return explain(model, x, config, seed=seed).delta.to(x)


def _shifted(model: Classifier) -> Classifier:
    """Make a network that decides for pictures brighter by SHIFT as the given one does for the pictures themselves."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model.net

        def forward(self, x: Tensor) -> Tensor:
            return model.logits(x - SHIFT)

    shape = [n or 1 for n in model.input_shape]
    return Classifier(Shifted(), input_shape=shape, piecewise_linear=model.facts.piecewise_linear)


def _some(values: Tensor, seed: int) -> list[float]:
    """Return the values of PIXELS random pixels, the same in every call with the same seed."""
    chosen = torch.randperm(values.numel(), generator=torch.Generator().manual_seed(seed))[:PIXELS]
    some: list[float] = values.flatten()[chosen].tolist()
    return some


def _change(before: Tensor, after: Tensor) -> float:
    before, after = before / before.norm(), after / after.norm()
    return float((after - before).norm())


def _figure(model: Classifier, files: Sequence[Path], seed: int) -> Figure:
    rows = []
    for file in files:
        x = model.tensor(file)
        panels = [Panel(picture(x.cpu().numpy()), file.name)]
        for method in METHODS:
            delta = _map(model, x, method, seed)
            panels.append(Panel(normalise(delta.cpu().numpy()), class_of(method).title))
            panels.append(Panel(normalise((delta * x).cpu().numpy()), "times input"))
        rows.append(Row(panels, len(panels), fontsize=8))
    return maps_figure(model.name, rows, 16.0, PAPER_COLOURS)
