"""The linear steps that a piecewise-linear network is made of at given inputs: each with its transpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def layout(tensor: Tensor) -> torch.memory_format:
    """How pictures lie in memory. On the CPU, transposed convolutions are up to three times as fast, channels last."""
    last = tensor.ndim == 4 and tensor.device.type == "cpu"
    return torch.channels_last if last else torch.contiguous_format


def by_direction(tangent: Tensor, rows: int) -> Tensor:
    """A view with a dimension of its own for the directions; of each there are so many rows."""
    return tangent.view(-1, rows, *tangent.shape[1:])


class Step:
    """A linear map of tangents, and its transpose.

    Dimension 0 of a tangent counts directions, within them inputs (within them, perhaps, parts of an input). `spare`:
    the first tangent may be overwritten.
    """

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        raise NotImplementedError

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def tensors(self) -> list[Tensor]:
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def joined(self, others: Sequence[Any]) -> Step | None:
        """This step at the inputs of others of its kind too. None: it is another one there."""
        return self if all(_alike(a, b) for other in others for a, b in _pairs(self, other)) else None

    def split(self, inputs: int) -> Sequence[Step]:
        """This step at each of so many inputs by itself."""
        return [self] * inputs


def _pairs(a: Step, b: Step) -> Iterator[tuple[Any, Any]]:
    return zip(vars(a).values(), vars(b).values(), strict=True)


def _alike(a: Any, b: Any) -> bool:
    """Whether two fields say the same. Functions do, for their steps come from the same operation."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.shape == b.shape and torch.equal(a, b))
    return callable(a) or bool(a == b)


@dataclass(eq=False)
class Convolution(Step):
    weight: Tensor
    shape: tuple[int, ...]
    settings: tuple[Any, ...]

    @property
    def transposed(self) -> bool:
        """Whether its weights count the channels that come in first."""
        return bool(self.settings[3])

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return torch.convolution(tangents[0], self.weight, None, *self.settings)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        # Only its shape and layout matter: nobody reads or writes this memory.
        shape, mask = (len(cotangent), *self.shape), (True, False, False)
        like = torch.empty(shape, dtype=cotangent.dtype, device=cotangent.device, memory_format=layout(cotangent))
        gradients = aten.convolution_backward(cotangent, like, self.weight, None, *self.settings, mask)
        return (gradients[0],)


@dataclass(eq=False)
class Pointwise(Step):
    """A convolution by kernels of one pixel, as the product of matrices that it is: faster on the CPU."""

    weight: Tensor
    shape: tuple[int, ...]
    stride: tuple[int, int]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        down, right = self.stride
        return _times(tangents[0].movedim(1, -1)[:, ::down, ::right], self.weight.flatten(1).T).movedim(-1, 1)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        down, right = self.stride
        pixels = _times(cotangent.movedim(1, -1), self.weight.flatten(1))
        if self.stride != (1, 1):
            kept, pixels = pixels, pixels.new_zeros(len(pixels), *self.shape[1:], pixels.shape[-1])
            pixels[:, ::down, ::right] = kept
        return (pixels.movedim(-1, 1),)


def _times(pixels: Tensor, matrix: Tensor) -> Tensor:
    return (pixels.flatten(0, -2) @ matrix).view(*pixels.shape[:-1], -1)


@dataclass(eq=False)
class Product(Step):
    """Rows times a fixed matrix."""

    matrix: Tensor

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return tangents[0] @ self.matrix

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        return (cotangent @ self.matrix.T,)


@dataclass(eq=False)
class Scale(Step):
    factor: Tensor | float

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return tangents[0].mul_(self.factor) if spare else tangents[0] * self.factor

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        return (self.forward(spare, cotangent),)


