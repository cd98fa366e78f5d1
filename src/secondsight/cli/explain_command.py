"""The command `secondsight explain`: a figure for each photograph, and a table of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, photographs_in, require_folder
from secondsight.cli.console import EXPLAIN_COLUMNS, Record
from secondsight.cli.method_options import ALL, asked_method, takes_options_of
from secondsight.cli.photograph_loop import for_each_photograph
from secondsight.cli.progress_bar import ProgressBar
from secondsight.config import CAFO, CASO, Method, Smooth
from secondsight.option_types import number

if TYPE_CHECKING:
    from secondsight.model.classifier import Classifier
    from secondsight.results.explanation import Explanation, MapKind


@takes_options_of(*ALL)
def explain(
    photographs: options.Photographs,
    method: options.MethodName = "caso",
    target: options.Target = None,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="png|html|npz|png,npz",
            help="What is written for each photograph: a figure, a page with a slider over lambda1, or all arrays, for "
            "Explanation.load.",
            show_default="png",
        ),
    ] = None,
    html: options.Html = False,
    no_figure: Annotated[
        bool, typer.Option("--no-figure", help="Write no PNG. Without another format, only the table is printed.")
    ] = False,
    overwrite: options.Overwrite = False,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="entries|groups",
            help="What a shade of the figure stands for: single pixels, or groups (windows) by their norm.",
            show_default="groups, where there are any",
        ),
    ] = None,
    blur: Annotated[
        float,
        typer.Option(
            metavar="PIXELS",
            help="Blur the maps of the figure by a Gaussian of this many pixels, for the eye only; the figure says so.",
        ),
    ] = 0.0,
    max_pixels: options.MaxPixels = None,
    value_range: options.ValueRange = None,
    as_json: options.Json = False,
    **asked: Any,
) -> None:
    """Explain photographs: write a figure for each and print a table.

    Files are called after the photograph and the method, so that a second method writes beside the first.
    """
    photographs = photographs_in(photographs)
    require_folder(out)
    endings = _endings(formats or ("html" if html else "png"), html, no_figure)
    config = asked_method(method, preset, asked)
    if show not in (None, "entries", "groups"):
        raise ss.InputError("--show", "entries or groups", repr(show))
    if show == "groups" and (not isinstance(config, CAFO) or config.groups == "none" or config.times_input):
        raise ss.InputError("--show", f"entries, because {config.name} has no groups here", "groups")
    number(0.0, inclusive=True)("--blur", blur)
    if ".png" not in endings and (show is not None or blur):
        raise ss.InputError("--show and --blur", "left out where no figure is drawn", "given")
    from secondsight.results.storage import save_figure
    from secondsight.viewer.page import Tab, save_page

    batches = _Batches(checked_model(model, target, max_pixels, value_range), photographs, config, target, seed)

    def work(number: int, figure: Path, bar: ProgressBar) -> list[Record]:
        explanation = batches.explanation(number, bar)
        if ".png" in endings:
            save_figure(explanation.figure(cast("MapKind | None", show), blur), figure)
        if ".html" in endings:
            save_page(figure.with_suffix(".html"), [Tab(explanation)], photographs[number].name)
        if ".npz" in endings:
            explanation.save(figure.with_suffix(".npz"))
        return [explanation.summary()]

    suffix = f"-{config.name}"
    for_each_photograph(photographs, out, work, EXPLAIN_COLUMNS, as_json, suffix, endings=endings, overwrite=overwrite)


def _endings(formats: str, html: bool, no_figure: bool) -> list[str]:
    """Read what is to be written, as endings of files."""
    words = [word.strip() for word in formats.split(",")]
    if not words or not set(words) <= {"png", "html", "npz"}:
        raise ss.InputError("--format", "some of png, html and npz, such as png,npz", repr(formats))
    words += ["html"] if html else []
    return [f".{word}" for word in dict.fromkeys(words) if not (no_figure and word == "png")]


class _Batches:
    """The results of photographs, several at a time where that is faster. The others go on if one fails."""

    def __init__(
        self, model: Classifier, photographs: Sequence[Path], method: Method, target: str | None, seed: int
    ) -> None:
        self.model, self.photographs = model, photographs
        self.method, self.target, self.seed = method, target, seed
        # Not at the top of the file, because they need torch.
        from secondsight.call import CHUNK
        from secondsight.fault_tolerance import FaultTolerant

        self.size = CHUNK if isinstance(method, CASO) and not isinstance(method, Smooth) else 1
        self.calls: FaultTolerant[Explanation] = FaultTolerant(self._explain, self.size)
        self.ready: dict[int, Explanation | Exception] = {}

    def explanation(self, number: int, bar: ProgressBar) -> Explanation:
        """Give the result of one photograph, or raise its error. Each result is given once."""
        if number not in self.ready:
            self._open(range(number, min(number + self.size, len(self.photographs))), bar)
        result = self.ready.pop(number)
        if isinstance(result, Exception):
            raise result
        return result

    def _open(self, numbers: Sequence[int], bar: ProgressBar) -> None:
        self.bar, inputs = bar, dict[int, Any]()
        for i in numbers:
            try:
                inputs[i] = self.model.read(self.photographs[i])
            except ss.SecondsightError as error:
                self.ready[i] = error
        self.ready |= dict(zip(inputs, self.calls.explain_each(list(inputs.values())), strict=True))

    def _explain(self, inputs: Sequence[Any]) -> list[Explanation]:
        explain: Any = ss.explain
        found: list[Explanation] = explain(
            self.model, list(inputs), self.method, self.target, seed=self.seed, progress=self.bar.show_products
        )
        return found
