"""From a request to the solver's problem of unit size, and from the solver's path back to the fields of a result.

The objective is homogeneous: with g = s u and lambda1 = s l the optimal map is s times that of (u, l), and objectives
are s^2 times theirs. The solver solves for u, so that gradients do not underflow, not even that of a nearly certain
prediction. s is a power of two, so scaling back is exact. Where lambda2 is relative to L or to |g|^2, it shrinks with
g. Then H and lambda2 are divided by a power of two t, too, and the map is s / t times that of the solver.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from secondsight.config import CAFO, CASO, Method
from secondsight.errors import ALL_ZERO, Caution
from secondsight.groups import Grouping, zero_share
from secondsight.operators.linearisation import Linearisation
from secondsight.optim.eigenvalue_bounds import Basis
from secondsight.optim.lambda_choice import PAPER_START, FixedRule, HighestLossRule, KneeRule, LambdaRule, PaperRule
from secondsight.optim.path import Path, Point
from secondsight.optim.problem import C1
from secondsight.optim.proof import Support
from secondsight.optim.softmax_rounding import SoftmaxRounding
from secondsight.request import Request
from secondsight.results.certificate import Certificate
from secondsight.results.explanation import PathPoint, Smoothing

SMALLEST_FLOAT32 = 2.0**-96
"""A float32 map of a smaller gradient is returned in float64: only 30 bits are left above float32's smallest number."""

SMALLEST_UNIT = 2.0**-996
"""Stands for |g|^2 where it underflows, about 1e-300: lambda2 must be positive, and its inverse finite."""

TIMES_INPUT = "the map was multiplied by the input: dark pixels cannot show, whatever they do (appendix D of the paper)"
"""The note on maps that are multiplied by the input."""


def facts_of(linear: Linearisation, request: Request[Method]) -> dict[str, Any]:
    """List the fields of a result that do not depend on the map."""
    return {
        "input": linear.x[0].cpu(),
        "target": linear.target,
        "label": linear.model.label(linear.target),
        "probability": float(linear.probabilities[0, linear.target]),
        "prediction": int(linear.jacobian.logits[0].argmax()),
        "model": linear.model.name,
        "method": request.method,
        "seed": request.seed,
    }


