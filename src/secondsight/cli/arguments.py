"""Arguments of the command line, checked before any work begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import secondsight as ss

if TYPE_CHECKING:
    from secondsight.model.classifier import Classifier


def checked_model(name: str, target: str | None) -> Classifier:
    """Load a model and check the target, as far as that does not depend on a photograph.

    Args:
        name: of the model, as `--model` takes it.
        target: the class, as `--target` takes it.

    Raises:
        SecondsightError: once, instead of once for each photograph.
    """
    model = ss.load_model(name)
    if target is not None and model.labels is not None:
        model.target_index(target, len(model.labels))
    return model


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
