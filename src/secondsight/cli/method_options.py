"""The options of methods on the command line. Names, defaults and help come from the configs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container
from pathlib import Path
from typing import Annotated, Any

import typer

from secondsight.config import METHODS, Method, described, method_of
from secondsight.errors import SecondsightError
from secondsight.option_types import flag, literal
from secondsight.presets import preset as options_of

Command = Callable[..., None]


def takes_options_of(*methods: type[Method], but: Container[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each option of these methods.

    Args:
        methods: the configs.
        but: names that the command itself uses for something else. They are left out.

    Returns:
        A decorator. The command receives the options that were given as keyword arguments, beside its own.
    """

    def decorate(command: Command) -> Command:
        own = [one for one in _evaluated(command) if one.kind is not inspect.Parameter.VAR_KEYWORD]
        names = dict.fromkeys(name for method in methods for name in method.options() if name not in but)
        derived = [_parameter(name, methods) for name in names]

        def run(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in names}
            words = {name: value for name, value in given.items() if value is not None}
            command(**arguments, **{name: _value(name, word) for name, word in words.items()})

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in [*own, *derived]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def asked_method(text: str, preset: str, options: dict[str, Any]) -> Method:
    """Make the config that the command line asks for.

    An option that was given wins over the same option in `text`. The preset fills in options that neither has. An
    option that `text` sets to its default counts as not set.

    Args:
        text: as `--method` takes it, such as "caso" or "caso(c1=1)".
        preset: the name of a preset.
        options: the options that were given, by name.

    Returns:
        The config.

    Raises:
        InputError: if there is no such method, preset, option or value.
    """
    method = method_of(text)
    taken = {*method.changed(), *options}
    filled = {name: value for name, value in options_of(preset).items() if method.has(name) and name not in taken}
    return method.with_options(**filled, **options)


def _evaluated(command: Command) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


def _parameter(name: str, methods: tuple[type[Method], ...]) -> inspect.Parameter:
    owners = [method for method in methods if name in method.options()]
    one, default = described(name, owners)
    whose = "" if len(owners) == len(methods) else f"({', '.join(owner.name for owner in owners)}) "
    hyphened = name.replace("_", "-")
    if one.check is flag:
        names, metavar = f"--{hyphened}/--no-{hyphened}", None
    else:
        names, metavar = f"--{hyphened}", one.metavar
    words = typer.Option(
        names, metavar=metavar, help=whose + one.help, show_default=default, rich_help_panel="Options of methods"
    )
    annotation: Any = Annotated[bool | None, words] if one.check is flag else Annotated[str | None, words]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(name: str, word: str | bool) -> Any:
    if isinstance(word, bool):
        return word
    if name == "groups" and word.endswith(".npy"):
        return _labels(Path(word))
    return literal(word)


def _labels(file: Path) -> Any:
    import numpy as np

    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise SecondsightError(f"--groups {file} cannot be read as an array: {error}") from None


ALL = tuple(METHODS.values())
"""All methods, for commands that take any."""
