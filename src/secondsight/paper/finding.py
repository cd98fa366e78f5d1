"""The outcome of one result of the paper: the claim, what was measured, a verdict, the numbers and the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from secondsight.results.storage import save_figure, write_whole

Verdict = Literal["holds", "holds in part", "does not hold", "beyond the paper"]
""""beyond the paper" is for a question that the paper leaves open."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one result of the paper.

    Attributes:
        name: the name of the result's command.
        where: the place of the result in the paper.
        claim: what the paper says.
        measured: what was found here, in sentences.
        verdict: whether the claim holds.
        numbers: the settings and the numbers that were measured, ready for JSON.
        figures: one for each page.
    """

    name: str
    where: str
    claim: str
    measured: str
    verdict: Verdict
    numbers: dict[str, Any] = field(repr=False)
    figures: Sequence[Figure] = field(repr=False)

    @property
    def pictures(self) -> list[str]:
        """The names of the figures' files: NAME.png, NAME-2.png and so on."""
        return [f"{self.name}{f'-{number}' if number > 1 else ''}.png" for number in range(1, len(self.figures) + 1)]

    def write(self, folder: Path) -> list[Path]:
        """Write the figures and NAME.json, each whole or not at all.

        Args:
            folder: where the files go. It is made if it is not there.

        Returns:
            The files.

        Raises:
            SecondsightError: if a file cannot be written.
        """
        pictures = [folder / name for name in self.pictures]
        for figure, path in zip(self.figures, pictures, strict=True):
            save_figure(figure, path)
        words = {name: getattr(self, name) for name in ("name", "where", "claim", "measured", "verdict")}
        text = json.dumps(words | {"numbers": self.numbers}, indent=1).encode()
        record = folder / f"{self.name}.json"
        write_whole(record, lambda file: file.write(text))
        return [*pictures, record]
