"""All measured figures: bench/figures.json, its keys, and how the record of a command is taken into it.

For each command the file has when it was measured, with which torch and threads, and groups of figures. A key names a
figure by command and groups, run.resnet50.caso.ge, or says how the command was run: run.date, run.torch, run.threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("figures.json")
STAMP = ("date", "torch", "threads")
"""How a command was run."""

Data = dict[str, Any]
"""The file: commands, each with its stamp and its figures."""


def read(file: Path = FILE) -> Data:
    return json.loads(file.read_text("utf-8"))


def write(data: Data, file: Path = FILE) -> None:
    file.write_text(text_of(data) + "\n", "utf-8")


def text_of(value: object, indent: int = 0) -> str:
    """Write JSON with sorted keys and each innermost group on a line of its own."""
    if not isinstance(value, dict) or not any(isinstance(inner, dict) for inner in value.values()):
        return json.dumps(value, sort_keys=True)
    lines = [f"{' ' * (indent + 1)}{json.dumps(key)}: {text_of(value[key], indent + 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


def lookup(data: Data, key: str) -> Any:
    """Find a figure or a group of figures.

    Raises:
        KeyError: if there is none of this key.
    """
    command, *path = key.split(".")
    if len(path) == 1 and path[0] in STAMP:
        return data[command][path[0]]
    found = data[command]["figures"]
    for name in path:
        found = found[name]
    return found


def is_earlier(data: Data, key: str) -> bool:
    """Whether a group of figures is older than the command's latest run."""
    command, _, group = key.partition(".")
    return group in data[command].get("earlier", {})


def take(data: Data, record: Mapping[str, Any]) -> Data:
    """Take the figures that a command wrote, and keep its older ones as far as they can be compared.

    Groups that were not measured anew stay, and "earlier" has their dates. A run with another torch or another number
    of threads replaces all figures of its command.
    """
    new = {name: record[name] for name in STAMP} | {"figures": _rounded(record["figures"])}
    old = data.get(record["command"])
    if old is not None and (old["torch"], old["threads"]) == (new["torch"], new["threads"]):
        earlier = {group: date for group, date in _older(old, new["date"]) if group not in set(groups(new["figures"]))}
        new["figures"] = _merged(old["figures"], new["figures"])
        if earlier:
            new["earlier"] = earlier
    return data | {record["command"]: new}


def groups(figures: Mapping[str, Any], name: str = "") -> Iterator[str]:
    """List the groups that hold figures themselves, by their keys below the command."""
    inner = {key: value for key, value in figures.items() if isinstance(value, dict)}
    if len(inner) < len(figures):
        yield name
    for key, value in inner.items():
        yield from groups(value, f"{name}.{key}" if name else key)


def _older(old: Mapping[str, Any], today: str) -> Iterator[tuple[str, str]]:
    """List the groups that do not belong to a run of today, with their dates. Marked figures never do."""
    if "measured" in old or old["date"] != today:
        yield from ((group, old["date"]) for group in groups(old["figures"]))
    yield from old.get("earlier", {}).items()


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    # A group of figures is taken as a whole: what a row no longer has goes.
    kept = {key: value for key, value in old.items() if isinstance(value, dict)}
    return kept | {key: _merged(kept.get(key), value) for key, value in new.items()}


def _rounded(value: Any) -> Any:
    """Keep four digits, which are more than any of these measurements has."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value
