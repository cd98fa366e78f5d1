"""Linear steps that move entries: shapes, padding, joins. Also any linear operation that autograd can transpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.operators.tape.linear_steps import Step


@dataclass(eq=False)
class Reshape(Step):
    """The same entries in another shape."""

    shape_only = True

    before: tuple[int, ...]
    after: tuple[int, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Give the tangent its new shape."""
        return tangents[0].reshape(-1, *self.after)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Give the cotangent its old shape."""
        return (cotangent.reshape(-1, *self.before),)


@dataclass(eq=False)
class Pad(Step):
    """Padding with a constant."""

    widths: list[int]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Pad with zeros, because the constant has no tangent."""
        return torch.constant_pad_nd(tangents[0], self.widths)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Cut the padding off."""
        return (torch.constant_pad_nd(cotangent, [-width for width in self.widths]),)


@dataclass(eq=False)
class Cat(Step):
    """Pieces joined along `dim`. A piece that does not depend on x has no tangent."""

    dim: int
    lengths: list[int]
    depends: list[bool]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Join the tangents, with zeros for pieces that have none."""
        known = [length for length, depends in zip(self.lengths, self.depends, strict=True) if depends]
        parts = [self._parts(tangent, length) for tangent, length in zip(tangents, known, strict=True)]
        queue, shape = iter(parts), list(parts[0].shape)
        pieces = []
        for length, depends in zip(self.lengths, self.depends, strict=True):
            shape[self._dim] = length
            pieces.append(next(queue) if depends else tangents[0].new_zeros(shape))
        return self._rows(torch.cat(pieces, self._dim))

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Cut the cotangent into pieces."""
        pieces = self._parts(cotangent, sum(self.lengths)).split(self.lengths, self._dim)
        return tuple(self._rows(piece) for piece, depends in zip(pieces, self.depends, strict=True) if depends)

    @property
    def _dim(self) -> int:
        return max(self.dim, 1)

    def _parts(self, tangent: Tensor, length: int) -> Tensor:
        """If pieces are joined along dimension 0, view it as two: directions with inputs, and the parts of an input."""
        return tangent if self.dim else tangent.unflatten(0, (-1, length))

    def _rows(self, tangent: Tensor) -> Tensor:
        return tangent if self.dim else tangent.flatten(0, 1)


@dataclass(eq=False)
class Stack(Cat):
    """Pieces of one shape, stacked: joined along a dimension that is new.

    Attributes:
        before: the shape of a row of a piece.
        widened: the shape of a row of a piece with the new dimension, of length 1.
    """

    before: tuple[int, ...]
    widened: tuple[int, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Give each tangent the new dimension, and join them."""
        return super().forward(False, *(tangent.reshape(-1, *self.widened) for tangent in tangents))

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Cut the cotangent into pieces, and take the new dimension away."""
        return tuple(piece.reshape(-1, *self.before) for piece in super().transpose(False, cotangent))


@dataclass(eq=False)
class ByAutograd(Step):
    """Any other linear operation. Autograd transposes it."""

    function: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Apply the operation itself."""
        return self.function(tangents[0])

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Let autograd transpose the operation."""
        return (_transposed(self.function, self.shape, cotangent),)


@dataclass(eq=False)
class OnEach(Step):
    """A linear operation on the tensor of each input. Autograd transposes it.

    Attributes:
        function: takes the tensors of all inputs, (inputs, *before), and gives (inputs, *after).
        before: the shape that the operation takes for a single input.
        after: the shape that it gives for a single input.
        fixed: a tensor that the operation also takes, such as an index. Tapes with other ones are not joined.
    """

    function: Callable[[Tensor], Tensor]
    before: tuple[int, ...]
    after: tuple[int, ...]
    fixed: Tensor | None = None

    def forward(self, may_overwrite: bool, *tangents: Tensor) -> Tensor:
        """Apply the operation itself."""
        return self.function(_each(tangents[0], self.before)).flatten(0, 1)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Let autograd transpose the operation."""
        return (_transposed(self.function, self.before, _each(cotangent, self.after)).flatten(0, 1),)


def _each(tangent: Tensor, shape: tuple[int, ...]) -> Tensor:
    """View a tangent as the tensors of single inputs. Torch cannot find their number if they are empty."""
    return tangent.reshape(len(tangent) // max(shape[0], 1), *shape)


def _transposed(function: Callable[[Tensor], Tensor], shape: tuple[int, ...], cotangent: Tensor) -> Tensor:
    with torch.enable_grad():
        tangent = cotangent.new_zeros(1).expand(len(cotangent), *shape).requires_grad_()
        return torch.autograd.grad(function(tangent), tangent, cotangent)[0]
