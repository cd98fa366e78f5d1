"""The command `secondsight compare`: for each photograph the maps of several methods side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, photographs_in, require_folder, require_png
from secondsight.cli.console import COMPARE_COLUMNS, Record
from secondsight.cli.method_options import ALL, takes_options_of
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar
from secondsight.config import METHODS
from secondsight.presets import preset as options_of


@takes_options_of(*ALL, but=["times_input"])
def compare(
    photographs: options.Photographs,
    methods: Annotated[
        str,
        typer.Option(
            metavar="all|NAME,NAME",
            help=f"The columns of the figure: {', '.join(METHODS)}, each perhaps with options of its own as in "
            "caso(c1=1); and clipped-gradient, which keeps the gradient's largest pixels, as many as caso keeps.",
        ),
    ] = "all",
    models: Annotated[
        str,
        typer.Option(metavar="NAME,NAME", help="The classifiers, a row of the figure for each."),
    ] = zoo.DEFAULT,
    target: options.Target = None,
    times_input: Annotated[
        bool,
        typer.Option(
            "--times-input",
            help="Also show each map multiplied by the input, in a second row. The paper argues against it (appendix "
            "D): dark pixels cannot show then, whatever they do to the decision.",
        ),
    ] = False,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    out: options.Out = Path("out"),
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Write one contact sheet of all photographs, a row for each, instead of a figure for each.",
        ),
    ] = None,
    html: options.Html = False,
    max_pixels: options.MaxPixels = None,
    value_range: options.ValueRange = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    **asked: Any,
) -> None:
    """Compare methods: for each photograph one figure, a column for each method, and a table of what each cost.

    The cost of a map is in g.e., gradient equivalents: its time over that of one gradient of the loss.
    """
    from secondsight.comparison import MOST_SHEET_ROWS, columns_of, owned, sheet_figure
    from secondsight.results.storage import save_figure

    require_folder(out)
    photographs = photographs_in(photographs)
    wanted = owned(methods, dict(options_of(preset))) | asked
    columns = columns_of(methods, **wanted)
    if html and (sheet is not None or times_input):
        raise ss.InputError("--html", "given without --sheet and --times-input, which only figures have", "with them")
    if sheet is not None:
        require_png("--sheet", sheet)
        if len(photographs) * len(models.split(",")) > MOST_SHEET_ROWS:
            raise ss.InputError("--sheet", f"of at most {MOST_SHEET_ROWS} photographs times networks", len(photographs))
    rows: list[Any] = []
    classifiers = [checked_model(name.strip(), target, max_pixels, value_range) for name in models.split(",")]

    def work(number: int, figure: Path, bar: ProgressBar) -> list[Record]:
        result = ss.compare(
            classifiers,
            photographs[number],
            methods,
            target,
            times_input=times_input,
            seed=seed,
            progress=bar.show_products,
            started=bar.start_method,
            **wanted,
        )
        if sheet is None:
            result.save(figure.with_suffix(".html") if html else figure)
        else:
            rows.extend(result.sheet_rows())
        return result.summaries()

    def finish() -> None:
        if sheet is not None and rows:
            save_figure(sheet_figure(", ".join(model.name for model in classifiers), rows, list(columns)), sheet)

    for_each_photograph(
        photographs,
        out,
        work,
        COMPARE_COLUMNS,
        as_json,
        "-compared",
        sheet,
        finish,
        endings=[".html" if html else ".png"],
        overwrite=overwrite,
    )
