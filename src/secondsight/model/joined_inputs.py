"""A network of several inputs as a network of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from secondsight.errors import InputError

HALF = (torch.float16, torch.bfloat16)
"""Types whose products have too few digits for a certificate: such networks are computed in float32."""


class JoinedInputs(nn.Module):
    """A network of several inputs as a network of one input, which holds the entries of all parts, flat.

    Args:
        net: a module, or any function of several batches.
        shapes: the shapes of the parts of one input, without batch dimension. A part of shape () is one number.
    """

    def __init__(self, net: Callable[..., Tensor], shapes: Sequence[tuple[int, ...]]) -> None:
        """Keep the network, also as a submodule if it is a module."""
        super().__init__()
        self.net = net
        self.shapes = tuple(shapes)
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Join the parts of one input, in the most precise of their types.

        Raises:
            InputError: if the parts do not have the shapes.
        """
        found = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
        if found != list(self.shapes):
            raise InputError("the input", f"tensors of the shapes {list(self.shapes)}", f"of {found}")
        # Concatenation promotes types.
        return torch.cat([part.detach().flatten() for part in parts])

    def split(self, batch: Tensor) -> list[Tensor]:
        """Split a batch of joined inputs into batches of the parts."""
        pieces = batch.split(self.sizes, dim=1)
        return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def forward(self, batch: Tensor) -> Tensor:
        """Map a batch of joined inputs to logits."""
        return self.net(*self.split(batch))
