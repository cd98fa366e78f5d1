"""The path of lambda1: the maps that a solver found, and which of them was chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from secondsight.optim.duality_gap import DualityGap
from secondsight.optim.kept_map import KeptMap
from secondsight.optim.problem import Objective
from secondsight.optim.proof import Origin


@dataclass(frozen=True)
class Point:
    """The map at one lambda1.

    Attributes:
        lambda1: the weight of the penalty.
        kept: the map, in the precision that it is returned in.
        objective: the objective at the map, by the exact product where there is one, else a lower bound of it.
        sparsity: the share of zeros, counted as the user counts them.
        rounding: how far rounding may have raised the objective.
        product: HD, where it was taken at this very map.
        gap: the proof, where HD was taken at this very map.
        origin: where the map comes from, where blocks overlap.
        quadratic: the likely D'HD, where the objective is only a lower bound; None: that of the objective.
    """

    lambda1: float
    kept: KeptMap
    objective: Objective
    sparsity: float
    rounding: float = 0.0
    product: Tensor | None = None
    gap: DualityGap | None = None
    origin: Origin | None = None
    quadratic: float | None = None

    @property
    def delta(self) -> Tensor:
        """The map."""
        return self.kept.dense()

    def gain(self, norm: float) -> float:
        """Compute the likely g'D + 1/2 D'HD of the map rescaled to the given L2 norm."""
        likely = self.objective if self.quadratic is None else replace(self.objective, quadratic=self.quadratic)
        return likely.gain(norm)

    def certified_to(self, tolerance: float) -> bool:
        """Whether the relative gap is proven to be at most `tolerance`."""
        return self.gap is not None and self.gap.relative_gap <= tolerance


Solve = Callable[[float], Point]
"""A solver as the rules see it: a function from lambda1 to the solved point."""


@dataclass(frozen=True)
class Path:
    """Points by falling lambda1, and the one that was chosen.

    Attributes:
        points: the solved points.
        index: the index of the chosen point.
        note: what a reader should know of the choice.
    """

    points: tuple[Point, ...]
    index: int
    note: str | None = None

    @classmethod
    def of(cls, points: list[Point], chosen: Point, note: str | None = None) -> Path:
        """Order the points by falling lambda1."""
        ordered = tuple(sorted(points, key=lambda point: -point.lambda1))
        return cls(ordered, next(i for i, point in enumerate(ordered) if point is chosen), note)

    @property
    def chosen(self) -> Point:
        """The chosen point."""
        return self.points[self.index]

    def replacing(self, points: dict[int, Point]) -> Path:
        """Return the path with other points at the given indices."""
        return replace(self, points=tuple(points.get(i, point) for i, point in enumerate(self.points)))
