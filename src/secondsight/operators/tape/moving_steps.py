"""The linear steps that move entries, without weights: shapes, padding, joins, and whatever autograd can transpose."""

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
        queue, shape = iter(tangents), list(tangents[0].shape)
        pieces = []
        for length, depends in zip(self.lengths, self.depends, strict=True):
            shape[self.dim] = length
            pieces.append(next(queue) if depends else tangents[0].new_zeros(shape))
        return torch.cat(pieces, self.dim)

    def transpose(self, may_overwrite: bool, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Cut the cotangent into pieces."""
        pieces = cotangent.split(self.lengths, self.dim)
        return tuple(piece for piece, depends in zip(pieces, self.depends, strict=True) if depends)


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
        with torch.enable_grad():
            tangent = cotangent.new_zeros(1).expand(len(cotangent), *self.shape).requires_grad_()
            return torch.autograd.grad(self.function(tangent), tangent, cotangent)
