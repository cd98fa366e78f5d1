"""Noisy copies of an input: how strong, how many, how many at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.config import Smooth, SmoothMap
from secondsight.model.classifier import Classifier
from secondsight.model.diagnosis import mixes_inputs

CHECKPOINTS = (8, 12, 20, 32, 48, 72, 108, 164, 248)
"""Numbers of copies after which n="auto" checks the standard error: each about 1.5 times the last, in whole pairs."""

GRAPH_MEMORY = 2**29
"""Bytes that the graph of one batch of copies may take: half a gigabyte leaves room on small machines."""


@dataclass(frozen=True)
class Noise:
    """Gaussian copies of an input, always the same for one seed, whatever the size of the batches.

    Attributes:
        n: the number of copies.
        deviation: the standard deviation of the noise.
        seed: of the noise.
        batch_size: how many copies go through the network at a time.
        antithetic: whether every second copy has the noise of the copy before it, with the other sign.
        tolerance: stop at the first of CHECKPOINTS where the standard error is at most this. None: take all n.
    """

    n: int
    deviation: float
    seed: int
    batch_size: int
    antithetic: bool = False
    tolerance: float | None = None

    def copies(self, x: Tensor) -> Iterator[Tensor]:
        """Draw the copies of x (without batch dimension), a batch at a time."""
        draws, start = self._draws(x), 0
        while start < self.n:
            end = min(start + self.batch_size, self.n)
            if self.tolerance is not None:
                # Batches end at CHECKPOINTS, so that the checks do not depend on the size of the batches.
                end = min([end, *(point for point in CHECKPOINTS if point > start)])
            noise = torch.stack([next(draws) for _ in range(start, end)])
            yield x + self.deviation * noise.to(x)
            start = end

    def _draws(self, x: Tensor) -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            # One by one, because torch draws other numbers for a batch.
            draw = torch.randn(x.shape, generator=generator, dtype=torch.float32, device="cpu")
            yield draw
            if self.antithetic:
                yield -draw

    def enough(self, done: int, spread: Spread) -> bool:
        """Whether no further copy is needed after this many."""
        if self.tolerance is None or done not in CHECKPOINTS:
            return False
        error = spread.relative_error()
        return error is not None and error <= self.tolerance


class Spread:
    """The standard error of an average of gradients, by a jackknife over pairs of copies.

    Let theta_k be the view of the average without pair k, for each of K pairs, and `mean` the mean of all theta_k. The
    variance is (K - 1) / K sum_k |theta_k - mean|^2.

    Args:
        view: the function of the averaged gradient whose error is estimated, such as the norms of groups.
    """

    def __init__(self, view: Callable[[Tensor], Tensor]) -> None:
        """Start with no copies."""
        self.view = view
        self.clear()

    def clear(self) -> None:
        """Forget all copies."""
        self._pairs: list[Tensor] = []
        self._single: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Take the gradients at some further copies. The copies of a pair may be in two batches."""
        for row in rows:
            if self._single is None:
                self._single = row
            else:
                # Kept in float32, because they are many, and an error of an error does not matter.
                self._pairs.append((self._single + row).float())
                self._single = None

    def relative_error(self) -> float | None:
        """Estimate the standard error of the view, as a share of its length. None: too few copies."""
        count = len(self._pairs)
        if count < 2:
            return None
        total = torch.stack(self._pairs).double().sum(0)
        views = [self.view((total - pair) / (2 * count - 2)) for pair in self._pairs]
        mean = torch.stack(views).mean(0)
        square = sum(float((one - mean).square().sum()) for one in views)
        length = float(self.view(total / (2 * count)).norm())
        # If all gradients are zero, the error is zero, too.
        return math.sqrt((count - 1) / count * square) / length if length > 0 else 0.0 if square == 0 else None


def deviation_of(x: Tensor, method: Smooth) -> float:
    """Choose the standard deviation of the noise: `stdevs`, or `sigma` as a share of the range of this very input."""
    if method.sigma is None:
        return method.stdevs or 0.0
    return method.sigma * float((x.max() - x.min()).detach())


def noise_of(model: Classifier, x: Tensor, logits: Tensor, method: SmoothMap, seed: int) -> Noise:
    """Choose the noisy copies of x (without batch dimension) that a method asks for. `logits` are those of x alone."""
    automatic = isinstance(method.n, str)
    n = CHECKPOINTS[-1] if isinstance(method.n, str) else method.n
    size = batch_size_for(model, x, logits, n, method.batch_size)
    tolerance = method.noise_tolerance if automatic else None
    return Noise(n, deviation_of(x, method), seed, size, method.antithetic, tolerance)


def batch_size_for(model: Classifier, x: Tensor, logits: Tensor, n: int, wanted: int | None) -> int:
    """Choose how many of n copies of x go through the network at a time: `wanted`, or as many as fit into memory.

    The size is one for a network that mixes the inputs of a batch. `logits` are those of x alone.
    """
    size = wanted or fitting_batch_size(model, x, n)
    return 1 if min(size, n) > 1 and mixes_inputs(model, x, logits) else size


def fitting_batch_size(model: Classifier, x: Tensor, n: int) -> int:
    """Choose how many copies of x go through the network at a time: up to n, as far as GRAPH_MEMORY allows."""
    return max(1, min(n, GRAPH_MEMORY // graph_bytes(model, x)))


def graph_bytes(model: Classifier, x: Tensor) -> int:
    """Count the bytes that autograd keeps for one input, without the network's own weights."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        # Storages are held until the end, because the address of a freed block is used again. Tensors are not held: a
        # tensor refers to the graph, and the graph to this function, which is a cycle that is never collected.
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
        model.logits(x[None].detach().clone().requires_grad_())
    for weights in model.weights():
        kept.pop(weights.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values()) + x.nbytes
