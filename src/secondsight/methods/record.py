"""From a solver's unit-size solution to an Explanation in the user's units.

The objective is homogeneous: with g = s u and lambda1 = s l the optimal map is s times that of (u, l), and objectives
are s^2 times theirs. Solving for u keeps gradients of any size, also those of a nearly certain prediction, from
underflowing; with s a power of two, scaling back is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from secondsight.curvature.linearisation import Linearisation
from secondsight.explanation import Explanation, PathPoint, zero_share
from secondsight.methods.groups import group_labels
from secondsight.methods.settings import Settings
from secondsight.model import Classifier
from secondsight.solve.certificate import Support
from secondsight.solve.penalty import L1, GroupLasso, Penalty
from secondsight.solve.select import Choice, Point, Rule

SMALLEST_FLOAT32 = 2.0**-96
"""Gradients below this leave too few digits to a float32 map: it is returned in float64."""

PATH_END = 0.01

TIMES_INPUT = "the map was multiplied by the input: dark pixels cannot show, whatever they do (appendix D of the paper)"


def facts(model: Classifier, linear: Linearisation, settings: Settings) -> dict[str, Any]:
    """The fields of an Explanation that no method decides."""
    return {
        "input": linear.x.detach()[0].cpu(),
        "target": linear.target,
        "label": model.label(linear.target),
        "probability": float(linear.probabilities[0, linear.target]),
        "settings": settings.asked() | {"model": model.name},
    }


@dataclass
class Scene:
    """One input under one model: what the methods with a penalty start from and write their result with."""

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
        self.groups = group_labels(self.settings.groups, self.linear.x.detach()[0])
        self.penalty: Penalty = L1()
        if self.groups is not None:
            self.penalty = GroupLasso(self.groups.flatten().to(self.gradient.device))

    def rule(self) -> Rule:
        """How lambda1 is to be chosen, in the units of `unit_gradient`."""
        settings = self.settings
        smallest = settings.path_smallest or self._path_end()
        return Rule(settings.lambda1, settings.sparsity_range, settings.path_points, smallest, self.unit)

    def _path_end(self) -> float:
        """The last lambda1 over lambda1_max: a hundredth; with groups, where CAFO keeps three of four.

        Norms of groups are more alike than entries are: most of two decades would be full maps.
        """
        if not isinstance(self.penalty, GroupLasso):
            return PATH_END
        lengths = self.penalty.lengths(self.unit_gradient)
        return min(0.9, max(PATH_END, float(lengths.quantile(0.25) / lengths.max().clamp(min=1e-300))))

    def sparsity(self, delta: Tensor) -> float:
        return zero_share(delta.cpu().reshape(self.shape), self.groups)

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
            **facts(self.model, self.linear, self.settings),
            delta=self._map(point, dtype),
            gradient=self._shaped(self.gradient, dtype),
            lambda1=point.lambda1 * unit,
            lambda1_max=lambda1_max * unit,
            sparsity=point.sparsity,
            gap=math.inf if certificate is None else certificate.gap * unit**2,
            relative_gap=math.inf if certificate is None else certificate.relative_gap,
            support=Support(nothing, nothing) if certificate is None else self._support(certificate.support),
            path=tuple(self._path_point(p, dtype) for p in choice.points),
            groups=self.groups,
            notes=tuple(all_notes),
            **more,
        )

    def _notes(self, point: Point, lambda1_max: float) -> list[str]:
        notes = [f"{TIMES_INPUT}; sparsity, gap and support are those before that"] if self.settings.times_input else []
        if lambda1_max == 0:
            notes.append(
                "the gradient of the loss is zero here: no perturbation matters to first order, and the map is all zero"
            )
        elif point.lambda1 >= lambda1_max:
            notes.append(f"lambda1 is not below lambda1_max = {lambda1_max * self.unit:.4g}: the map is all zero")
        return notes

    def _path_point(self, point: Point, dtype: torch.dtype) -> PathPoint:
        return PathPoint(
            lambda1=point.lambda1 * self.unit,
            sparsity=point.sparsity,
            objective=point.objective.value * self.unit**2,
            relative_gap=None if point.certificate is None else point.certificate.relative_gap,
            delta=self._map(point, dtype),
        )

    def _map(self, point: Point, dtype: torch.dtype) -> Tensor:
        # The unit is a power of two.
        delta = self._shaped(point.delta.to(dtype) * self.unit, dtype)
        return delta * self.linear.x.detach()[0].cpu() if self.settings.times_input else delta

    def _shaped(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        return flat.to(dtype).cpu().reshape(self.shape)

    def _support(self, support: Support) -> Support:
        return Support(support.nonzero.cpu().reshape(self.shape), support.zero.cpu().reshape(self.shape))
