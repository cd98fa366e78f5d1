"""From a request to the solver's problem of unit size, and from the solver's path back to an Explanation.

The objective is homogeneous: with g = s u and lambda1 = s l the optimal map is s times that of (u, l), and objectives
are s^2 times theirs. Solving for u keeps gradients of any size, also those of a nearly certain prediction, from
underflowing; with s a power of two, scaling back is exact.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from secondsight.config import Settings
from secondsight.groups import group_labels
from secondsight.operators.linearisation import Linearisation
from secondsight.optim.certificate import Support
from secondsight.optim.lambda_choice import PAPER_START, FixedRule, HighestLossRule, KneeRule, LambdaRule, PaperRule
from secondsight.optim.path import Path, Point
from secondsight.optim.penalties import penalty_of
from secondsight.results.explanation import Explanation, PathPoint, zero_share

SMALLEST_FLOAT32 = 2.0**-96
"""A float32 map of a smaller gradient is returned in float64: only 30 bits are left above float32's smallest number."""

TIMES_INPUT = "the map was multiplied by the input: dark pixels cannot show, whatever they do (appendix D of the paper)"
"""The note on maps that are multiplied by the input."""


def facts_of(linear: Linearisation, settings: Settings) -> dict[str, Any]:
    """List the fields of an Explanation that no method decides."""
    return {
        "input": linear.x[0].cpu(),
        "target": linear.target,
        "label": linear.model.label(linear.target),
        "probability": float(linear.probabilities[0, linear.target]),
        "settings": settings.asked() | {"model": linear.model.name},
    }


class ExplanationBuilder:
    """Scales one input's problem to unit size for the solver, and its solution back to the user's units.

    Args:
        linear: the network around the input.
        gradient: g, flat, float64; averaged for the smooth methods.
        settings: what was asked.

    Attributes:
        unit: the power of two s.
        unit_gradient: g / s.
        penalty: what lambda1 multiplies.
        dtype: the precision of the maps.
    """

    def __init__(self, linear: Linearisation, gradient: Tensor, settings: Settings) -> None:
        """Choose the unit and the penalty."""
        self.linear, self.gradient, self.settings = linear, gradient, settings
        largest = float(gradient.abs().max())
        self.unit = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        self.unit_gradient = gradient / self.unit
        self.shape, self.dtype = linear.x.shape[1:], linear.x.dtype
        self.groups = group_labels(settings.groups, linear.x[0])
        self.penalty = penalty_of(None if self.groups is None else self.groups.to(gradient.device))

    def rule(self) -> LambdaRule:
        """Make the rule that chooses lambda1, in the units of `unit_gradient`."""
        settings, unit = self.settings, self.unit
        wanted, sparsity = settings.lambda1, settings.sparsity_range
        if wanted == "paper":
            return PaperRule(sparsity, PAPER_START / unit)
        if isinstance(wanted, tuple):
            return HighestLossRule(sparsity, tuple(value / unit for value in wanted))
        smallest = settings.path_smallest or self.penalty.path_end(self.unit_gradient)
        if isinstance(wanted, str):
            return KneeRule(sparsity, settings.path_points, smallest)
        return FixedRule(sparsity, settings.path_points, smallest, float(wanted) / unit)

    def sparsity(self, delta: Tensor) -> float:
        """Count the zeros of a flat map: pixels, or groups."""
        return zero_share(delta.cpu().reshape(self.shape), self.groups)

    def explanation(self, path: Path, notes: list[str], **more: Any) -> Explanation:
        """Write the result.

        Args:
            path: the solver's points, the chosen one among them.
            notes: the solver's notes.
            more: the fields of an Explanation that the method decides.
        """
        point, unit = path.chosen, self.unit
        lambda1_max = self.penalty.lambda1_max(self.unit_gradient)
        small = self.dtype == torch.float32 and unit < SMALLEST_FLOAT32
        dtype = torch.float64 if small else self.dtype
        all_notes = [*self.linear.all_notes(), *notes]
        if small:
            all_notes.append("the map is too small for float32: it is returned in float64")
        all_notes += self._notes(point, lambda1_max)
        if path.note is not None:
            all_notes.append(path.note)
        certificate = point.certificate
        nothing = torch.zeros(self.shape, dtype=torch.bool)
        return Explanation(
            **facts_of(self.linear, self.settings),
            delta=self._map(point, dtype),
            gradient=self._shaped(self.gradient, dtype),
            lambda1=point.lambda1 * unit,
            lambda1_max=lambda1_max * unit,
            sparsity=point.sparsity,
            gap=math.inf if certificate is None else certificate.gap * unit**2,
            relative_gap=math.inf if certificate is None else certificate.relative_gap,
            support=Support(nothing, nothing) if certificate is None else self._support(certificate.support),
            path=tuple(self._path_point(p, dtype) for p in path.points),
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
        # Scaling by a power of two is exact.
        delta = self._shaped(point.delta.to(dtype) * self.unit, dtype)
        return delta * self.linear.x[0].cpu() if self.settings.times_input else delta

    def _shaped(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        return flat.to(dtype).cpu().reshape(self.shape)

    def _support(self, support: Support) -> Support:
        return Support(support.nonzero.cpu().reshape(self.shape), support.zero.cpu().reshape(self.shape))
