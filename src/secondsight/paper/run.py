"""The input of a measurement on photographs, and the folder for its records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secondsight.model.classifier import Classifier
from secondsight.paper.photographs import Ledger, Record


def _no_progress(number: int) -> None:
    pass


@dataclass(frozen=True)
class Run:
    """One network on some photographs.

    Attributes:
        model: the network.
        files: the photographs that are measured.
        out: the folder of all results. The results of one network lie in a folder of its name.
        seed: of the noise and of the eigenvalue estimate's start.
        shown: the photographs whose maps are drawn; None: the photographs that are measured.
        options: options of methods by name, from a preset.
        pages: how many pages a figure with many photographs may have.
        progress: called with the number of photographs done.
    """

    model: Classifier
    files: Sequence[Path]
    out: Path
    seed: int = 0
    shown: Sequence[Path] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    pages: int = 1
    progress: Callable[[int], None] = _no_progress

    @property
    def folder(self) -> Path:
        """The folder for the results of this network."""
        return self.out / re.sub(r"[^\w.-]+", "-", self.model.name)

    @property
    def pictures(self) -> Sequence[Path]:
        """The photographs whose maps are drawn."""
        return self.files if self.shown is None else self.shown

    def records(
        self,
        name: str,
        measure: Callable[[Path], Record],
        files: Sequence[Path] | None = None,
        **settings: Any,
    ) -> tuple[Record, list[Record]]:
        """Measure each photograph, except those that an earlier run with the same settings has measured.

        Args:
            name: of the file for the records, without its suffix.
            measure: makes the record of one photograph.
            files: the photographs; None: `self.files`.
            settings: everything that the records depend on besides the network and the seed.

        Returns:
            All settings, and one record for each photograph.

        Raises:
            SecondsightError: if the file for the records cannot be written.
        """
        settings = {"model": self.model.name, "seed": self.seed} | settings
        ledger = Ledger(self.folder / f"{name}.jsonl", settings)
        return settings, ledger.fill(self.files if files is None else files, measure, self.progress)


def evenly(files: Sequence[Path], most: int | None) -> list[Path]:
    """Choose photographs at even distances in the list, so that they stand for all.

    Args:
        files: the photographs to choose from.
        most: how many to choose at most; None: all.
    """
    if most is None or most >= len(files):
        return list(files)
    return [files[i * len(files) // most] for i in range(most)]
