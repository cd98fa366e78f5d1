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


@dataclass(frozen=True)
class WindowQuadratic:
    """maximise g'D + 1/2 D'HD - P(D) - lambda2 |D|^2, P the proximal average of the N^2 cuts of a picture into squares.

    Everything is written out: a map for each cut, whose mean is D. `shift` is what was added to 2 lambda2 where P was
    taken: a = 2 lambda2 + shift, and P(D) + a/2 |D|^2 is the least mean over the cuts of a/2 |D_s|^2 + their penalty.
    """

    g: Tensor
    h: Tensor
    shape: tuple[int, int, int]
    side: int
    lambda1: float
    lambda2: float
    shift: float = 0.0

    @property
    def a(self) -> float:
        return 2 * self.lambda2 + self.shift

    def cuts(self) -> list[Tensor]:
        """For each of the N^2 cuts the number of each entry's square."""
        channels, height, width = self.shape
        rows, columns = torch.arange(height)[:, None], torch.arange(width)
        found = []
        for down in range(self.side):
            for right in range(self.side):
                label = (rows + down) // self.side * (width + self.side) + (columns + right) // self.side
                found.append(label.expand(channels, height, width).flatten().unique(return_inverse=True)[1])
        return found

    def shrunk(self, y: Tensor) -> Tensor:
        """S(y_s, lambda1) for a y of each cut: every square is shortened by lambda1 sqrt(channels) N."""
        weight = self.lambda1 * self.shape[0] ** 0.5 * self.side
        rows = []
        for row, cut in zip(y, self.cuts(), strict=True):
            lengths = torch.zeros(int(cut.max()) + 1, dtype=y.dtype).index_add(0, cut, row**2).sqrt()[cut]
            rows.append(torch.where(lengths > weight, row * (1 - weight / lengths), 0.0))
        return torch.stack(rows)

    def conjugate(self, y: Tensor) -> float:
        """Psi*(y): the mean over the cuts of |S_s(y)|^2 / (2a)."""
        return float(self.shrunk(y.expand(self.side**2, -1)).square().sum()) / (2 * self.a * self.side**2)

    def best_map(self, y: Tensor) -> Tensor:
        """The map that maximises y'D - Psi(D): the mean of the cuts' own."""
        return self.shrunk(y.expand(self.side**2, -1)).mean(0) / self.a

    def conjugate_bound(self, delta: Tensor, y: Tensor) -> float:
        """An upper bound of the objective at D, for any y: Psi(D) >= y'D - Psi*(y)."""
        quadratic = delta @ self.h @ delta / 2 + self.shift * delta @ delta / 2
        return float(self.g @ delta + quadratic - y @ delta) + self.conjugate(y)

    def objective(self, delta: Tensor, y: Tensor) -> float:
        """The objective at D: the least of `conjugate_bound` over y, by gradient steps from a y near by."""
        for _ in range(20_000):
            step = self.a * (delta - self.best_map(y))
            y = y + step
            if float(step.abs().max()) <= 1e-14 * (1e-30 + float(y.abs().max())):
                break
        return self.conjugate_bound(delta, y)

    def optimum(self) -> Tensor:
        """The fixed point of D = S(g + (H + shift I) D) / a, a contraction, until nothing moves."""
        delta = torch.zeros_like(self.g)
        for _ in range(100_000):
            before, delta = delta, self.best_map(self.g + self.h @ delta + self.shift * delta)
            if float((delta - before).abs().max()) <= 1e-15 * (1e-30 + float(delta.abs().max())):
                return delta
        raise AssertionError("the fixed point was not reached")

    def best_value(self) -> float:
        """The objective at the optimum, where y = g + (H + shift I) D is the one of `conjugate_bound`."""
        delta = self.optimum()
        return self.conjugate_bound(delta, self.g + self.h @ delta + self.shift * delta)


class DenseOperator(SymmetricOperator):
    """A matrix that is there as a whole, as the solver's H."""

    def __init__(self, matrix: Tensor, psd: bool) -> None:
        self.matrix, self.psd = matrix, psd

    @property
    def size(self) -> int:
        return len(self.matrix)

    def times_rows(self, rows: Tensor) -> Tensor:
        return rows @ self.matrix
