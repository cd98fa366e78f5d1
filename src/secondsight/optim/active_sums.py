"""U S(g + U'w, lambda1) from sums over the active entries, for penalties whose blocks are single entries.

Let A be the active entries, whose absolute value in g + U'w is above lambda1, and s their signs. Then

    U S(g + U'w) = U_A g_A - lambda1 U_A s_A + U_A U_A' w

From one step of Newton to the next, and from one lambda1 to the next, few entries enter A, leave it or change their
sign. Only the columns of U that belong to these entries are multiplied.
"""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.optim.penalties import Penalty
from secondsight.optim.semismooth_newton import Response


class ActiveSums:
    """Keeps the sums over the active entries A, and updates them when A changes.

    Args:
        gradient: g.
        factor: U, perhaps in float32. Vectors as long as a map then are, too. The sums are in float64 in any case.

    Attributes:
        start: g, in the precision of U.
        gram: U_A U_A'.
    """

    def __init__(self, gradient: Tensor, factor: Tensor) -> None:
        """Start with no active entries."""
        self.gradient, self.factor = gradient, factor
        self.start = gradient.to(factor)
        self._clear()

    def _clear(self) -> None:
        # One byte for each entry, because all of them are compared at each step.
        self._signs = torch.zeros_like(self.gradient, dtype=torch.int8)
        self.gram = self.gradient.new_zeros(len(self.factor), len(self.factor))
        self._of_gradient, self._of_signs = self.gradient.new_zeros(2, len(self.factor))
        # The sums of g_i^2, of g_i s_i and of 1.
        self._squares = self.gradient.new_zeros(3)

    def move_to(self, signs: Tensor) -> None:
        """Make active the entries whose sign is 1 or -1, and leave out those whose sign is 0."""
        changed = (signs != self._signs).nonzero()[:, 0]
        new, old = (values[changed].to(self.gradient) for values in (signs, self._signs))
        came, turned = new.abs() - old.abs(), new - old
        if len(changed) > float(self._squares[2] + came.sum()):
            # Fewer entries are active than change. Summing anew is faster, and drops the rounding of the earlier sums.
            self._clear()
            self.move_to(signs)
            return
        if len(changed):
            columns, g = self.factor.index_select(1, changed).to(self.gradient), self.gradient[changed]
            self.gram = self.gram + (columns * came) @ columns.T
            self._of_gradient = self._of_gradient + columns @ (g * came)
            self._of_signs = self._of_signs + columns @ turned
            self._squares = self._squares + torch.stack([g.square() @ came, g @ turned, came.sum()])
        self._signs = signs

    def moved(self, w: Tensor) -> Tensor:
        """Compute g + U'w."""
        return torch.addmv(self.start, self.factor.T, w.to(self.factor))

    def pull(self, lambda1: float) -> Tensor:
        """Compute U_A (g_A - lambda1 s_A)."""
        result: Tensor = self._of_gradient - lambda1 * self._of_signs
        return result

    def square(self, lambda1: float) -> float:
        """Compute |g_A - lambda1 s_A|^2."""
        squares, products, count = self._squares.tolist()
        # Without active entries the result is 0, even if the square of lambda1 is infinite.
        return float(squares - 2 * lambda1 * products + lambda1 * lambda1 * count) if count else 0.0


class EntrywiseThreshold:
    """The function w -> U S(g + U'w, lambda1), for a penalty whose blocks are single entries.

    Args:
        sums: the sums over the entries that were active last.
        lambda1: the weight of the penalty.
        penalty: gives S.
        first: g + U'w for the w of the first call of `at`; None: not known.

    Attributes:
        y: g + U'w for the last w.
    """

    def __init__(self, sums: ActiveSums, lambda1: float, penalty: Penalty, first: Tensor | None = None) -> None:
        """Compute nothing yet."""
        self.sums, self.lambda1, self.penalty, self._first = sums, lambda1, penalty, first
        self.y = sums.start

    def at(self, w: Tensor) -> Response:
        """Compute S(g + U'w), and what is derived from it."""
        sums, first, self._first = self.sums, self._first, None
        self.y = sums.moved(w) if first is None else first
        value = self.penalty.threshold(self.y, self.lambda1)
        sums.move_to(value.sign().to(torch.int8))
        gram, pull = sums.gram, sums.pull(self.lambda1)
        moved = gram @ w
        energy = sums.square(self.lambda1) + float(w @ (2 * pull + moved))
        return Response(value, pull + moved, energy, lambda: gram)
