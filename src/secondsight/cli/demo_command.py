"""The command `secondsight demo`: one figure of the photograph that comes with secondsight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import secondsight as ss
from secondsight.cli.arguments import require_png
from secondsight.cli.console import EXPLAIN_COLUMNS, report, warnings_caught
from secondsight.cli.progress_bar import ProgressBar
from secondsight.config import CASO, Picture

if TYPE_CHECKING:
    from secondsight.results.explanation import Explanation

SHOWN = (Picture(), CASO())
"""A picture to look at, and the paper's own objective with its proof."""


def demo(
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="Where the figure goes.")] = Path("out/demo.png"),
) -> None:
    """Explain the photograph that comes with secondsight: a picture to look at, and the paper's map with its proof."""
    require_png("--out", out)
    from secondsight.results.explanation_figure import demo_figure
    from secondsight.results.storage import save_figure

    photograph = ss.example_photograph()
    with ProgressBar(len(SHOWN)) as bar, warnings_caught():
        classifier = ss.load_model()
        explanations: dict[str, Explanation] = {}
        for number, method in enumerate(SHOWN):
            bar.start_photograph(number, method.name)
            explanations[method.name] = ss.explain(classifier, photograph, method, progress=bar.show_products)
        save_figure(demo_figure(explanations["picture"], explanations["caso"]), out)
    names = {"photograph": photograph.name, "figure": str(out)}
    report([e.summary() | names for e in explanations.values()], EXPLAIN_COLUMNS)
