"""The commands `secondsight paper NAME`: one for each result of the paper."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import secondsight as ss
from secondsight import zoo
from secondsight.cli import options
from secondsight.cli.arguments import require_folder
from secondsight.cli.console import complain, output, warnings_caught
from secondsight.cli.help_page import SETTINGS, Command, Group
from secondsight.cli.progress_bar import ProgressBar
from secondsight.paper import ON_PHOTOGRAPHS, SIMULATED, Measurement
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import photographs, readable
from secondsight.paper.report import write_report
from secondsight.paper.run import Run, evenly
from secondsight.presets import NO_PRESET, PRESETS
from secondsight.presets import preset as options_of

paper_app = typer.Typer(
    name="paper",
    cls=Group,
    help="Results of the paper, measured anew: each command writes figures and the numbers behind them, and says "
    "whether the paper's claim holds.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)
"""The commands below `secondsight paper`."""

QUICK_PHOTOGRAPHS = 12
"""Photographs of --quick: enough for a first look at each result."""

Out = Annotated[Path, typer.Option(metavar="DIR", help="Where NAME.png and NAME.json go.")]
OutByModel = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Figures and numbers go to DIR/MODEL. Measurements that are there already, with the same settings, are "
        "used again.",
    ),
]
Images = Annotated[Path, typer.Option(metavar="DIR", help="The folder with the photographs.")]
Count = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="How many photographs are measured, evenly spaced by name; by default all."),
]
Show = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Draw maps of the pictures in this folder, and measure on those of --images."),
]
Models = Annotated[str, typer.Option(metavar="NAME,NAME", help="The classifiers; `secondsight models` lists them.")]
Preset = Annotated[
    str,
    typer.Option(
        metavar="|".join([NO_PRESET, *PRESETS]),
        help="Hyper-parameters of the paper's tables, as far as the methods have them; `secondsight paper tables` "
        "shows them. Results with values of their own take only none.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help=f"A first look: {QUICK_PHOTOGRAPHS} photographs, unless --count is given.")
]
Pages = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Pages of a figure with many photographs, if the result has such a figure."),
]
FewProblems = Annotated[bool, typer.Option("--quick", help="A first look: fewer random problems and points.")]
RandomSeed = Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the random problems.")]


def _simulated(name: str, reproduce: Callable[..., Finding]) -> None:
    """Add the command of a result that needs no photographs."""

    def command(out: Out = Path("out/paper"), quick: FewProblems = False, seed: RandomSeed = 0) -> None:
        require_folder(out)
        _show(_simulate(name, reproduce, quick, seed), out)

    _add(name, reproduce, command, f"secondsight paper {name} --quick")


def _on_photographs(name: str, measurement: Measurement) -> None:
    """Add the command of a result that is measured on photographs."""

    def command(
        images: Images,
        model: Models = zoo.DEFAULT,
        count: Count = None,
        show: Show = None,
        preset: Preset = measurement.preset or NO_PRESET,
        pages: Pages = 1,
        out: OutByModel = Path("out/paper"),
        quick: Quick = False,
        seed: options.Seed = 0,
    ) -> None:
        require_folder(out)
        files, shown = _photographs(images, count, quick), _shown(show)
        if measurement.preset is None and preset != NO_PRESET:
            raise ss.InputError("--preset", f"{NO_PRESET} for {name}, which has values of its own", repr(preset))
        if not measurement.paged and pages > 1:
            raise ss.InputError("--pages", f"1 for {name}", pages)
        asked = options_of(preset)
        for classifier in _models(model):
            run = Run(classifier, files, out, seed, shown, asked, pages)
            _show(_measured(name, measurement, run), run.folder)

    _add(name, measurement.reproduce, command, f"secondsight paper {name} --images DIR --quick")


@paper_app.command(
    "all", cls=Command, epilog="Example: secondsight paper all --images DIR --model efficientnet-lite0 --out report"
)
def _everything(
    images: Images,
    model: Models = zoo.DEFAULT,
    count: Count = None,
    show: Show = None,
    pages: Pages = 1,
    out: OutByModel = Path("out/paper"),
    quick: Quick = False,
    seed: options.Seed = 0,
) -> None:
    """Every result, for one network or several, and a report of them: report.md and report.html.

    Slow results are measured on some of the photographs only, and the report says on how many. The report and the
    results that need no photographs go to DIR itself.
    """
    require_folder(out)
    files, shown = _photographs(images, count, quick), _shown(show)
    classifiers = _models(model)
    found: list[tuple[Path, Finding]] = []
    for name, reproduce in SIMULATED.items():
        found.append((out, _simulate(name, reproduce, quick, seed)))
        _show(found[-1][1], out)
    for name, measurement in ON_PHOTOGRAPHS.items():
        for classifier in classifiers:
            some = evenly(files, measurement.most)
            asked = options_of(measurement.preset or NO_PRESET)
            run = Run(classifier, some, out, seed, shown, asked, pages)
            try:
                found.append((run.folder, _measured(name, measurement, run)))
            except ss.SecondsightError as error:
                # These photographs may not allow one result, such as one that needs labels. The others go on.
                complain(f"{name} is left out: {error}", "note")
                continue
            _show(found[-1][1], run.folder)
            # After each result, because an hour may pass before the next.
            write_report(found, out)
    output().print(f"report: {', '.join(map(str, write_report(found, out)))}", soft_wrap=True)


def _models(names: str) -> list[ss.Classifier]:
    return [ss.load_model(name.strip()) for name in names.split(",")]


def _photographs(images: Path, count: int | None, quick: bool) -> list[Path]:
    files = photographs(images)
    if count is not None and len(files) < count:
        _note(f"--images {images} has {len(files)} images, fewer than the {count} asked for: they are all used")
    return readable(evenly(files, QUICK_PHOTOGRAPHS if quick and count is None else count), _note)


def _shown(folder: Path | None) -> list[Path] | None:
    return None if folder is None else readable(photographs(folder, "--show"), _note, "--show")


def _note(words: str) -> None:
    complain(words, "note")


def _simulate(name: str, reproduce: Callable[..., Finding], quick: bool, seed: int) -> Finding:
    with ProgressBar(1) as bar:
        bar.start_photograph(0, name)
        return reproduce(quick=quick, seed=seed)


def _measured(name: str, measurement: Measurement, run: Run) -> Finding:
    with ProgressBar(len(run.files)) as bar, warnings_caught():
        bar.start_photograph(0, name)
        return measurement.reproduce(replace(run, progress=lambda number: bar.start_photograph(number, name)))


def _add(name: str, reproduce: Callable[..., Finding], command: Callable[..., None], example: str) -> None:
    """Add a command; its help is the first line of the module that reproduces the result."""
    first, _, _ = (sys.modules[reproduce.__module__].__doc__ or "").partition("\n")
    paper_app.command(name, cls=Command, help=first, epilog=f"Example: {example}")(command)


def _show(finding: Finding, folder: Path) -> None:
    files = finding.write(folder)
    for what in ("where", "claim", "measured", "verdict"):
        output().print(f"{what}: {getattr(finding, what)}", soft_wrap=True)
    output().print(f"written: {', '.join(map(str, files))}", soft_wrap=True)


for _name, _reproduce in SIMULATED.items():
    _simulated(_name, _reproduce)
for _name, _measurement in ON_PHOTOGRAPHS.items():
    _on_photographs(_name, _measurement)
