"""The Hessian of the loss in the input at one point: the contract of its implementations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.operators.linearisation import Linearisation


class LossHessian(SymmetricOperator):
    """H at one input, or averaged over several. For use inside `model.ready()`.

    Args:
        linear: the network around the input.

    Attributes:
        kind: what a result calls this Hessian.
    """

    kind: str

    def __init__(self, linear: Linearisation) -> None:
        """Take the network around the input."""
        self.linear = linear

    @property
    def size(self) -> int:
        """The number d of entries of the input."""
        return self.linear.size

    @property
    def gradient(self) -> Tensor:
        """The gradient g of the loss, flat, float64."""
        return self.linear.gradient()

    @property
    def uncertainty(self) -> float:
        """1 - p_y, where p_y is the probability of the target class. It is averaged over the inputs if H is."""
        return float(self.linear.uncertainty)

    def logit_rounding(self, careful: bool) -> float:
        """Estimate how far rounding may move a logit.

        Args:
            careful: also consider large terms that cancel in a logit. This takes a product.
        """
        return self.linear.logit_rounding(careful)

    @property
    def shareable(self) -> bool:
        """Whether products do not run the network, so that the products of several inputs can share a pass."""
        return False

    @property
    def directions(self) -> int:
        """The number of directions, or of inputs with one direction each, that one pass takes efficiently."""
        return 1

    def joined(self, others: Sequence[LossHessian]) -> Self | None:
        """Join with the Hessians at other inputs, so that one pass multiplies each Hessian with its own row.

        None: the Hessians are not of one kind, or one of them cannot share a pass.
        """
        members: list[LossHessian] = [self, *others]
        if not all(member.shareable and member.kind == self.kind for member in members):
            return None
        linear = self.linear.joined([other.linear for other in others])
        return None if linear is None else type(self)(linear)

    def times_own_rows(self, rows: Tensor) -> Tensor:
        """Multiply the H of each input with its own row of an (n, d) tensor, in one pass and without averaging.

        Only where `shareable` is set.
        """
        raise NotImplementedError

    def factor_blocks(self) -> Iterator[Tensor] | None:
        """Iterate over the columns of B with H = BB', some at a time, as rows. None: H has no such factor."""
        return None


def over_inputs(products: Tensor) -> Tensor:
    """Average products (k, n, d) over the n inputs."""
    return products[:, 0] if products.shape[1] == 1 else products.mean(1)
