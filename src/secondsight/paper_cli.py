"""The commands `secondsight paper NAME`: one for each result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import secondsight as ss
from secondsight import options, zoo
from secondsight.console import Watch, complain, output, require_folder, warnings_caught
from secondsight.paper import ON_PHOTOGRAPHS, SIMULATED
from secondsight.paper.finding import Finding
from secondsight.paper.photographs import photographs
from secondsight.paper.report import write_report

paper_app = typer.Typer(
    help="Results of the paper, measured anew: each command writes a figure and the numbers behind it, and says "
    "whether the paper's claim holds.",
    no_args_is_help=True,
)
PaperOut = Annotated[Path, typer.Option(metavar="DIR", help="Where NAME.png and NAME.json go.")]
QUICK_PHOTOGRAPHS = 12


def _simulated(name: str, reproduce: Callable[..., Finding]) -> None:
    def command(
        out: PaperOut = Path("out/paper"),
        quick: Annotated[bool, typer.Option("--quick", help="A few points instead of all.")] = False,
        seed: options.Seed = 0,
    ) -> None:
        require_folder(out)
        with Watch(1) as watch:
            watch.photograph(0, name)
            finding = reproduce(quick=quick, seed=seed)
        _show(finding, out)

    _add_paper_command(name, reproduce, command, f"secondsight paper {name} --quick")


Images = Annotated[Path, typer.Option(metavar="DIR", help="The folder with the photographs.")]
Count = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="So many of them, evenly spaced by name; by default all.")
]


def _on_photographs(name: str, reproduce: Callable[..., Finding]) -> None:
    def command(
        images: Images,
        model: options.Model = zoo.DEFAULT,
        count: Count = None,
        out: PaperOut = Path("out/paper"),
        quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_PHOTOGRAPHS} photographs.")] = False,
        seed: options.Seed = 0,
    ) -> None:
        require_folder(out)
        files = _photographs(images, count, quick)
        _show(_measured(name, reproduce, ss.load_model(model), files, out, seed), out)

    _add_paper_command(name, reproduce, command, f"secondsight paper {name} --images DIR --quick")


@paper_app.command("all", epilog="Example: secondsight paper all --images DIR --count 300 --out report")
def _everything(
    images: Images,
    model: options.Model = zoo.DEFAULT,
    count: Count = None,
    out: PaperOut = Path("out/paper"),
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_PHOTOGRAPHS} photographs, few points.")] = False,
    seed: options.Seed = 0,
) -> None:
    """Every result that has a command here, and a report of them: report.md and report.html."""
    require_folder(out)
    files = _photographs(images, count, quick)
    classifier = ss.load_model(model)
    findings = []
    for name, reproduce in SIMULATED.items():
        with Watch(1) as watch:
            watch.photograph(0, name)
            findings.append(reproduce(quick=quick, seed=seed))
        _show(findings[-1], out)
    for name, reproduce in ON_PHOTOGRAPHS.items():
        findings.append(_measured(name, reproduce, classifier, files, out, seed))
        _show(findings[-1], out)
    output().print(f"report: {', '.join(map(str, write_report(findings, out)))}", soft_wrap=True)


def _photographs(images: Path, count: int | None, quick: bool) -> list[Path]:
    files = photographs(images, QUICK_PHOTOGRAPHS if quick and count is None else count)
    if count is not None and len(files) < count:
        complain(
            f"--images {images} has {len(files)} images, fewer than the {count} asked for: they are all used", "note"
        )
    return files


def _measured(
    name: str, reproduce: Callable[..., Finding], model: ss.Classifier, files: list[Path], out: Path, seed: int
) -> Finding:
    with Watch(len(files)) as watch, warnings_caught():
        watch.photograph(0, name)
        return reproduce(model, files, out, seed, lambda number: watch.photograph(number, name))


def _add_paper_command(
    name: str, reproduce: Callable[..., Finding], command: Callable[..., None], example: str
) -> None:
    first, _, _ = (sys.modules[reproduce.__module__].__doc__ or "").partition("\n")
    paper_app.command(name, help=first, epilog=f"Example: {example}")(command)


def _show(finding: Finding, out: Path) -> None:
    files = finding.write(out)
    for what in ("where", "claim", "measured", "verdict"):
        output().print(f"{what}: {getattr(finding, what)}", soft_wrap=True)
    output().print(f"written: {', '.join(map(str, files))}", soft_wrap=True)


for _name, _reproduce in SIMULATED.items():
    _simulated(_name, _reproduce)
for _name, _reproduce in ON_PHOTOGRAPHS.items():
    _on_photographs(_name, _reproduce)
