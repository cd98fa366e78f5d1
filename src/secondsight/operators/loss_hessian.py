"""The Hessian of the loss in the input at one point: the contract of its implementations."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.operators.jacobian import Jacobian
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
        """1 - p_y, averaged where H is."""
        return float(self.linear.uncertainty)

    def logit_rounding(self, careful: bool) -> float:
        """Estimate how far rounding may move a logit. `careful`: by what cancels in it, too, which takes a product."""
        return self.linear.logit_rounding(careful)

    @property
    def shared_jacobian(self) -> Jacobian | None:
        """The Jacobian W whose passes the products of several inputs can share, for H = W (diag p - pp') W'.

        None: a product runs the network, so it must be taken alone.
        """
        return None

    def factor_blocks(self) -> Iterator[Tensor] | None:
        """Iterate over the columns of B with H = BB', some at a time, as rows. None: H has no such factor."""
        return None
