"""S(g + U'w) where every entry is a block of its own: a few small matrices, as long as entries keep their signs.

With A the entries beyond the threshold and s their signs,

    U S(g + U'w) = U_A g_A - lambda1 U_A s_A + U_A U_A' w

From one step of Newton to the next, and from one lambda1 to the next, few entries change. Only the columns of U that
belong to those are multiplied.
"""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.optim.penalties import Penalty
from secondsight.optim.semismooth_newton import Response


class ActiveSums:
    """Keeps U_A U_A', U_A g_A and their like for a set A of entries that changes by little.

    Args:
        gradient: g.
        factor: U.
    """

    def __init__(self, gradient: Tensor, factor: Tensor) -> None:
        """Start with no entries."""
        self.gradient, self.factor = gradient, factor
        self._clear()

    def _clear(self) -> None:
        self._signs = torch.zeros_like(self.gradient)
        self.gram = self.factor.new_zeros(len(self.factor), len(self.factor))
        self._of_gradient, self._of_signs = self.factor.new_zeros(2, len(self.factor))
        # The sums of g_i^2, of g_i s_i and of 1.
        self._squares = self.gradient.new_zeros(3)

    def move_to(self, signs: Tensor) -> None:
        """Take the entries with a sign, 1 or -1, and leave out those with 0."""
        changed = (signs != self._signs).nonzero()[:, 0]
        new, old = signs[changed], self._signs[changed]
        came, turned = new.abs() - old.abs(), new - old
        if len(changed) > float(self._squares[2] + came.sum()):
            # There are fewer entries than changes. Starting anew is shorter, and forgets the rounding of larger sums.
            self._clear()
            self.move_to(signs)
            return
        if len(changed):
            columns, g = self.factor[:, changed], self.gradient[changed]
            self.gram = self.gram + (columns * came) @ columns.T
            self._of_gradient = self._of_gradient + columns @ (g * came)
            self._of_signs = self._of_signs + columns @ turned
            self._squares = self._squares + torch.stack([g.square() @ came, g @ turned, came.sum()])
        self._signs = signs

    def pull(self, lambda1: float) -> Tensor:
        """Compute U_A (g_A - lambda1 s_A)."""
        result: Tensor = self._of_gradient - lambda1 * self._of_signs
        return result

    def square(self, lambda1: float) -> float:
        """Compute |g_A - lambda1 s_A|^2."""
        squares, products, count = self._squares.tolist()
        # Without entries even an infinite square of lambda1 adds nothing.
        return float(squares - 2 * lambda1 * products + lambda1 * lambda1 * count) if count else 0.0


class EntrywiseThreshold:
    """The function w -> U S(g + U'w, lambda1), for a penalty whose blocks are single entries.

    Args:
        sums: of the entries that were active before.
        lambda1: the weight of the penalty.
        penalty: gives S.
        first: g + U'w for the first w that is asked for, if it is known.

    Attributes:
        y: g + U'w for the last w.
    """

    def __init__(self, sums: ActiveSums, lambda1: float, penalty: Penalty, first: Tensor | None = None) -> None:
        """Compute nothing yet."""
        self.sums, self.lambda1, self.penalty, self._first = sums, lambda1, penalty, first
        self.y = sums.gradient

    def at(self, w: Tensor) -> Response:
        """Compute S where U'w was added to g."""
        sums, first, self._first = self.sums, self._first, None
        self.y = torch.addmv(sums.gradient, sums.factor.T, w) if first is None else first
        value = self.penalty.threshold(self.y, self.lambda1)
        sums.move_to(value.sign())
        gram, pull = sums.gram, sums.pull(self.lambda1)
        moved = gram @ w
        energy = sums.square(self.lambda1) + float(w @ (2 * pull + moved))
        return Response(value, pull + moved, energy, lambda: gram)
