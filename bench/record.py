"""The file that a measuring command writes with --json: what was measured, when, and with which torch and threads.

`python -m bench.publish --take FILE` takes the figures into bench/figures.json. The rest of the file is for a closer
look at the measurement, and lets a command go on where it was cut short.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from secondsight.results.storage import write_whole


def write(file: Path | None, command: str, figures: Mapping[str, Any], raw: object = None) -> None:
    """Write a record, if a file is wanted.

    Args:
        file: the file; None writes nothing.
        command: the command's name, under which bench/figures.json has its figures.
        figures: numbers and words by name, in groups of groups as the keys of the pages have them.
        raw: everything else that was measured.
    """
    if file is None:
        return
    record = {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__.partition("+")[0],
        "threads": torch.get_num_threads(),
        "figures": figures,
        "raw": raw,
    }
    text = json.dumps(record, indent=1)
    write_whole(file, lambda stream: stream.write(text.encode()))


def read_raw(file: Path | None) -> Any:
    """Read what an earlier run of a command kept for itself; None where there is no such file."""
    return json.loads(file.read_text("utf-8"))["raw"] if file is not None and file.exists() else None