class ResultBuilder:
    """Scales one input's problem to unit size for the solver, and its solution back to the user's units.

    Args:
        linear: the network around the input.
        gradient: g, flat, float64; averaged for the smooth methods.
        request: what was asked.
        grouping: the groups of the entries.
        smoothing: the number of noisy copies and the standard error of their average; None without noise.

    Attributes:
        unit: the power of two s, at most the largest entry of |g|; 1 if g is zero.
        curvature_unit: the power of two t; 1 unless lambda2 is relative to L or to |g|^2.
        unit_gradient: g / s.
        penalty: what lambda1 multiplies.
        dtype: the precision of the maps.
    """

    def __init__(
        self,
        linear: Linearisation,
        gradient: Tensor,
        request: Request[CAFO],
        grouping: Grouping,
        smoothing: Smoothing | None = None,
    ) -> None:
        """Choose the unit and the penalty."""
        self.linear, self.gradient, self.request, self.method = linear, gradient, request, request.method
        largest = float(gradient.abs().max())
        self.unit = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        self.curvature_unit = self._curvature_unit()
        self.unit_gradient = gradient / self.unit
        self.shape, self.dtype = linear.x.shape[1:], linear.x.dtype
        self.groups, self.smoothing = grouping.labels, smoothing
        self.penalty = grouping.penalty(gradient.device)

    def rule(self) -> LambdaRule:
        """Make the rule that chooses lambda1, in the units of `unit_gradient`."""
        method = self.method
        wanted, sparsity = method.lambda1, method.sparsity_range
        if wanted == "paper":
            return PaperRule(sparsity, self._in_units(PAPER_START))
        if isinstance(wanted, Sequence) and not isinstance(wanted, str):
            return HighestLossRule(sparsity, tuple(map(self._in_units, wanted)))
        smallest = method.path_smallest or self.penalty.path_end(self.unit_gradient)
        if wanted == "auto":
            return KneeRule(sparsity, method.path_points, smallest)
        if isinstance(wanted, str):
            return FixedRule(sparsity, method.path_points, smallest, float(wanted.rstrip("%")) / 100, relative=True)
        return FixedRule(sparsity, method.path_points, smallest, self._in_units(float(wanted)))

    def _in_units(self, lambda1: float) -> float:
        """Scale lambda1 to `unit_gradient`. What overflows is far above lambda1_max."""
        return min(lambda1 / self.unit, sys.float_info.max)

    def c1(self) -> C1:
        """Read c1: a number, or relative to L, in the units of `curvature_unit`."""
        wanted, t = self.method.c1, self.curvature_unit
        if isinstance(wanted, str):
            # Scaled back step by step, because the square of a small gradient underflows. If g is 0, any unit will do.
            square = float(self.unit_gradient.square().sum()) * (self.unit / t) * self.unit
            smallest = SMALLEST_UNIT / t
            return C1(float(wanted.rstrip("L")), unit=max(square, smallest) if square or self.unit < 1 else 1.0)
        return C1(wanted)

    def _curvature_unit(self) -> float:
        """Choose t, so that the solver's maps have a size whose square neither overflows nor underflows."""
        method = self.method
        if method.lambda2 is not None or not isinstance(method.c1, str):
            return 1.0
        # As a prediction gets certain, H shrinks with g. Without H, lambda2 is a share of |g|^2.
        return self.unit if isinstance(method, CASO) else max(self.unit * self.unit, SMALLEST_UNIT)

    def softmax_rounding(self, logits: float, uncertainty: float) -> SoftmaxRounding:
        """State the effect of the rounding of logits, in the units of `unit_gradient` and `curvature_unit`.

        Args:
            logits: how far rounding may move a logit.
            uncertainty: 1 - p_y, averaged over noisy copies.
        """
        return SoftmaxRounding(logits, math.sqrt(uncertainty * self.curvature_unit) / self.unit)

    def sparsity(self, delta: Tensor) -> float:
        """Compute the share of zeros of a flat map: of pixels, or of groups."""
        return zero_share(delta.cpu().reshape(self.shape), self.groups)

    def fields(
        self, path: Path, notes: list[str], lambda2: float, tolerance: float, basis: Basis, top_eigenvalue_bound: float
    ) -> dict[str, Any]:
        """List the fields of a SparseExplanation.

        Args:
            path: the solver's points, the chosen one among them.
            notes: the solver's notes.
            lambda2: the weight of |D|^2, in the user's units.
            tolerance: the relative gap that was asked for.
            basis: what the gap rests on.
            top_eigenvalue_bound: the upper bound of L that the gap was computed with.
        """
        point, unit = path.chosen, self.unit
        lambda1_max = self.penalty.lambda1_max(self.unit_gradient)
        small = unit < SMALLEST_FLOAT32 or point.delta.dtype != self.dtype
        small = small and self.dtype == torch.float32
        dtype = torch.float64 if small else self.dtype
        all_notes = [*self.linear.all_notes(), *notes]
        if small:
            all_notes.append("the map is outside float32's range: it is returned in float64")
        all_notes += self._notes(point, lambda1_max)
        if path.note is not None:
            all_notes.append(path.note)
        gap = point.gap
        nothing = torch.zeros(self.shape, dtype=torch.bool, device="cpu")
        certificate = Certificate(
            gap=math.inf if gap is None else gap.gap * self._map_unit * unit,
            relative_gap=math.inf if gap is None else gap.relative_gap,
            tolerance=tolerance,
            basis=basis,
            top_eigenvalue_bound=top_eigenvalue_bound,
            support=Support(nothing, nothing) if gap is None else self._support(gap.support),
        )
        return facts_of(self.linear, self.request) | {
            "certificate": certificate,
            "delta": self._map(point, dtype),
            "gradient": self._shaped(self.gradient, dtype),
            "lambda1": point.lambda1 * unit,
            "lambda1_max": lambda1_max * unit,
            "sparsity": point.sparsity,
            "lambda2": lambda2,
            "path": tuple(self._path_point(p, dtype) for p in path.points),
            "groups": self.groups,
            "window_norms": self._window_norms(point, dtype),
            "smoothing": self.smoothing,
            "notes": tuple(all_notes),
        }

    def _notes(self, point: Point, lambda1_max: float) -> list[str]:
        notes = [f"{TIMES_INPUT}; sparsity, gap and support are those before that"] if self.method.times_input else []
        if lambda1_max == 0:
            note = (
                "the gradient of the loss is zero here: no perturbation matters to first order, and the map is all zero"
            )
            notes.append(Caution(note, ALL_ZERO))
        elif point.lambda1 >= lambda1_max:
            note = f"lambda1 is not below lambda1_max = {lambda1_max * self.unit:.4g}: the map is all zero"
            notes.append(Caution(note, ALL_ZERO))
        return notes

    def _path_point(self, point: Point, dtype: torch.dtype) -> PathPoint:
        return PathPoint(
            lambda1=point.lambda1 * self.unit,
            sparsity=point.sparsity,
            objective=(point.objective.value - point.rounding) * self._map_unit * self.unit,
            relative_gap=None if point.gap is None else point.gap.relative_gap,
            delta=self._map(point, dtype),
            window_norms=self._window_norms(point, dtype),
        )

    @property
    def _map_unit(self) -> float:
        return self.unit / self.curvature_unit

    def _map(self, point: Point, dtype: torch.dtype) -> Tensor:
        # Scaling by a power of two is exact.
        delta = self._shaped(point.delta.to(dtype) * self._map_unit, dtype)
        return delta * self.linear.x[0].cpu() if self.method.times_input else delta

    def _window_norms(self, point: Point, dtype: torch.dtype) -> Tensor | None:
        if point.origin is None:
            return None
        return (self.penalty.pixel_norms(point.origin) * self._map_unit).to(dtype).cpu()

    def _shaped(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        return flat.to(dtype).cpu().reshape(self.shape)

    def _support(self, support: Support) -> Support:
        return Support(support.nonzero.cpu().reshape(self.shape), support.zero.cpu().reshape(self.shape))
