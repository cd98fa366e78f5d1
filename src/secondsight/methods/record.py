"""From a solver's unit-size solution to an Explanation in the user's units.

The objective is homogeneous: with g = s u and lambda1 = s l the optimal map is s times that of (u, l), and objectives
are s^2 times theirs. Solving for u keeps gradients of any size, also those of a nearly certain prediction, from
underflowing; with s a power of two, scaling back is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from secondsight.curvature.linearisation import Linearisation
from secondsight.explanation import Explanation, PathPoint
from secondsight.methods.settings import Settings
from secondsight.model import Classifier
from secondsight.solve.certificate import Support
from secondsight.solve.select import Choice, Point

SMALLEST_FLOAT32 = 2.0**-96
"""Gradients below this leave too few digits to a float32 map: it is returned in float64."""


@dataclass
class Scene:
    """One input under one model: what every method starts from and writes its result with."""

    model: Classifier
    linear: Linearisation
    gradient: Tensor
    settings: Settings

    def __post_init__(self) -> None:
        largest = float(self.gradient.abs().max())
        self.unit = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        self.unit_gradient = self.gradient / self.unit
        self.shape = self.linear.x.shape[1:]
        self.dtype = self.linear.x.dtype
        self.sparsity: Callable[[Tensor], float] = lambda delta: zero_share(delta.reshape(self.shape))

    def explanation(self, choice: Choice, lambda1_max: float, notes: list[str], **more: Any) -> Explanation:
        point, unit = choice.point, self.unit
        small = self.dtype == torch.float32 and unit < SMALLEST_FLOAT32
        dtype = torch.float64 if small else self.dtype
        all_notes = [*self.model.notes, *self.linear.notes, *notes]
        if small:
            all_notes.append("the map is too small for float32: it is returned in float64")
        all_notes += self._notes(point, lambda1_max)
        if choice.note is not None:
            all_notes.append(choice.note)
        certificate = point.certificate
        nothing = torch.zeros(self.shape, dtype=torch.bool)
        return Explanation(
            input=self.linear.x.detach()[0].cpu(),
            delta=self._shaped(point.delta * unit, dtype),
            gradient=self._shaped(self.gradient, dtype),
            target=self.linear.target,
            label=self.model.label(self.linear.target),
            probability=float(self.linear.probabilities[self.linear.target]),
            lambda1=point.lambda1 * unit,
            lambda1_max=lambda1_max * unit,
            sparsity=point.sparsity,
            gap=math.inf if certificate is None else certificate.gap * unit**2,
            relative_gap=math.inf if certificate is None else certificate.relative_gap,
            support=Support(nothing, nothing) if certificate is None else self._support(certificate.support),
            path=tuple(self._path_point(p, dtype) for p in choice.points),
            settings=self.settings.asked() | {"model": self.model.name},
            notes=tuple(all_notes),
            **more,
        )

    def _notes(self, point: Point, lambda1_max: float) -> list[str]:
        if lambda1_max == 0:
            return [
                "the gradient of the loss is zero here: no perturbation matters to first order, and the map is all zero"
            ]
        if point.lambda1 >= lambda1_max:
            return [f"lambda1 is not below lambda1_max = {lambda1_max * self.unit:.4g}: the map is all zero"]
        return []

    def _path_point(self, point: Point, dtype: torch.dtype) -> PathPoint:
        return PathPoint(
            lambda1=point.lambda1 * self.unit,
            sparsity=point.sparsity,
            objective=point.objective.value * self.unit**2,
            relative_gap=None if point.certificate is None else point.certificate.relative_gap,
            delta=self._shaped(point.delta * self.unit, dtype),
        )

    def _shaped(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        return flat.to(dtype).cpu().reshape(self.shape)

    def _support(self, support: Support) -> Support:
        return Support(support.nonzero.cpu().reshape(self.shape), support.zero.cpu().reshape(self.shape))


def zero_share(delta: Tensor) -> float:
    """Sparsity eta: zero pixels / pixels, a pixel being zero when all its channels are. Other inputs: zero entries."""
    zero = delta == 0
    if delta.ndim == 3:
        zero = zero.all(0)
    return float(zero.double().mean())
