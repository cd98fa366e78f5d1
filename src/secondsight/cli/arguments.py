"""From the words of the command line to arguments of `explain`, checked before any work begins."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

import secondsight as ss
from secondsight.cli.console import Record
from secondsight.presets import preset as options_of


def checked_model(name: str, asked: Record) -> ss.Classifier:
    """Load a model and check the options that do not depend on a photograph.

    Args:
        name: of the model, as `--model` takes it.
        asked: options of `explain`.

    Raises:
        SecondsightError: once, instead of once for each photograph.
    """
    model = ss.load_model(name)
    ss.explain(model, [], **asked)
    if asked["target"] is not None and model.labels is not None:
        model.target_index(asked["target"], len(model.labels))
    return model


def preset_options(context: typer.Context, preset: str) -> Record:
    """Return the preset's values of the options that are not on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    return {name: value for name, value in options_of(preset).items() if name not in given}


def number_or_word(text: str) -> float | str:
    """Read `--lambda1`: a number, or else a word that `explain` checks."""
    try:
        return float(text)
    except ValueError:
        return text


def groups_of(text: str) -> str | NDArray[np.integer]:
    """Read `--groups`: the array of a .npy file, or else a word that `explain` checks."""
    if not text.endswith(".npy"):
        return text
    try:
        labels: NDArray[np.integer] = np.load(text, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ss.SecondsightError(f"--groups {text} cannot be read as an array: {error}") from None
    return labels


def require_folder(folder: Path) -> None:
    """Refuse a folder for `--out` that cannot be made or written to. Nothing is created yet."""
    try:
        nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    except OSError as error:
        raise ss.SecondsightError(f"--out {folder} cannot be used: {error.strerror}") from None
    if not nearest.is_dir():
        raise ss.InputError("--out", "a folder" if nearest == folder else "inside a folder", f"the file {nearest}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ss.SecondsightError(f"--out {folder} cannot be used: {nearest} cannot be written to")
