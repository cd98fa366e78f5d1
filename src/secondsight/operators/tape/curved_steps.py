"""Curved steps: the tangent map, its transpose, and the change of the transpose as the input moves (the bend).

For y = F(a) with adjoint ybar (of the score whose Hessian is wanted, fixed at x), tangent a' and tangent ybar' of the
adjoint, the tangent of the adjoint of a is

    abar' = J' ybar' + (sum_j ybar_j Hessian of F_j) a'

where J is the Jacobian of F at a. The first term is the transpose of the step. The second is what `bend` computes. It
is the only part that a Gauss-Newton matrix leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import torch
from torch import Tensor

from secondsight.operators.tape.linear_steps import Bend, Step, alike, by_direction, by_row


@dataclass(eq=False)
class AtInputs(Step):
    """A step whose tensors have a row (or several) for each input."""

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of what was written down for these inputs."""
        return sum(tensor.nbytes for tensor in self._rows().values())

    def _rows(self) -> dict[str, Tensor]:
        """The tensors that belong to the inputs, by name. Weights have other names."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("weight") is None}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def joined(self, others: Sequence[Self]) -> Step | None:
        """Join the rows. None: another field differs."""
        rows = self._rows()
        rest = [one.name for one in fields(self) if one.name not in rows]
        if any(not alike(getattr(self, name), getattr(other, name)) for other in others for name in rest):
            return None
        steps = (self, *others)
        return replace(self, **{name: torch.cat([getattr(step, name) for step in steps]) for name in rows})

    def split(self, inputs: int) -> Sequence[Step]:
        """Cut the rows."""
        cut = {name: value.chunk(inputs) for name, value in self._rows().items()}
        return [replace(self, **{name: pieces[i] for name, pieces in cut.items()}) for i in range(inputs)]


@dataclass(eq=False)
class Elementwise(AtInputs):
    """y = F(c a), entry by entry.

    Attributes:
        slope: c F'(c a).
        value: c a itself, where F is curved. None after the last bend.
        second: computes F'' from c a. None: F is linear on either side of its kinks.
        scale_before: c. None: 1.
    """

    slope: Tensor
    value: Tensor | None = None
    second: Callable[[Tensor], Tensor] | None = None
    scale_before: Tensor | None = field(default=None, metadata={"weight": True})

    @property
    def curved(self) -> bool:  # type: ignore[override]
        """Whether F has a second derivative."""
        return self.second is not None

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Multiply with c F'."""
        tangent = by_direction(tangents[0], self.slope.shape[0])
        result = tangent.mul_(self.slope) if may_overwrite else tangent * self.slope
        return by_row(result, self.slope)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Do the same, because a diagonal is its own transpose."""
        return (self.forward(may_overwrite, cotangent),)

    def bend(self, adjoint: Tensor) -> Bend:
        """c^2 F''(c a) ybar a'."""
        assert self.second is not None
        assert self.value is not None
        weights = self.second(self.value).mul_(adjoint)
        if self.scale_before is not None:
            weights.mul_(self.scale_before.square())
        return lambda a: (by_row(by_direction(a, weights.shape[0]) * weights, weights),)

    def bent(self) -> Step:
        """Leave out the value."""
        return replace(self, value=None)

    def after_scale(self, factor: Tensor | float) -> Step | None:
        """Scale the slope. None: the scale is a number, or not the first."""
        if self.scale_before is not None or not isinstance(factor, Tensor):
            return None
        return replace(self, slope=self.slope * factor, scale_before=factor)


