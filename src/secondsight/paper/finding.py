"""What a reproduction of one result of the paper comes to: the claim, what was measured, a verdict, and the numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from secondsight.explanation import save_figure, write_whole

Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Finding:
    """One result.

    name: of the command. where: in the paper. numbers: everything the figure was drawn from.
    """

    name: str
    where: str
    claim: str
    measured: str
    verdict: Verdict
    numbers: dict[str, Any] = field(repr=False)
    figure: Figure = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """NAME.png and NAME.json, each whole or not at all."""
        picture, record = folder / f"{self.name}.png", folder / f"{self.name}.json"
        save_figure(self.figure, picture)
        words = {name: getattr(self, name) for name in ("name", "where", "claim", "measured", "verdict")}
        text = json.dumps(words | {"numbers": self.numbers}, indent=1).encode()
        write_whole(record, lambda file: file.write(text))
        return [picture, record]
