"""What a measurement on photographs is given, and where it keeps what it found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secondsight.model import Classifier
from secondsight.paper.photographs import Ledger, Record


def _nobody(number: int) -> None:
    pass


@dataclass(frozen=True)
class Run:
    """One network on some photographs.

    files: the photographs that are measured. shown: those whose maps are drawn; None: the same.
    out: the folder of all results; those of one network lie in a folder of its name.
    options: of `explain`, from a preset.
    pages: of figures with many photographs, so many.
    progress: told the number of photographs done.
    """

    model: Classifier
    files: Sequence[Path]
    out: Path
    seed: int = 0
    shown: Sequence[Path] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    pages: int = 1
    progress: Callable[[int], None] = _nobody

    @property
    def folder(self) -> Path:
        return self.out / re.sub(r"[^\w.-]+", "-", self.model.name)

    @property
    def pictures(self) -> Sequence[Path]:
        return self.files if self.shown is None else self.shown

    def records(
        self,
        name: str,
        measure: Callable[[Path], Record],
        files: Sequence[Path] | None = None,
        **settings: Any,
    ) -> tuple[Record, list[Record]]:
        """What the records depend on, and one for each photograph: those of an earlier run with the same settings are
        not measured again.
        """
        settings = {"model": self.model.name, "seed": self.seed} | settings
        ledger = Ledger(self.folder / f"{name}.jsonl", settings)
        return settings, ledger.fill(self.files if files is None else files, measure, self.progress)


def evenly(files: Sequence[Path], most: int | None) -> list[Path]:
    """All, or every n-th where fewer are wanted, so that they stand for all."""
    if most is None or most >= len(files):
        return list(files)
    return [files[i * len(files) // most] for i in range(most)]
