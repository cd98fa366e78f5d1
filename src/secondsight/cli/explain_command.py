"""The command `secondsight explain`: a figure for each photograph, and a table of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import checked_model, require_folder
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
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|NAME(OPTION=VALUE,...)",
            help="picture is a map to look at; caso proves the paper's objective, with the curvature of the loss; cafo "
            "leaves the curvature out, and is faster; smooth-caso and smooth-cafo average over noisy copies. For "
            "comparison: gradient, smoothgrad, integrated-gradients.",
        ),
    ] = "caso",
    target: options.Target = None,
    seed: options.Seed = 0,
    preset: options.Preset = "none",
    model: options.Model = zoo.DEFAULT,
    out: options.Out = Path("out"),
    save_npz: Annotated[
        bool, typer.Option("--save-npz", help="Also write the arrays beside each figure, for Explanation.load.")
    ] = False,
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
        typer.Option(metavar="PIXELS", help="Blur the maps of the figure, for the eye only; the figure says so."),
    ] = 0.0,
    html: options.Html = False,
    max_pixels: options.MaxPixels = None,
    value_range: options.ValueRange = None,
    as_json: options.Json = False,
    **asked: Any,
) -> None:
    """Explain photographs: write a figure for each and print a table."""
    require_folder(out)
    config = asked_method(method, preset, asked)
    if show not in (None, "entries", "groups"):
        raise ss.InputError("--show", "entries or groups", repr(show))
    if show == "groups" and (not isinstance(config, CAFO) or config.groups == "none" or config.times_input):
        raise ss.InputError("--show", f"entries, because {config.name} has no groups here", "groups")
    number(0.0, inclusive=True)("--blur", blur)
    if html and (show is not None or blur):
        raise ss.InputError("--html", "without --show and --blur, because a page shows maps in each way", "with them")
    from secondsight.results.storage import save_figure
    from secondsight.viewer.page import Tab, save_page

    batches = _Batches(checked_model(model, target, max_pixels, value_range), photographs, config, target, seed)

    def work(number: int, figure: Path, bar: ProgressBar) -> list[Record]:
        explanation = batches.explanation(number, bar)
        if html:
            save_page(figure, [Tab(explanation)], photographs[number].name)
        else:
            save_figure(explanation.figure(cast("MapKind | None", show), blur), figure)
        if save_npz:
            explanation.save(figure.with_suffix(".npz"))
        return [explanation.summary()]

    for_each_photograph(photographs, out, work, EXPLAIN_COLUMNS, as_json, ".html" if html else ".png")


class _Batches:
    """The results of photographs, several at a time where that is faster. One that fails costs no other."""

    def __init__(
        self, model: Classifier, photographs: Sequence[Path], method: Method, target: str | None, seed: int
    ) -> None:
        self.model, self.photographs = model, photographs
        self.method, self.target, self.seed = method, target, seed
        # Not at the top of the file, because it needs torch.
        from secondsight.call import CHUNK

        self.size = CHUNK if isinstance(method, CASO) and not isinstance(method, Smooth) else 1
        self.ready: dict[int, Explanation | ss.SecondsightError] = {}

    def explanation(self, number: int, bar: ProgressBar) -> Explanation:
        """Give the result of one photograph, or raise its error."""
        if number not in self.ready:
            self._explain(range(number, min(number + self.size, len(self.photographs))), bar)
        result = self.ready.pop(number)
        if isinstance(result, ss.SecondsightError):
            raise result
        return result

    def _explain(self, numbers: Sequence[int], bar: ProgressBar) -> None:
        inputs: dict[int, Any] = {}
        for i in numbers:
            try:
                inputs[i] = self.model.read(self.photographs[i])
            except ss.SecondsightError as error:
                self.ready[i] = error
        try:
            self._take(inputs, bar)
        except ss.SecondsightError as error:
            if len(inputs) == 1:
                self.ready[next(iter(inputs))] = error
                return
            # One of them failed: find out which, and keep the others.
            for i in numbers:
                if i in inputs:
                    self._explain([i], bar)

    def _take(self, inputs: dict[int, Any], bar: ProgressBar) -> None:
        explain: Any = ss.explain
        found = explain(
            self.model, list(inputs.values()), self.method, self.target, seed=self.seed, progress=bar.show_products
        )
        self.ready |= dict(zip(inputs, found, strict=True))
