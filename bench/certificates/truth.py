"""The truth by dense float64 algebra, written from the equations: g, H and the optimum. Nothing of the package's."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.certificates.problems import Problem
from secondsight.config import Smooth
from secondsight.operators.noise import Noise, deviation_of

Array = NDArray[np.float64]

SETTLED = 1e-13
"""The relative gap at which the search for the optimum stops."""


@dataclass(frozen=True)
class Surrogate:
    """g and H in float64, and the largest and the smallest eigenvalue of H."""

    g: Array
    h: Array
    top: float
    bottom: float


def surrogate(problem: Problem, seed: int) -> Surrogate:
    """Compute g and H of the network in float64, averaged over the noisy copies of a smooth method."""
    net, method = copy.deepcopy(problem.net).double(), problem.method
    points = problem.x[None]
    if isinstance(method, Smooth):
        noise = Noise(method.n, deviation_of(problem.x, method), seed, method.n)
        points = torch.cat(list(noise.copies(problem.x)))
    found = [_at(net, point.double(), problem.target, problem.curved) for point in points]
    g, h = (torch.stack(parts).mean(0).numpy() for parts in zip(*found, strict=True))
    values = np.linalg.eigvalsh(h)
    return Surrogate(g, h, float(values[-1]), float(values[0]))


def _at(net: nn.Module, x: Tensor, target: int, curved: bool) -> tuple[Tensor, Tensor]:
    """Compute g = W (p - y) and H = W (diag p - pp') W', plus the logits' own curvature.

    With M_k = W_k - W_t, t the most likely class, and m = sum_k p_k M_k: g = m - M_y and H = sum_k p_k M_k M_k' - mm'.
    No digit is lost as p_t -> 1.
    """
    flat = x.flatten()

    def logits(z: Tensor) -> Tensor:
        return net(z.reshape(x.shape)[None])[0]

    w = torch.autograd.functional.jacobian(logits, flat, vectorize=True)
    p = logits(flat).detach().softmax(0)
    m = w - w[p.argmax()]
    mean = p @ m
    g = mean - m[target]
    h = (m.T * p) @ m - torch.outer(mean, mean)
    if curved:
        weights = p.clone()
        weights[target] = 0
        weights[target] = -weights.sum()
        h += torch.autograd.functional.hessian(lambda z: logits(z) @ weights, flat, vectorize=True)
    return g, (h + h.T) / 2


@dataclass(frozen=True)
class Optimum:
    """The best map that was found, and how far it is from the optimum at most."""

    delta: Array
    value: float
    gap: float
    zero: NDArray[np.bool_]
    nonzero: NDArray[np.bool_]


class Dense:
    """maximise g'D - 1/2 D'QD - lambda1 sum_j w_j |D_j| with Q = 2 lambda2 I - H, everything dense.

    Args:
        surrogate: g and H.
        labels: the group of each entry; None: each entry is one.
        lambda1, lambda2: the weights of the penalties.
    """

    def __init__(self, surrogate: Surrogate, labels: Tensor | None, lambda1: float, lambda2: float) -> None:
        """Compute Q, and bounds of its spectrum from those of H."""
        size = len(surrogate.g)
        self.g, self.lambda1 = surrogate.g, lambda1
        self.q = 2 * lambda2 * np.eye(size) - surrogate.h
        self.mu, self.largest = 2 * lambda2 - surrogate.top, 2 * lambda2 - surrogate.bottom
        names = np.arange(size) if labels is None else labels.flatten().numpy()
        _, self.labels = np.unique(names, return_inverse=True)
        self.single = len(np.unique(self.labels)) == size
        self.weights = lambda1 * np.sqrt(np.bincount(self.labels))

    def value(self, delta: Array) -> float:
        """The objective."""
        return float(self.g @ delta - delta @ self.q @ delta / 2 - self.weights @ self._norms(delta))

    def rounding(self, delta: Array) -> float:
        """What float64 may do to the objective: its largest term, times a few units in the last place."""
        terms = np.abs(self.g * delta).sum(), np.abs(delta) @ np.abs(self.q) @ np.abs(delta), self.value(delta)
        return float(32 * np.finfo(np.float64).eps * max(map(abs, terms)))

    def optimum(self) -> Optimum:
        """FISTA for the support, Newton on the support for the digits, until a duality gap proves the optimum."""
        best = np.zeros_like(self.g)
        best_gap = self._gap(best)[0]
        steps = 20
        for _ in range(13):
            delta = self._fista(best, steps)
            for candidate in (delta, self._newton(delta)):
                gap = self._gap(candidate)[0]
                if gap < best_gap:
                    best, best_gap = candidate, gap
            if best_gap <= SETTLED * abs(self.value(best)):
                break
            steps *= 2
        gap, v = self._gap(best)
        zero = self._norms(v) + np.sqrt(2 * self.largest * gap) < self.weights * (1 - 1e-9)
        nonzero = self._norms(best) > np.sqrt(2 * gap / self.mu)
        return Optimum(best, self.value(best), gap, zero[self.labels], nonzero[self.labels])

    def _norms(self, delta: Array) -> Array:
        sums: Array = np.bincount(self.labels, delta * delta)
        return np.sqrt(sums)

    def _project(self, y: Array) -> Array:
        norms = self._norms(y)
        return y * np.where(norms > self.weights, self.weights / np.where(norms > 0, norms, 1), 1)[self.labels]

    def _gap(self, delta: Array) -> tuple[float, Array]:
        """The certificate of MATHS, section 3, with the exact smallest eigenvalue of Q."""
        w = self.g - self.q @ delta
        v = self._project(w + self.mu * delta)
        slack = self.weights * self._norms(delta) - np.bincount(self.labels, v * delta)
        return float((w - v) @ (w - v) / (2 * self.mu) + np.maximum(slack, 0).sum()), v

    def _fista(self, delta: Array, steps: int) -> Array:
        y, t = delta, 1.0
        threshold = self.weights / self.largest
        for _ in range(steps):
            moved = y + (self.g - self.q @ y) / self.largest
            norms = self._norms(moved)
            kept = np.maximum(1 - threshold / np.where(norms > 0, norms, 1), 0)
            new = moved * kept[self.labels]
            if (y - new) @ (new - delta) > 0:
                t = 1.0
            t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
            y = new + (t - 1) / t_new * (new - delta)
            delta, t = new, t_new
        return delta

    def _newton(self, delta: Array) -> Array:
        """Newton steps on the groups that are not zero, each followed by one step of proximal ascent."""
        for _ in range(40):
            active = (self._norms(delta) > 0)[self.labels]
            if not active.any():
                return delta
            norms = self._norms(delta)[self.labels][active]
            unit = delta[active] / norms
            weights = self.weights[self.labels][active]
            q = self.q[np.ix_(active, active)]
            slope = self.g[active] - q @ delta[active] - weights * unit
            hessian = q.copy()
            if not self.single:
                same = self.labels[active][:, None] == self.labels[active]
                hessian += np.diag(weights / norms) - same * np.outer(unit * weights / norms, unit)
            step = np.zeros_like(delta)
            step[active] = np.linalg.solve(hessian, slope)
            value, t = self.value(delta), 1.0
            while t > 1e-8 and self.value(self._same_signs(delta, t * step)) < value:
                t /= 2
            before, delta = delta, self._fista(self._same_signs(delta, t * step), 1)
            if np.abs(delta - before).max() <= 1e-14 * np.abs(delta).max():
                break
        return delta

    def _same_signs(self, delta: Array, step: Array) -> Array:
        """Take a step; an entry that would change its sign stops at zero (groups of one entry)."""
        new = delta + step
        return np.where(new * delta < 0, 0.0, new) if self.single else new
