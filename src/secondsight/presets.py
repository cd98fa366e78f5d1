"""The hyper-parameters of the paper's tables, as options of `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondsight.errors import InputError
from secondsight.optim.lambda_choice import LAMBDA1_VALUES

PRESETS: dict[str, dict[str, Any]] = {
    "table-1": {"lambda1": 0.0, "c1": 10.0},
    "table-2": {"lambda1": LAMBDA1_VALUES, "c1": 10.0},
    "table-3": {"lambda1": LAMBDA1_VALUES, "c1": 10.0, "n": 32, "sigma": 0.15},
}
"""By the name of the table. Its "lambda2 threshold" of 20 is 2 c1. Usage: `explain(model, x, **PRESETS["table-3"])`."""

NO_PRESET = "none"
"""The name of the preset without options, which commands take by default."""


def preset(name: str) -> Mapping[str, Any]:
    """Return the options of a preset. The preset "none" has no options.

    Raises:
        InputError: if there is no preset of this name.
    """
    if name == NO_PRESET:
        return {}
    if name not in PRESETS:
        raise InputError("preset", f"one of {', '.join([NO_PRESET, *PRESETS])}", repr(name))
    return PRESETS[name]
