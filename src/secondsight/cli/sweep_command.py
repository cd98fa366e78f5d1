"""The command `secondsight sweep`: for each photograph a figure of the maps along lambda1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, photographs_in, require_folder
from secondsight.cli.console import SWEEP_COLUMNS, Record
from secondsight.cli.method_options import takes_options_of
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar
from secondsight.config import CASO


@takes_options_of(CASO, but=["lambda1"])
def sweep(
    photographs: options.Photographs,
    target: options.Target = None,
    seed: options.Seed = 0,
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    max_pixels: options.MaxPixels = None,
    value_range: options.ValueRange = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    **asked: Any,
) -> None:
    """Show what lambda1 does: maps of CAFO, CASO and the clipped gradient, at the paper's eight values and along the
    automatic path.

    The share of zeros (eta) stands below each map, and the chosen maps are framed.
    """
    photographs = photographs_in(photographs)
    require_folder(out)
    method = CASO(**asked)
    classifier = checked_model(model, target, max_pixels, value_range)

    def work(number: int, figure: Path, bar: ProgressBar) -> list[Record]:
        result = ss.sweep(classifier, photographs[number], method, target, seed=seed, progress=bar.show_products)
        result.save(figure)
        return result.summaries()

    for_each_photograph(photographs, out, work, SWEEP_COLUMNS, as_json, "-sweep", overwrite=overwrite)
