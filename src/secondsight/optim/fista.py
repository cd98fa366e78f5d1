"""FISTA with a fixed step: three maps with their products in memory, one exact product per iteration.

The product at each iterate is exact, and the one at the extrapolated point follows by linearity, so every iterate can
be certified at no further cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin


@dataclass(frozen=True)
class Iterate:
    """A map, its exact product HD, its certified relative gap and, where blocks overlap, where it comes from."""

    delta: Tensor
    product: Tensor
    relative_gap: float
    origin: Origin | None = None


def fista(
    problem: Problem,
    H: MeteredOperator,
    start: Iterate,
    lambda1: float,
    tolerance: float,
    dtype: torch.dtype,
    error: Callable[[Tensor, Tensor], float] = lambda delta, product: 0.0,
) -> Iterate:
    """Return the best iterate by certified gap.

    The step is 1 / a, a = 2 lambda2 + shift, the inverse of an upper bound of Q's eigenvalues. The momentum restarts
    whenever it points against the last step (O'Donoghue and Candes, 2015).

    Args:
        problem: g, the penalty, lambda2 and the bounds of the spectrum.
        H: the operator. Its budget ends the iterations.
        start: a map whose product is known.
        lambda1: the weight of the penalty.
        tolerance: stop at this relative gap.
        dtype: the precision that maps are rounded to before their products are taken.
        error: from D and HD to the largest length that the rounding error of g + HD may have.
    """
    a, penalty = problem.a, problem.penalty
    delta, h_delta = start.delta, start.product
    y, h_y, t = delta, h_delta, 1.0
    best = start
    while best.relative_gap > tolerance and H.left:
        pull = problem.gradient + h_y + problem.shift * y
        new = (penalty.threshold(pull, lambda1) / a).to(dtype).double()
        if torch.equal(new, y):
            break
        h_new = H @ new
        step, h_step = new - delta, h_new - h_delta
        if float((y - new) @ step) > 0:
            t = 1.0
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momentum = (t - 1) / t_new
        y, h_y = new + momentum * step, h_new + momentum * h_step
        delta, h_delta, t = new, h_new, t_new
        origin = Origin(pull, lambda1, a) if penalty.overlapping else None
        gap = duality_gap(problem, delta, h_delta, lambda1, error(delta, h_delta), origin).relative_gap
        if gap < best.relative_gap:
            best = Iterate(delta, h_delta, gap, origin)
    return best