@dataclass(eq=False)
class Mask(Step):
    """ReLU and its kin: times one where `passed` is 1, times `slope` where it is 0 (int8: torch is slow with bool)."""

    passed: Tensor
    slope: float = 0.0

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        tangent = by_direction(tangents[0], len(self.passed))
        if self.slope != 0:
            result = torch.add(tangent * self.slope, tangent * self.passed, alpha=1 - self.slope)
        else:
            result = tangent.mul_(self.passed) if spare else tangent * self.passed
        return result.flatten(0, 1)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        return (self.forward(spare, cotangent),)

    def joined(self, others: Sequence[Mask]) -> Step | None:
        alike = all(other.slope == self.slope for other in others)
        return replace(self, passed=torch.cat([step.passed for step in (self, *others)])) if alike else None

    def split(self, inputs: int) -> Sequence[Step]:
        return [replace(self, passed=passed) for passed in self.passed.chunk(inputs)]


@dataclass(eq=False)
class Gather(Step):
    """Max-pooling: `index` (inputs, new pixels, channels) counts old pixels. The channels come last: see `layout`."""

    index: Tensor
    before: tuple[int, ...]
    after: tuple[int, ...]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        flat = self._flat(tangents[0])
        return self._planes(flat.gather(2, self._index(flat)), self.after)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        flat = self._flat(cotangent)
        total = flat.new_zeros(*flat.shape[:2], prod(self.before[1:]), self.before[0])
        return (self._planes(total.scatter_add_(2, self._index(flat), flat), self.before),)

    def joined(self, others: Sequence[Gather]) -> Step:
        return replace(self, index=torch.cat([step.index for step in (self, *others)]))

    def split(self, inputs: int) -> Sequence[Step]:
        return [replace(self, index=index) for index in self.index.chunk(inputs)]

    def _flat(self, planes: Tensor) -> Tensor:
        """(directions, inputs, pixels, channels)."""
        return by_direction(planes.movedim(1, -1).flatten(1, 2), len(self.index))

    def _planes(self, flat: Tensor, shape: tuple[int, ...]) -> Tensor:
        return flat.reshape(-1, *shape[1:], shape[0]).movedim(-1, 1)

    def _index(self, flat: Tensor) -> Tensor:
        return self.index.expand(len(flat), *self.index.shape)


@dataclass(eq=False)
class Reshape(Step):
    before: tuple[int, ...]
    after: tuple[int, ...]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return tangents[0].reshape(-1, *self.after)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        return (cotangent.reshape(-1, *self.before),)


@dataclass(eq=False)
class Pad(Step):
    widths: list[int]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return torch.constant_pad_nd(tangents[0], self.widths)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        return (torch.constant_pad_nd(cotangent, [-width for width in self.widths]),)


@dataclass(eq=False)
class Add(Step):
    """a + alpha b; `spread` are the dimensions along which each of them is repeated."""

    alpha: float
    spread: tuple[list[int], list[int]]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        a, b = tangents
        if spare and not self.spread[0]:
            return a.add_(b, alpha=self.alpha)
        return torch.add(a, b, alpha=self.alpha)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        a, b = (cotangent.sum(dims, keepdim=True) if dims else cotangent for dims in self.spread)
        return a, b if self.alpha == 1 else b * self.alpha


@dataclass(eq=False)
class Cat(Step):
    """Joined along `dim`; a piece that does not depend on x has no tangent."""

    dim: int
    lengths: list[int]
    depends: list[bool]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        queue, shape = iter(tangents), list(tangents[0].shape)
        pieces = []
        for length, depends in zip(self.lengths, self.depends, strict=True):
            shape[self.dim] = length
            pieces.append(next(queue) if depends else tangents[0].new_zeros(shape))
        return torch.cat(pieces, self.dim)

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        pieces = cotangent.split(self.lengths, self.dim)
        return tuple(piece for piece, depends in zip(pieces, self.depends, strict=True) if depends)


@dataclass(eq=False)
class Other(Step):
    """Any other linear operation; autograd transposes it."""

    function: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]

    def forward(self, spare: bool, *tangents: Tensor) -> Tensor:
        return self.function(tangents[0])

    def transpose(self, spare: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            tangent = cotangent.new_zeros(1).expand(len(cotangent), *self.shape).requires_grad_()
            return torch.autograd.grad(self.function(tangent), tangent, cotangent)
