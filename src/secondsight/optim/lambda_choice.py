"""The choice of lambda1: section 4.1 of the paper to the letter, and a rule that adapts to the picture.

Rules see maps only through `solve`, a function from lambda1 to the solved point, so that they serve every solver.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from secondsight.optim.path import Path, Point, Solve
from secondsight.optim.problem import Objective

PAPER_START = 1e-5
"""Where the rule of the paper's section 4.1 starts."""

MOST_BISECTIONS = 30
"""Enough to tell two values of lambda1 apart that differ by 1e-9. No map between closer values is new."""

TIE = 1e-9
"""Heights above the chord, from 0 to 1, count as equal if they differ by at most this: rounding does."""


@dataclass(frozen=True)
class LambdaRule(ABC):
    """How lambda1 is to be chosen.

    Attributes:
        sparsity: the range [low, high) of the share of zeros that a chosen map must have.
    """

    sparsity: tuple[float, float]

    def choose(self, solve: Solve, lambda1_max: float) -> Path:
        """Solve at several values of lambda1 and choose one. lambda1_max is the smallest with a zero map."""
        if lambda1_max == 0:
            return Path((solve(0.0),), 0)
        return self._choose(solve, lambda1_max)

    @abstractmethod
    def _choose(self, solve: Solve, lambda1_max: float) -> Path: ...

    def _qualifies(self, point: Point) -> bool:
        low, high = self.sparsity
        return low <= point.sparsity < high

    def _nearest(self, points: list[Point]) -> Path:
        low, high = self.sparsity
        shown = [point for point in points if point.sparsity < 1] or points
        nearest = min(shown, key=lambda point: max(low - point.sparsity, point.sparsity - high))
        note = f"no map had a sparsity in [{low:g}, {high:g}): the nearest, {nearest.sparsity:.3f}, was taken"
        return Path.of(points, nearest, note)

    def _highest_loss(self, points: list[Point]) -> Path:
        qualified = [point for point in points if self._qualifies(point)]
        if not qualified:
            return self._nearest(points)
        return Path.of(points, max(qualified, key=lambda point: point.objective.smooth))


@dataclass(frozen=True)
class KneeRule(LambdaRule):
    """Choose the knee of gain kept against pixels kept, along a geometric path below lambda1_max.

    Attributes:
        points: the length of the path.
        smallest: the last lambda1 of the path over lambda1_max.
    """

    points: int
    smallest: float

    def _choose(self, solve: Solve, lambda1_max: float) -> Path:
        points = self._path(solve, lambda1_max)
        qualified = [point for point in points if self._qualifies(point)]
        if not qualified:
            return self._nearest(points)
        return Path.of(points, knee(qualified, reference=points[-1].objective))

    def _path(self, solve: Solve, lambda1_max: float) -> list[Point]:
        ratio = self.smallest ** (1 / self.points)
        return [solve(lambda1_max * ratio ** (i + 1)) for i in range(self.points)]


@dataclass(frozen=True)
class FixedRule(KneeRule):
    """Take the given lambda1, beside the same path as `KneeRule` solves.

    Attributes:
        lambda1: the value to take.
        relative: whether the value is a share of lambda1_max.
    """

    lambda1: float
    relative: bool = False

    def _choose(self, solve: Solve, lambda1_max: float) -> Path:
        points = self._path(solve, lambda1_max)
        chosen = solve(self.lambda1 * lambda1_max if self.relative else self.lambda1)
        return Path.of([*points, chosen], chosen)


@dataclass(frozen=True)
class HighestLossRule(LambdaRule):
    """Choose the highest loss among the given values of lambda1 whose sparsity is in range.

    Attributes:
        values: the values of lambda1.
    """

    values: tuple[float, ...]

    def _choose(self, solve: Solve, lambda1_max: float) -> Path:
        return self._highest_loss([solve(value) for value in dict.fromkeys(self.values)])


@dataclass(frozen=True)
class PaperRule(LambdaRule):
    """Choose lambda1 as in section 4.1 of the paper.

    Multiply lambda1 by ten, from `start` on, until the map is all zero. Choose the highest loss among the maps whose
    sparsity is in range. If there is none, halve the last lambda1 until the map is not zero, and bisect from there.

    Attributes:
        start: the first lambda1, 1e-5 in the paper.
    """

    start: float

    def _choose(self, solve: Solve, lambda1_max: float) -> Path:
        points = [solve(self.start)]
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

    def _bisect(self, solve: Solve, dense: Point, zero: Point) -> list[Point]:
        points: list[Point] = []
        for _ in range(MOST_BISECTIONS):
            middle = solve((dense.lambda1 + zero.lambda1) / 2)
            points.append(middle)
            if self._qualifies(middle):
                break
            dense, zero = (dense, middle) if middle.sparsity == 1 else (middle, zero)
        return points


def knee(points: list[Point], reference: Objective) -> Point:
    """Find the point farthest above the chord from the empty map to the densest: gain kept against pixels kept.

    The gain is g'D + 1/2 D'HD with each map brought to the L2 norm of the reference, so that only its *direction*
    counts. Where only rounding tells two maps apart, the first one is taken.
    """
    norm = math.sqrt(reference.square)
    kept = [1 - point.sparsity for point in points]
    gains = [point.gain(norm) for point in points]
    densest = max(range(len(points)), key=kept.__getitem__)
    if gains[densest] <= 0:
        return points[densest]
    heights = [g / gains[densest] - k / kept[densest] for g, k in zip(gains, kept, strict=True)]
    high = (point for point, height in zip(points, heights, strict=True) if height >= max(heights) - TIE)
    # Where lambda2 is so small that the gains overflow, no point is high.
    return next(high, points[densest])
