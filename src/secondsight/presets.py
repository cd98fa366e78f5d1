"""The hyper-parameters of the paper's tables, as options of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondsight.config import PAPER_C1, SIGMA
from secondsight.errors import InputError

LAMBDA1_VALUES = (0.0, 1e-5, 1e-4, 1e-3, 6.25e-3, 1.25e-2, 2.5e-2, 5e-2)
"""The eight values of the paper's tables 2 and 3."""

PRESETS: dict[str, dict[str, Any]] = {
    "table-1": {"lambda1": 0.0, "c1": PAPER_C1},
    "table-2": {"lambda1": LAMBDA1_VALUES, "c1": PAPER_C1},
    "table-3": {"lambda1": LAMBDA1_VALUES, "c1": PAPER_C1, "n": 32, "sigma": SIGMA},
}
"""By the name of the table. Its "lambda2 threshold" of 20 is 2 c1. Usage: `SmoothCASO(**PRESETS["table-3"])`."""

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
