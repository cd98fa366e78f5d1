"""One line of a table: a method on some photographs, as it was measured, and the figures that are shown of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Figures = dict[str, float]
"""What is kept of a row in bench/figures.json: numbers by name."""

NAMES = {
    "gradient": "gradient of the loss: the unit",
    "caso": "caso: certified map, path of 16",
    "caso-exact": "caso with the exact Hessian",
    "caso-gauss-newton": "caso with Gauss-Newton",
    "floor": "floor for these H-products",
    "cafo": "cafo: exact map, path of 16",
    "picture": "picture: windows of 8, 16 copies, and the sentence",
    "caso-window": "caso by windows of 8: certified map",
    "path": "caso, all 16 points certified",
    "further": "each further certified point",
    "smoothgrad": "Captum SmoothGrad-50, 10 at a time",
    "integrated-gradients": "Captum Integrated Gradients-50, 10 at a time",
    "batch-4": "caso, 4 in one call, each",
    "batch-10": "caso, 10 in one call, each",
    "batch-40": "caso, 40 in one call, each",
    "eigenpairs": "top 20 eigenpairs",
    "smooth-caso": "smooth-caso, n = 50: certified map, path of 16",
    "smooth-caso-window": "smooth-caso by windows of 8, n = 50: certified map",
    "factor": "full factor, 1000 classes",
    "paper": "the paper's algorithm, 8 values",
}
"""The rows by their keys, in the order of the tables."""

COLUMNS = {
    "photographs": ("photographs", "d"),
    "ge": ("g.e., median", ".1f"),
    "ge95": ("g.e., 95 %", ".1f"),
    "seconds": ("seconds", ".2f"),
    "products": ("products", "g"),
    "gap": ("worst gap", ".0e"),
    "peak_gb": ("peak GB", ".2f"),
    "peak_ratio": ("peak / gradient's", ".2f"),
}
"""The columns of the tables: by the name of a figure, the title and the format."""

LIMITS = {
    "ge": "g.e., median",
    "ge95": "g.e., 95 %",
    "share": "share of the time one by one",
    "peak_gb": "peak GB",
    "peak_ratio": "peak over a gradient's",
}
"""The figures that may have a limit, in words."""


@dataclass
class Row:
    """A method on some photographs, with one number for each of them in every list.

    key: the name of the row in bench/figures.json.
    gaps: relative, as certified; for the spectrum, what its note says.
    peak: bytes above the loaded network, on one photograph.
    also: further figures by name.
    limits: what figures may be at most.
    note: what the table's caption says of this row.
    """

    key: str
    limits: Figures = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    products: list[int] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    peak: int | None = None
    also: Figures = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """What tables call it."""
        return NAMES[self.key]

    def figures(self, gradient_peak: int | None) -> Figures:
        """Sum up the lists. `gradient_peak` is the memory of one gradient."""
        found: Figures = {
            "photographs": len(self.costs),
            "ge": statistics.median(self.costs),
            "ge95": quantile(self.costs, 0.95),
            "seconds": statistics.median(self.seconds),
        }
        if self.products:
            found["products"] = statistics.median(self.products)
        if self.gaps:
            found["gap"] = max(self.gaps)
        if self.peak is not None:
            found["peak_gb"] = self.peak / 1e9
        if self.peak is not None and gradient_peak:
            found["peak_ratio"] = self.peak / gradient_peak
        return found | self.also | {f"{name}_limit": limit for name, limit in self.limits.items()}


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that is not exceeded by the given share of them."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def cells(figures: Mapping[str, float]) -> list[str]:
    """What tables show of a row, in the order of COLUMNS."""
    return [format(figures[name], how) if name in figures else "" for name, (_, how) in COLUMNS.items()]


def limits(figures: Mapping[str, float]) -> dict[str, float]:
    """The limits of a row, by the figure that they limit."""
    return {name: figures[f"{name}_limit"] for name in LIMITS if f"{name}_limit" in figures}
