"""Slow dense float64 twins, written straight from the paper's equations. None of the package's numerics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from secondsight.operators.base import SymmetricOperator

Net = Callable[[Tensor], Tensor]


def jacobian(net: Net, x: Tensor) -> Tensor:
    """W, d x c: column k is the gradient of logit k in the flattened input."""
    return torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x).flatten(1).T


def probabilities(net: Net, x: Tensor) -> Tensor:
    return net(x[None])[0].detach().softmax(0)


def gradient(net: Net, x: Tensor, y: int) -> Tensor:
    """Equation (gradient): W (p - y)."""
    p = probabilities(net, x)
    return jacobian(net, x) @ (p - torch.nn.functional.one_hot(torch.tensor(y), len(p)))


def gauss_newton(net: Net, x: Tensor) -> Tensor:
    """Proposition 1: W (diag p - pp') W'."""
    p, w = probabilities(net, x), jacobian(net, x)
    return w @ (torch.diag(p) - torch.outer(p, p)) @ w.T


def hessian(net: Net, x: Tensor, y: int) -> Tensor:
    """The second derivative of the cross-entropy loss, by autograd, entry by entry."""

    def loss(flat: Tensor) -> Tensor:
        return cross_entropy(net(flat.reshape(x.shape)[None]), torch.tensor([y]))

    with sdpa_kernel(SDPBackend.MATH):
        return torch.autograd.functional.hessian(loss, x.flatten())


@dataclass(frozen=True)
class Quadratic:
    """maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2, everything dense."""

    g: Tensor
    h: Tensor
    lambda1: float
    lambda2: float

    def objective(self, delta: Tensor) -> float:
        smooth = self.g @ delta + delta @ self.h @ delta / 2 - self.lambda2 * delta @ delta
        return float(smooth - self.lambda1 * delta.abs().sum())

    def optimum(self) -> Tensor:
        """Coordinate ascent, each step the exact maximiser in one entry, until its signs are those of the optimum."""
        q = 2 * self.lambda2 * torch.eye(len(self.g), dtype=torch.float64) - self.h
        delta = torch.zeros_like(self.g)
        for _ in range(100_000):
            before = delta.clone()
            for i in range(len(delta)):
                slope = self.g[i] - q[i] @ delta + q[i, i] * delta[i]
                delta[i] = slope.sign() * (slope.abs() - self.lambda1).clamp(min=0) / q[i, i]
            solved = self._with_signs(q, delta.sign())
            if solved is not None:
                return solved
            if float((delta - before).abs().max()) <= 1e-15 * (1e-30 + float(delta.abs().max())):
                return delta
        raise AssertionError("coordinate ascent did not converge")

    def _with_signs(self, q: Tensor, signs: Tensor) -> Tensor | None:
        """The solution if these are its signs: linear on the support, and no slope beyond lambda1 off it."""
        kept = signs != 0
        delta = torch.zeros_like(signs)
        delta[kept] = torch.linalg.solve(q[kept][:, kept], self.g[kept] - self.lambda1 * signs[kept])
        slopes = (self.g - q @ delta)[~kept].abs()
        return delta if torch.equal(delta.sign(), signs) and bool((slopes <= self.lambda1).all()) else None


@dataclass(frozen=True)
class GroupQuadratic:
    """maximise g'D + 1/2 D'HD - lambda1 sum_j sqrt(size of group j) |D_j| - lambda2 |D|^2, everything dense.

    labels: for each entry the name of its group, any whole number.
    """

    g: Tensor
    h: Tensor
    labels: Tensor
    lambda1: float
    lambda2: float

    def blocks(self) -> list[Tensor]:
        return [torch.nonzero(self.labels == name).flatten() for name in self.labels.unique()]

    def objective(self, delta: Tensor) -> float:
        smooth = self.g @ delta + delta @ self.h @ delta / 2 - self.lambda2 * delta @ delta
        return float(smooth) - self.lambda1 * sum(len(b) ** 0.5 * float(delta[b].norm()) for b in self.blocks())

    def optimum(self) -> Tensor:
        """Block coordinate ascent, each step the exact maximiser in one group, until nothing moves."""
        q = 2 * self.lambda2 * torch.eye(len(self.g), dtype=torch.float64) - self.h
        steps = [(b, *torch.linalg.eigh(q[b][:, b]), self.lambda1 * len(b) ** 0.5) for b in self.blocks()]
        delta = torch.zeros_like(self.g)
        for _ in range(20_000):
            before = delta.clone()
            for b, values, vectors, weight in steps:
                slope = vectors.T @ (self.g[b] - q[b] @ delta) + values * (vectors.T @ delta[b])
                delta[b] = vectors @ _block_maximiser(values, slope, weight)
            if float((delta - before).abs().max()) <= 1e-13 * (1e-30 + float(delta.abs().max())):
                return delta
        raise AssertionError("block coordinate ascent did not converge")


def _block_maximiser(values: Tensor, slope: Tensor, weight: float) -> Tensor:
    """The D that maximises slope'D - 1/2 sum_i values_i D_i^2 - weight |D|.

    Zero, or D_i = r slope_i / (r values_i + weight) with r = |D|, the root of sum_i (D_i / r)^2 = 1, which falls in r.
    """
    if float(slope.norm()) <= weight:
        return torch.zeros_like(slope)
    if weight == 0:
        return slope / values
    low, high = 0.0, float(slope.norm() / values.min())
    # Bisection, by 32 points at a time.
    for _ in range(14):
        tried = torch.linspace(low, high, 32, dtype=torch.float64)
        above = (slope / (tried[:, None] * values + weight)).square().sum(1) > 1
        first = int(above.sum())
        low, high = float(tried[max(first - 1, 0)]), float(tried[min(first, 31)])
    return high * slope / (high * values + weight)


class DenseOperator(SymmetricOperator):
    """A matrix that is there as a whole, as the solver's H."""

    def __init__(self, matrix: Tensor, psd: bool) -> None:
        self.matrix, self.psd = matrix, psd

    @property
    def size(self) -> int:
        return len(self.matrix)

    def times_rows(self, rows: Tensor) -> Tensor:
        return rows @ self.matrix
