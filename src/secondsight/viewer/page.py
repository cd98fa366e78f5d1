"""The page: one HTML file without any reference to the outside, with data of results as JSON.

The scripts are ES modules that a server may serve as they are. A file takes them joined into one, because a browser
loads no modules beside a file. The policy in the page lets it run that script only, and lets it ask for nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from secondsight.results import sentences
from secondsight.results.explanation import Explanation, SecondOrderExplanation, SparseExplanation
from secondsight.results.storage import write_whole
from secondsight.version import __version__
from secondsight.viewer.view_data import photograph, view

IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<name>[a-z_]+\.js)";\n', re.MULTILINE)
"""How the scripts import: names, from a file beside."""

COLOURS = ("inferno", "viridis", "cividis", "gray")
"""Perceptually uniform colour maps for magnitudes. People who do not tell red from green see all of them."""

SIGNED_COLOURS = ("berlin", "RdBu_r")
"""For signs, from negative to positive, dark or light in the middle. Nearly everyone tells blue from red."""


def page(title: str, body: dict[str, Any], parts: Mapping[str, Any], report: bool = False) -> str:
    """Write a page.

    Args:
        title: of the page.
        body: what the script starts from.
        parts: what it reads when it is needed, by the name of the part.
        report: whether it is about a run, and not of results.
    """
    script = joined("start_report.js" if report else "start.js")
    style = static("viewer.css") + (static("report.css") if report else "")
    data = {"page": body | {"colours": _colours()}} | dict(parts)
    filled = {
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(title.encode("utf-8", "backslashreplace").decode()),
        "style": style,
        "data": "\n".join(_json(name, value) for name, value in data.items()),
        "script": script,
        "version": __version__,
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda place: filled[place[1]], static("page.html"))


@dataclass(frozen=True)
class Tab:
    """A result on a page.

    Attributes:
        explanation: the result.
        title: what its tab says; empty: the title of its method.
        facts: what is also told of it, by name.
    """

    explanation: Explanation
    title: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def viewer_page(tabs: Sequence[Tab], name: str = "", archive: bool = True) -> str:
    """Write a page with the viewer.

    Args:
        tabs: the results.
        name: the file name of the photograph; empty if there is none.
        archive: whether exact arrays are in the page, for download.
    """
    photographs: list[str | None] = []
    listed, parts = [], {}
    for number, tab in enumerate(tabs):
        seen = photograph(tab.explanation)
        if seen not in photographs:
            photographs.append(seen)
        part = f"result-{number}"
        title = tab.title or tab.explanation.method.title
        listed.append({"title": title, "part": part, "photograph": photographs.index(seen)})
        shown = view(tab.explanation, archive)
        parts[part] = shown | {"summary": shown["summary"] | tab.facts}
    order = (SecondOrderExplanation, SparseExplanation, Explanation)
    first = next(i for kind in order for i, tab in enumerate(tabs) if isinstance(tab.explanation, kind))
    title = " - ".join(filter(None, [sentences.title(tabs[first].explanation), name]))
    body = {"name": name, "photographs": photographs, "results": listed, "first": first, "address": True}
    return page(title, body, parts)


def save_page(path: Path, tabs: Sequence[Tab], name: str = "") -> None:
    """Write a page with the viewer to a file, whole or not at all."""
    text = viewer_page(tabs, name).encode()
    write_whole(path, lambda file: file.write(text))


def static(name: str) -> str:
    """Read a file of the viewer."""
    return (files("secondsight.viewer") / "static" / name).read_text("utf-8")


@cache
def joined(start: str) -> str:
    """Join a script and all that it imports into one."""
    order: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in order:
            text = static(name)
            for match in IMPORT.finditer(text):
                add(match["name"])
            order[name] = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)

    add(start)
    return "\n".join(order.values())


def _json(name: str, value: Any) -> str:
    """Write data into the page. Without "<" in it, no text of a file can end the block."""
    # In ASCII, because file names may have bytes that are no text.
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(name)}">{escaped}</script>'


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _colours() -> dict[str, dict[str, str]]:
    """256 colours of each map, three bytes each."""
    import numpy as np
    from matplotlib import colormaps

    def table(name: str) -> str:
        return base64.b64encode((colormaps[name](np.arange(256), bytes=True)[:, :3]).tobytes()).decode()

    return {
        "magnitude": {name: table(name) for name in COLOURS},
        "sign": {name: table(name) for name in SIGNED_COLOURS},
    }
