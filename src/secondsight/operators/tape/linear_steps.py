"""The linear steps that a piecewise-linear network is made of at given inputs: each with its transpose.

Steps that move entries, and steps that autograd transposes, are in moving_steps.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from secondsight.devices import policy

Bend = Callable[..., tuple[Tensor, ...]]
"""From the tangents of a step's inputs, or of its result, to its curvature terms: one to add to the tangent of each
input's adjoint."""

aten = torch.ops.aten
"""Torch's own operations, as the recorder sees them."""


def layout(tensor: Tensor) -> torch.memory_format:
    """Choose the memory format of images."""
    last = tensor.ndim == 4 and policy(tensor.device).channels_last
    return torch.channels_last if last else torch.contiguous_format


def by_direction(tangent: Tensor, rows: int) -> Tensor:
    """View a tangent with a dimension of its own for the directions, if there are several. Each has `rows` rows."""
    return tangent if tangent.shape[0] == rows else tangent.view(-1, rows, *tangent.shape[1:])


def own(tensor: Tensor) -> Tensor:
    """Copy a view of a larger tensor, so that keeping it does not keep the larger one."""
    return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor


def by_row(tangent: Tensor, like: Tensor) -> Tensor:
    """Undo `by_direction`: dimension 0 runs over the rows of all directions again, as it does in `like`."""
    if tangent.ndim == like.ndim:
        return tangent
    result = tangent.flatten(0, 1)
    if result.shape[0] > 1 or result.ndim != 4:
        return result
    # A dimension of length 1 may have any stride. But torch takes an image for channels last only if the stride of
    # dimension 0 is the largest. Otherwise each convolution would copy it.
    return result.as_strided(result.shape, (result.numel(), *result.stride()[1:]))


class Step:
    """A linear map of tangents, and its transpose.

    Dimension 0 of a tangent runs over directions, for each direction over inputs, and for each input perhaps over its
    parts. This does not depend on which dimension of the network's own tensor runs over the inputs (placement.py).

    Attributes:
        curved: whether the map changes as the input moves. If so, `bend` computes the change (curved_steps.py).
        bends_by_result: whether its bend takes the tangent of the result instead of those of the inputs.
        shape_only: whether the step follows from the shapes of its input and output alone.
        nbytes: the bytes that were written down for these inputs. Weights belong to the network.
        scale: what the step multiplies its input with, if that is all that it does.
    """

    curved = False
    bends_by_result = False
    shape_only = False
    nbytes = 0
    scale: Tensor | float | None = None

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Apply the map. `may_overwrite`: the first tangent may be overwritten."""
        raise NotImplementedError

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Apply the transpose: one cotangent for each input. `may_overwrite`: the given one may be overwritten."""
        raise NotImplementedError

    def bend(self, adjoint: Tensor) -> Bend:
        """Return how the transpose, applied to this adjoint of the result, changes as the step's inputs move."""
        raise NotImplementedError

    def bent(self) -> Step:
        """Return the step without what only `bend` needs, so that memory is freed."""
        return self

    def tensors(self) -> list[Tensor]:
        """List the tensors that the step holds."""
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def joined(self, others: Sequence[Any]) -> Step | None:
        """Join with the same step at other inputs. None: the steps differ."""
        return self if all(alike(a, b) for other in others for a, b in _pairs(self, other)) else None

    def split(self, inputs: int) -> Sequence[Step]:
        """Cut into one step for each input. `inputs` is their number."""
        return [self] * inputs

    def followed_by_scale(self, factor: Tensor) -> Step | None:
        """Make one step of this one and a scale after it, with weights of its own. None: this step has no weights."""
        return None

    def after_scale(self, factor: Tensor | float) -> Step | None:
        """Make one step of a scale and this one after it, with no more memory than this one. None: it takes more."""
        return None


def _pairs(a: Step, b: Step) -> Iterator[tuple[Any, Any]]:
    return zip(vars(a).values(), vars(b).values(), strict=True)


