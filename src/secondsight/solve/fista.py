"""FISTA with a fixed step: three vectors of memory, one exact product per iteration.

The product at each iterate is exact, and the one at the extrapolated point follows by linearity, so every iterate can
be certified at no further cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.solve.asking import Asking, Budget
from secondsight.solve.certificate import Problem


@dataclass(frozen=True)
class Iterate:
    delta: Tensor
    product: Tensor
    relative_gap: float


def fista(
    problem: Problem,
    budget: Budget,
    start: Tensor,
    start_product: Tensor,
    lambda1: float,
    tolerance: float,
    dtype: torch.dtype,
    most: int = 1000,
) -> Asking[Iterate]:
    """The best iterate by certified gap, after at most `most` products, from a `start` whose product is known.

    Step 1 / (2 lambda2 + negative), the inverse of Q's largest eigenvalue; the momentum restarts whenever it points
    against the last step (O'Donoghue and Candes, 2015).
    """
    upper = 2 * problem.lambda2 + problem.negative
    delta, h_delta = start, start_product
    y, h_y, t = delta, h_delta, 1.0
    best = Iterate(delta, h_delta, problem.certify(delta, h_delta, lambda1).relative_gap)
    for _ in range(most):
        if best.relative_gap <= tolerance or not budget.left:
            break
        ascent = problem.gradient - 2 * problem.lambda2 * y + h_y
        new = problem.penalty.threshold(y + ascent / upper, lambda1 / upper).to(dtype).double()
        h_new = (yield from budget.products(new[None]))[0]
        step, h_step = new - delta, h_new - h_delta
        if float((y - new) @ step) > 0:
            t = 1.0
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momentum = (t - 1) / t_new
        y, h_y = new + momentum * step, h_new + momentum * h_step
        delta, h_delta, t = new, h_new, t_new
        gap = problem.certify(delta, h_delta, lambda1).relative_gap
        if gap < best.relative_gap:
            best = Iterate(delta, h_delta, gap)
    return best
