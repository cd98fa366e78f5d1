"""Let mkdocstrings show "Example:" in docstrings as it shows "Examples:", and not as a box of quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Gives the section the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:\n", "Examples:\n", obj.docstring.value, flags=re.MULTILINE)