def alike(a: Any, b: Any) -> bool:
    """Whether two fields are equal. Functions count as equal, because their steps come from the same operation."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.shape == b.shape and torch.equal(a, b))
    return callable(a) or bool(a == b)


@dataclass(eq=False)
class Convolution(Step):
    """A convolution without its bias."""

    weight: Tensor
    shape: tuple[int, ...]
    settings: tuple[Any, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Convolve."""
        return torch.convolution(tangents[0], self.weight, None, *self.settings)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Convolve with the transposed kernels."""
        # Only the shape and the layout of `like` matter: its memory is neither read nor written.
        shape, mask = (len(cotangent), *self.shape), (True, False, False)
        like = torch.empty(shape, dtype=cotangent.dtype, device=cotangent.device, memory_format=layout(cotangent))
        gradients = aten.convolution_backward(cotangent, like, self.weight, None, *self.settings, mask)
        return (gradients[0],)

    def followed_by_scale(self, factor: Tensor) -> Step | None:
        """Scale the weights of each output channel. None: transposed, so the weights begin with the input channels."""
        is_transposed = bool(self.settings[3])
        return None if is_transposed else _with_scaled_weight(self, factor)


@dataclass(eq=False)
class Pointwise(Step):
    """A convolution by kernels of one pixel, as a product of matrices, which is faster on the CPU."""

    weight: Tensor
    shape: tuple[int, ...]
    stride: tuple[int, int]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Multiply the channels of each pixel with the weights."""
        pixels = tangents[0].permute(0, 2, 3, 1)
        if self.stride != (1, 1):
            down, right = self.stride
            pixels = pixels[:, ::down, ::right]
        return (pixels @ self.weight.flatten(1).T).permute(0, 3, 1, 2)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Multiply the channels of each pixel with the transposed weights."""
        pixels = cotangent.permute(0, 2, 3, 1) @ self.weight.flatten(1)
        if self.stride != (1, 1):
            down, right = self.stride
            kept, pixels = pixels, pixels.new_zeros(len(pixels), *self.shape[1:], pixels.shape[-1])
            pixels[:, ::down, ::right] = kept
        return (pixels.permute(0, 3, 1, 2),)

    def followed_by_scale(self, factor: Tensor) -> Step | None:
        """Scale the weights of each output channel."""
        return _with_scaled_weight(self, factor)


def _with_scaled_weight(step: Convolution | Pointwise, factor: Tensor) -> Step | None:
    is_of_channels = factor.shape == (len(step.weight), *[1] * (step.weight.ndim - 2))
    if not is_of_channels:
        return None
    weight = step.weight.detach() * factor[:, None]
    return replace(step, weight=weight.contiguous(memory_format=layout(weight)))


@dataclass(eq=False)
class Product(Step):
    """Rows times a fixed matrix."""

    matrix: Tensor

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Multiply with the matrix."""
        return tangents[0] @ self.matrix

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Multiply with the transposed matrix."""
        return (cotangent @ self.matrix.T,)


@dataclass(eq=False)
class FixedMatrices(Step):
    """Products of matrices, of which one factor is fixed.

    Attributes:
        matrices: the fixed factors: one for each part of an input in dimension 0, or one for all parts.
        left: whether the fixed factors stand on the left.
    """

    matrices: Tensor
    left: bool

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Multiply with the matrices."""
        parts = by_direction(tangents[0], len(self.matrices))
        return by_row(self.matrices @ parts if self.left else parts @ self.matrices, self.matrices)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Multiply with the transposed matrices."""
        parts = by_direction(cotangent, len(self.matrices))
        return (by_row(self.matrices.mT @ parts if self.left else parts @ self.matrices.mT, self.matrices),)


@dataclass(eq=False)
class Scale(Step):
    """Multiplication with fixed numbers."""

    factor: Tensor | float

    @property
    def scale(self) -> Tensor | float:  # type: ignore[override]
        """The fixed numbers."""
        return self.factor

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Multiply."""
        return tangents[0].mul_(self.factor) if may_overwrite else tangents[0] * self.factor

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Multiply, because a diagonal is its own transpose."""
        return (self.forward(may_overwrite, cotangent),)


@dataclass(eq=False)
class Mean(Step):
    """A sum along some dimensions, times a fixed number.

    Attributes:
        factor: the number. For a mean it is 1 / the number of terms.
        dims: the dimensions, counted from the end of the input.
        before: the shape of a row of the input.
        after: the shape of a row of the result.
    """

    factor: float
    dims: list[int]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Sum."""
        return tangents[0].sum(self.dims, keepdim=True).mul_(self.factor).reshape(-1, *self.after)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Give each term the same."""
        lengths = list(self.before)
        for dim in self.dims:
            lengths[dim] = 1
        return ((cotangent * self.factor).reshape(-1, *lengths).expand(-1, *self.before),)


@dataclass(eq=False)
class Mask(Step):
    """ReLU, leaky ReLU and clamps: times one where `passed` is 1, times `slope` where it is 0.

    `passed` is int8, because torch is slow with booleans.
    """

    passed: Tensor
    slope: float = 0.0

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the mask."""
        return self.passed.nbytes

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Let entries pass, or multiply them with the slope."""
        tangent = by_direction(tangents[0], self.passed.shape[0])
        if self.slope != 0:
            result = torch.add(tangent * self.slope, tangent * self.passed, alpha=1 - self.slope)
        else:
            result = tangent.mul_(self.passed) if may_overwrite else tangent * self.passed
        return by_row(result, self.passed)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Do the same, because a diagonal is its own transpose."""
        return (self.forward(may_overwrite, cotangent),)

    def joined(self, others: Sequence[Mask]) -> Step | None:
        """Join the masks. None: the slopes differ."""
        alike = all(other.slope == self.slope for other in others)
        return replace(self, passed=torch.cat([step.passed for step in (self, *others)])) if alike else None

    def split(self, inputs: int) -> Sequence[Step]:
        """Cut the mask."""
        return [replace(self, passed=passed) for passed in self.passed.chunk(inputs)]


