"""The paper's own algorithm for CASO (sections 3.1 and 4): the historical baseline.

Power iterations estimate L. Then, for each lambda1, FISTA starts from zero with step 0.1, and halves the step whenever
it does not raise the surrogate enough. FISTA stops after ten iterations, and the map has no certificate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
"""A function from v to Hv."""


def power_iterations(product: Product, size: int, iterations: int = 10, seed: int = 0) -> float:
    """Estimate L, the largest eigenvalue of H, from below: the Rayleigh quotient after some steps of the power method.

    Args:
        product: v to Hv.
        size: the length of v.
        iterations: the number of steps. Each step takes one product.
        seed: of the random start.

    Returns:
        The estimate; 0 if a product is zero.
    """
    v = torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    value = 0.0
    for _ in range(iterations):
        v = v / v.norm()
        hv = product(v)
        value = float(v @ hv)
        if not bool(hv.any()):
            return 0.0
        v = hv
    return value


def backtracking_fista(
    gradient: Tensor,
    product: Product,
    lambda1: float,
    lambda2: float,
    iterations: int = 10,
    step: float = 0.1,
    decay: float = 0.5,
) -> Tensor:
    """Take accelerated proximal steps on the negated objective, from D = 0.

        lambda2 |D|^2 - g'D - 1/2 D'HD + lambda1 |D|_1

    The step size is shortened until, at the new point, the smooth part lies below its quadratic model. It is never
    made longer again.

    Args:
        gradient: g.
        product: v to Hv.
        lambda1: weight of the sparsity penalty.
        lambda2: weight of the penalty on large changes.
        iterations: the number of steps.
        step: the first step size.
        decay: factor by which a step size that is too large is multiplied.

    Returns:
        D after the last step.
    """

    def smooth(delta: Tensor, h_delta: Tensor) -> float:
        return float(lambda2 * delta @ delta - gradient @ delta - delta @ h_delta / 2)

    delta = torch.zeros_like(gradient)
    y, t = delta, 1.0
    for _ in range(iterations):
        h_y = product(y)
        slope = 2 * lambda2 * y - gradient - h_y
        while True:
            moved = y - step * slope
            new = moved - moved.clamp(-lambda1 * step, lambda1 * step)
            difference = new - y
            bound = smooth(y, h_y) + float(slope @ difference) + float(difference @ difference) / (2 * step)
            if smooth(new, product(new)) <= bound + 1e-12 * abs(bound):
                break
            step *= decay
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        y = new + (t - 1) / t_new * (new - delta)
        delta, t = new, t_new
    return delta
