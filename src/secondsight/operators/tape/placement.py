"""Which dimension of each tensor runs over the inputs of the network. This dimension is said to count the inputs.

In most tensors it is dimension 0. Attention moves it behind the tokens, (tokens, inputs, features), and then joins both
dimensions to (tokens * inputs, features). The tangent of a tensor always counts the inputs first. It has the tensors
that the network would have for each input alone, one after the other in dimension 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

from torch import Tensor


@dataclass(frozen=True)
class Placement:
    """Where the shape of a tensor counts the inputs of the network.

    If there is only one input, it cannot be mixed with others. It then counts as first, wherever the network moves it.

    Attributes:
        inputs: the number of inputs.
        axis: the dimension that counts them. The network may have joined it from three dimensions: `before` parts, such
            as tokens; the inputs; and parts of each input, such as attention heads.
        before: the length of the first of the three; 1 if there is none.
    """

    inputs: int
    axis: int = 0
    before: int = 1

    @property
    def is_first(self) -> bool:
        """Whether nothing comes before the inputs."""
        return self.axis == 0 and self.before == 1

    def mixes(self, dim: int) -> bool:
        """Whether an operation along this dimension may mix inputs."""
        return self.inputs > 1 and dim == self.axis

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape may count the inputs here."""
        return self.axis < len(shape) and shape[self.axis] % (self.before * self.inputs) == 0

    def of_one(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that the tensor would have for a single input."""
        return tuple(length // self.inputs if dim == self.axis else length for dim, length in enumerate(shape))

    def first(self, tensor: Tensor) -> Tensor:
        """Arrange the entries of a tensor as in its tangent: the inputs first, in dimension 0."""
        if self.is_first:
            return tensor
        split: Tensor = tensor.unflatten(self.axis, (self.before, self.inputs, -1))
        return split.movedim(self.axis + 1, 0).reshape(-1, *self.of_one(tensor.shape)[1:])

    def viewed(self, shape: Sequence[int], result: Sequence[int]) -> Self | None:
        """Find the inputs after a view with another shape. None: no dimension counts them."""
        entries = prod(shape[: self.axis]) * self.before
        for dim in range(len(result)):
            if entries % prod(result[:dim]) != 0:
                return None
            found = replace(self, axis=dim, before=entries // prod(result[:dim]))
            if found.fits(result):
                return found
        return None

    def permuted(self, dims: Sequence[int]) -> Self:
        """Find the inputs after a permutation of the dimensions."""
        return self._at(list(dims).index(self.axis), self.before)

    def without(self, dims: Sequence[int]) -> Self:
        """Find the inputs after these dimensions are taken away."""
        return self._at(self.axis - sum(dim < self.axis for dim in dims), self.before)

    def _at(self, axis: int, before: int) -> Self:
        return self if self.inputs == 1 else replace(self, axis=axis, before=before)
