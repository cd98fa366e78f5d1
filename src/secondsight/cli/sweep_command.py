"""The command `secondsight sweep`: for each photograph a figure of the maps along lambda1."""

from __future__ import annotations

from pathlib import Path

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, groups_of, require_folder
from secondsight.cli.console import SWEEP_COLUMNS, Record
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar


def sweep(
    photographs: options.Photographs,
    target: options.Target = None,
    c1: options.C1 = 10.0,
    curvature: options.Curvature = "auto",
    groups: options.Groups = "none",
    seed: options.Seed = 0,
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    as_json: options.Json = False,
) -> None:
    """Show what lambda1 does: CAFO, CASO and the clipped gradient at the paper's eight values and along the automatic
    path, the share of zeros (eta) below each map, the chosen ones framed.
    """
    require_folder(out)
    asked: Record = {"target": target, "c1": c1, "curvature": curvature, "groups": groups_of(groups), "seed": seed}
    classifier = checked_model(model, asked)

    def work(photograph: Path, figure: Path, bar: ProgressBar) -> list[Record]:
        result = ss.sweep(classifier, photograph, **asked, progress=bar.show_products)
        result.save(figure)
        return result.summaries()

    for_each_photograph(photographs, out, work, SWEEP_COLUMNS, as_json, "-sweep")
