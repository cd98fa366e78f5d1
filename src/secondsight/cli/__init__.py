"""The command `secondsight`: a thin layer over `secondsight.explain`, with one file for each command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import secondsight as ss
from secondsight.cli.batch_command import batch
from secondsight.cli.compare_command import compare
from secondsight.cli.console import complain
from secondsight.cli.demo_command import demo
from secondsight.cli.exit_codes import USAGE_ERROR
from secondsight.cli.explain_command import explain
from secondsight.cli.export_command import export
from secondsight.cli.help_page import SETTINGS, Command, Group
from secondsight.cli.models_command import models
from secondsight.cli.report_command import report
from secondsight.cli.sweep_command import sweep
from secondsight.interrupts import INTERRUPTED, MESSAGE

__all__ = ["app", "main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        args: the words after `secondsight`; None takes them from the command line.

    Returns:
        The exit code: 0 for success; 1 for a run with items that failed; 2 where something that was asked cannot be
        done; 130 for Ctrl-C.
    """
    words = sys.argv[1:] if args is None else list(args)
    try:
        code = command_for(words).main(
            words if words != ["paper"] else [*words, "--help"], prog_name="secondsight", standalone_mode=False
        )
    except typer.TyperException as error:
        complain(error.format_message())
        return USAGE_ERROR
    except ss.SecondsightError as error:
        complain(error)
        return USAGE_ERROR
    if code == INTERRUPTED:
        sys.stderr.write(MESSAGE)
    return int(code or 0)


def command_for(words: Sequence[str]) -> typer.core.TyperGroup:
    """Make the command for these words.

    The commands below `paper` import torch, which takes seconds. They are added only if the first word is `paper`.
    """
    command = typer.main.get_group(app)
    if list(words[:1]) == ["paper"]:
        from secondsight.cli.paper_command import paper_app

        command.commands["paper"] = typer.main.get_group(paper_app)
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"secondsight {ss.__version__}")
        raise typer.Exit


def _secondsight(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which pixels an image classifier's decision hangs on: sparse maps, of first order (CAFO) or second order (CASO),
    each with a proof of how near it is to the best one.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
    epilog="Example: secondsight explain cat.jpg dog.jpg --out maps",
)
"""All commands, in the order in which `secondsight --help` lists them."""

app.callback(invoke_without_command=True)(_secondsight)

for _command, _example in (
    (explain, "explain cat.jpg --target 'tiger cat' --lambda1 0.05 --out maps"),
    (compare, "compare cat.jpg dog.jpg --methods caso,smooth-caso,smoothgrad --out maps"),
    (batch, "batch photos --method caso --out run"),
    (report, "report run"),
    (export, "export run --to fiftyone --out dataset"),
    (sweep, "sweep cat.jpg --out maps"),
    (demo, "demo --out cat.png"),
    (models, "explain cat.jpg --model resnet50-v1@weights.safetensors"),
):
    app.command(cls=Command, epilog=f"Example: secondsight {_example}")(_command)


@app.command(cls=Command)
def paper() -> None:
    """Results of the paper, measured anew: each command writes figures and the numbers behind them, and says whether
    the paper's claim holds.
    """
