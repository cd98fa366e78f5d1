"""The choice of lambda1: section 4.1 of the paper to the letter, and a rule that adapts to the picture.

Rules see maps only through `solve`, a function from lambda1 to the solved point, so they serve every solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from secondsight.solve.certificate import Certificate, Objective

LAMBDA1_VALUES = (0.0, 1e-5, 1e-4, 1e-3, 6.25e-3, 1.25e-2, 2.5e-2, 5e-2)
"""The eight values of the paper's tables 2 and 3."""

MOST_BISECTIONS = 30

TIE = 1e-9
"""Heights above the chord, from 0 to 1, that differ by no more are equal."""


@dataclass(frozen=True)
class Point:
    """The map at one lambda1, in the precision it is returned in.

    Exact product and certificate are there where HD was taken at this very map.
    """

    lambda1: float
    delta: Tensor
    objective: Objective
    sparsity: float
    product: Tensor | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Choice:
    """All points a rule has looked at, by falling lambda1, the index of the chosen one, and a note on it."""

    points: tuple[Point, ...]
    index: int
    note: str | None = None

    @property
    def point(self) -> Point:
        return self.points[self.index]

    def replacing(self, points: dict[int, Point]) -> Choice:
        return replace(self, points=tuple(points.get(i, point) for i, point in enumerate(self.points)))


@dataclass(frozen=True)
class Rule:
    """How lambda1 is to be chosen.

    wanted: "auto", "paper", a number, or numbers to choose among as the paper does.
    sparsity: the range [low, high) of the share of zero pixels (or groups) a chosen map must have.
    points, smallest: length of the automatic path and its last lambda1, relative to lambda1_max.
    unit: what lambda1 = 1 of the solver is in the user's units (the solver works with a gradient of unit size).
    """

    wanted: str | float | tuple[float, ...]
    sparsity: tuple[float, float]
    points: int
    smallest: float
    unit: float

    def choose(self, solve: Callable[[float], Point], lambda1_max: float) -> Choice:
        if lambda1_max == 0:
            return Choice((solve(0.0),), 0)
        if self.wanted == "paper":
            return self._paper(solve)
        if isinstance(self.wanted, tuple):
            return self._highest_loss([solve(value / self.unit) for value in dict.fromkeys(self.wanted)])
        grid = [solve(lambda1) for lambda1 in self._grid(lambda1_max)]
        if self.wanted == "auto":
            return self._auto(grid)
        chosen = solve(float(self.wanted) / self.unit)
        return _choice([*grid, chosen], chosen)

    def _grid(self, lambda1_max: float) -> list[float]:
        ratio = self.smallest ** (1 / self.points)
        return [lambda1_max * ratio ** (i + 1) for i in range(self.points)]

    def _qualifies(self, point: Point) -> bool:
        low, high = self.sparsity
        return low <= point.sparsity < high

    def _auto(self, points: list[Point]) -> Choice:
        qualified = [point for point in points if self._qualifies(point)]
        if not qualified:
            return self._nearest(points)
        return _choice(points, knee(qualified, reference=points[-1].objective))

    def _nearest(self, points: list[Point]) -> Choice:
        low, high = self.sparsity
        shown = [point for point in points if point.sparsity < 1] or points
        nearest = min(shown, key=lambda point: max(low - point.sparsity, point.sparsity - high))
        note = f"no map had a sparsity in [{low:g}, {high:g}): the nearest, {nearest.sparsity:.3f}, was taken"
        return _choice(points, nearest, note)

    def _paper(self, solve: Callable[[float], Point]) -> Choice:
        """1e-5, times ten until the map is all zero; the highest loss among the qualified; else halve."""
        points = [solve(1e-5 / self.unit)]
        while points[-1].sparsity < 1:
            points.append(solve(points[-1].lambda1 * 10))
        zero = points[-1]
        while not any(map(self._qualifies, points)):
            halved = solve(zero.lambda1 / 2)
            points.append(halved)
            if halved.sparsity < 1:
                if not self._qualifies(halved):
                    points += self._bisect(solve, halved, zero)
                break
            zero = halved
        return self._highest_loss(points)

    def _highest_loss(self, points: list[Point]) -> Choice:
        qualified = [point for point in points if self._qualifies(point)]
        if not qualified:
            return self._nearest(points)
        return _choice(points, max(qualified, key=lambda point: point.objective.smooth))

    def _bisect(self, solve: Callable[[float], Point], dense: Point, zero: Point) -> list[Point]:
        points: list[Point] = []
        for _ in range(MOST_BISECTIONS):
            middle = solve((dense.lambda1 + zero.lambda1) / 2)
            points.append(middle)
            if self._qualifies(middle):
                break
            dense, zero = (dense, middle) if middle.sparsity == 1 else (middle, zero)
        return points


def knee(points: list[Point], reference: Objective) -> Point:
    """The point farthest above the chord from the empty map to the densest: gain kept against pixels kept.

    The gain is g'D + 1/2 D'HD with each map brought to the L2 norm of the reference: only its *direction* counts. Of
    maps that rounding alone tells apart, the first.
    """
    norm = math.sqrt(reference.square)
    kept = [1 - point.sparsity for point in points]
    gains = [point.objective.gain(norm) for point in points]
    densest = max(range(len(points)), key=kept.__getitem__)
    if gains[densest] <= 0:
        return points[densest]
    heights = [g / gains[densest] - k / kept[densest] for g, k in zip(gains, kept, strict=True)]
    return next(point for point, height in zip(points, heights, strict=True) if height >= max(heights) - TIE)


def _choice(points: list[Point], chosen: Point, note: str | None = None) -> Choice:
    ordered = tuple(sorted(points, key=lambda point: -point.lambda1))
    return Choice(ordered, next(i for i, point in enumerate(ordered) if point is chosen), note)