@dataclass(eq=False)
class Gather(Step):
    """Max-pooling: `index` (inputs, new pixels, channels) numbers the old pixels. Channels come last: see `layout`."""

    index: Tensor
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of the index."""
        return self.index.nbytes

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Pick the entries that were largest."""
        flat = self._flat(tangents[0])
        return self._planes(flat.gather(2, self._index(flat)), self.after)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Add each entry to the one that it was picked from."""
        flat = self._flat(cotangent)
        total = flat.new_zeros(*flat.shape[:2], prod(self.before[1:]), self.before[0])
        return (self._planes(total.scatter_add_(2, self._index(flat), flat), self.before),)

    def joined(self, others: Sequence[Gather]) -> Step:
        """Join the indices."""
        return replace(self, index=torch.cat([step.index for step in (self, *others)]))

    def split(self, inputs: int) -> Sequence[Step]:
        """Cut the index."""
        return [replace(self, index=index) for index in self.index.chunk(inputs)]

    def _flat(self, planes: Tensor) -> Tensor:
        """(directions, inputs, pixels, channels)."""
        flat = planes.movedim(1, -1).flatten(1, 2)
        return flat.view(-1, len(self.index), *flat.shape[1:])

    def _planes(self, flat: Tensor, shape: tuple[int, ...]) -> Tensor:
        return flat.reshape(-1, *shape[1:], shape[0]).movedim(-1, 1)

    def _index(self, flat: Tensor) -> Tensor:
        return self.index.expand(len(flat), *self.index.shape)


@dataclass(eq=False)
class Add(Step):
    """a + alpha b. `spread` lists the dimensions along which a and b are repeated."""

    alpha: float
    spread: tuple[list[int], list[int]]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Add the two tangents."""
        a, b = tangents
        if may_overwrite and not self.spread[0]:
            return a.add_(b, alpha=self.alpha)
        return torch.add(a, b, alpha=self.alpha)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Sum the cotangent over repeated dimensions, for a and for b."""
        a, b = (cotangent.sum(dims, keepdim=True) if dims else cotangent for dims in self.spread)
        return a, b if self.alpha == 1 else b * self.alpha