@dataclass(eq=False)
class Multiply(AtInputs):
    """y = a b, entry by entry. `spread` lists the dimensions along which a and b are repeated."""

    curved = True

    a: Tensor
    b: Tensor
    spread: tuple[list[int], list[int]]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """a'b + ab'."""
        a, b = (by_direction(tangent, len(self.a)) for tangent in tangents)
        return by_row(torch.addcmul(a * self.b, self.a, b), self.a)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """(b ybar, a ybar), summed over repeated dimensions."""
        cotangent = by_direction(cotangent, len(self.a))
        return summed(self.spread, self.a, cotangent * self.b, cotangent * self.a)

    def bend(self, adjoint: Tensor) -> Bend:
        """(ybar b', ybar a')."""

        def bent(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            a, b = (by_direction(tangent, len(adjoint)) for tangent in (a, b))
            return summed(self.spread, adjoint, adjoint * b, adjoint * a)

        return bent


@dataclass(eq=False)
class Quotient(AtInputs):
    """y = a / b, entry by entry. `spread` lists the dimensions along which a and b are repeated."""

    curved = True

    y: Tensor
    b: Tensor
    spread: tuple[list[int], list[int]]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """(a' - y b') / b."""
        a, b = (by_direction(tangent, len(self.b)) for tangent in tangents)
        return by_row((a - self.y * b) / self.b, self.b)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """(ybar / b, -y ybar / b), summed over repeated dimensions."""
        weights = by_direction(cotangent, len(self.b)) / self.b
        return summed(self.spread, self.b, weights, -self.y * weights)

    def bend(self, adjoint: Tensor) -> Bend:
        """(-w b', w (2 y b' - a')) with w = ybar / b^2."""
        weights = adjoint / self.b**2

        def bent(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            a, b = (by_direction(tangent, len(adjoint)) for tangent in (a, b))
            return summed(self.spread, adjoint, -weights * b, weights * (2 * self.y * b - a))

        return bent


def summed(spread: tuple[list[int], list[int]], like: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Sum the parts of an adjoint over the dimensions along which its tensors are repeated. `like` has their rows."""
    pairs = zip((by_row(part, like) for part in parts), spread, strict=True)
    return tuple(part.sum(dims, keepdim=True) if dims else part for part, dims in pairs)


@dataclass(eq=False)
class WeightedSum(AtInputs):
    """y = <u, a>, a sum along some dimensions with fixed weights, such as the choice of the largest entry.

    Attributes:
        u: the weights.
        dims: the dimensions, counted from the end of a.
        shape: the shape of a row of the result.
    """

    u: Tensor
    dims: list[int]
    shape: tuple[int, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """<u, a'>."""
        return self._along(by_direction(tangents[0], len(self.u))).reshape(-1, *self.shape)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """u ybar."""
        return (by_row(self.u * self._spread(cotangent), self.u),)

    def _along(self, values: Tensor) -> Tensor:
        return (self.u * values).sum(self.dims, keepdim=True)

    def _spread(self, sums: Tensor) -> Tensor:
        """View sums with a dimension for the directions, and with a length of 1 in the dimensions of the sum."""
        lengths = list(self.u.shape)
        for dim in self.dims:
            lengths[dim] = 1
        return sums.reshape(-1, *lengths)


@dataclass(eq=False)
class Norm(WeightedSum):
    """y = |a|, the square root of a sum of squares.

    Attributes:
        u: a / |a|.
        inverse: 1 / |a|, with a length of 1 in the dimensions that are summed.
    """

    curved = True

    inverse: Tensor

    def bend(self, adjoint: Tensor) -> Bend:
        """(a' - u <u, a'>) ybar / |a|."""
        weights = adjoint.reshape(self.inverse.shape) * self.inverse

        def bent(a: Tensor) -> tuple[Tensor, ...]:
            tangent = by_direction(a, len(self.u))
            return (by_row(torch.addcmul(tangent, self.u, self._along(tangent), value=-1).mul_(weights), self.u),)

        return bent


@dataclass(eq=False)
class Variance(WeightedSum):
    """y = factor |a - mean|^2 / 2.

    Attributes:
        u: factor (a - mean).
        factor: 2 / (the number of entries, perhaps less 1).
    """

    curved = True

    factor: float

    def bend(self, adjoint: Tensor) -> Bend:
        """factor (a' - mean a') ybar."""
        weights = self._spread(adjoint)[0] * self.factor

        def bent(a: Tensor) -> tuple[Tensor, ...]:
            tangent = by_direction(a, len(self.u))
            return (by_row((tangent - tangent.mean(self.dims, keepdim=True)).mul_(weights), self.u),)

        return bent


@dataclass(eq=False)
class MatrixProducts(AtInputs):
    """Y = AB for each of many matrices."""

    curved = True

    a: Tensor
    b: Tensor

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """A'B + AB'."""
        a, b = (by_direction(tangent, len(self.a)) for tangent in tangents)
        return by_row(a @ self.b + self.a @ b, self.a)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """(Ybar B^T, A^T Ybar)."""
        cotangent = by_direction(cotangent, len(self.a))
        return by_row(cotangent @ self.b.mT, self.a), by_row(self.a.mT @ cotangent, self.a)

    def bend(self, adjoint: Tensor) -> Bend:
        """(Ybar B'^T, A'^T Ybar)."""

        def bent(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            a, b = (by_direction(tangent, len(adjoint)) for tangent in (a, b))
            return by_row(adjoint @ b.mT, adjoint), by_row(a.mT @ adjoint, adjoint)

        return bent


@dataclass(eq=False)
class Softmax(AtInputs):
    """s = softmax(a) along one dimension, counted from the end."""

    curved = True
    bends_by_result = True

    s: Tensor
    dim: int

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """s (a' - <s, a'>)."""
        return by_row(self._times(by_direction(tangents[0], len(self.s))), self.s)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Do the same, because the matrix is symmetric."""
        return (self.forward(may_overwrite, cotangent),)

    def bend(self, adjoint: Tensor) -> Bend:
        """s' (ybar - <s, ybar>) - s <s', ybar>."""
        centred = adjoint - self._mean(adjoint)

        def bent(change: Tensor) -> tuple[Tensor, ...]:
            # <s', ybar> = <s', ybar - <s, ybar>>, because the entries of s' add up to 0.
            bent = by_direction(change, len(self.s)) * centred
            return (by_row(torch.addcmul(bent, self.s, bent.sum(self.dim, keepdim=True), value=-1), self.s),)

        return bent

    def _mean(self, values: Tensor) -> Tensor:
        return (self.s * values).sum(self.dim, keepdim=True)

    def _times(self, values: Tensor) -> Tensor:
        weighted = self.s * values
        return torch.addcmul(weighted, self.s, weighted.sum(self.dim, keepdim=True), value=-1)


@dataclass(eq=False)
class Normalise(AtInputs):
    """Layer and group norm: y = w z with z = (a - mean) / sd, over the last dimension of a view of a.

    Attributes:
        z: the normalised values, in the view.
        inverse: 1 / sd.
        weight: w, in the view, or None for 1.
        view: the shape of one row of the view.
    """

    curved = True

    z: Tensor
    inverse: Tensor
    view: tuple[int, ...]
    weight: Tensor | None = field(default=None, metadata={"weight": True})

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """w (a' - mean a' - z mean(z a')) / sd."""
        return self._weighted(self._centred(self._viewed(tangents[0]))).reshape(tangents[0].shape)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """The same with w first, because the rest is symmetric."""
        return (self._centred(self._weighted(self._viewed(cotangent))).reshape(cotangent.shape),)

    def bend(self, adjoint: Tensor) -> Bend:
        """-(z' q + z (mean(u z') - q m) + u m) / sd. Here m = mean(z a') / sd, q = mean(u z), u = w ybar - its mean."""
        u = self._weighted(self._viewed(adjoint))[0]
        u = u - _mean(u)
        q = _mean(u * self.z)

        def bent(a: Tensor) -> tuple[Tensor, ...]:
            tangent = self._viewed(a)
            change, m = self._centred(tangent), _mean(self.z * tangent) * self.inverse
            total = (change * q).addcmul_(self.z, _mean(u * change) - q * m).addcmul_(u, m)
            return (total.mul_(-self.inverse).reshape(a.shape),)

        return bent

    def _viewed(self, values: Tensor) -> Tensor:
        return values.reshape(-1, len(self.z), *self.view)

    def _weighted(self, values: Tensor) -> Tensor:
        return values if self.weight is None else values * self.weight

    def _centred(self, values: Tensor) -> Tensor:
        return (values - _mean(values)).addcmul_(self.z, _mean(self.z * values), value=-1).mul_(self.inverse)


def _mean(values: Tensor) -> Tensor:
    return values.mean(-1, keepdim=True)
