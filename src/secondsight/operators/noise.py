"""Noisy copies of an input: how strong, how many, how many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.config import Smooth
from secondsight.model.classifier import Classifier

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
    """

    n: int
    deviation: float
    seed: int
    batch_size: int

    def copies(self, x: Tensor) -> Iterator[Tensor]:
        """Draw the copies of x (without batch dimension), a batch at a time."""
        generator = torch.Generator().manual_seed(self.seed)
        for start in range(0, self.n, self.batch_size):
            count = min(self.batch_size, self.n - start)
            # One by one, because torch draws other numbers for a batch.
            noise = torch.stack([torch.randn(x.shape, generator=generator) for _ in range(count)])
            yield x + self.deviation * noise.to(x)


def deviation_of(x: Tensor, method: Smooth) -> float:
    """Choose the standard deviation of the noise: `stdevs`, or `sigma` as a share of the range of this very input."""
    if method.sigma is None:
        return method.stdevs or 0.0
    return method.sigma * float((x.max() - x.min()).detach())


def fitting_batch_size(model: Classifier, x: Tensor, n: int) -> int:
    """Choose how many copies of x go through the network at a time: up to n, as far as GRAPH_MEMORY allows."""
    return max(1, min(n, GRAPH_MEMORY // graph_bytes(model, x)))


def graph_bytes(model: Classifier, x: Tensor) -> int:
    """Count the bytes that autograd keeps for one input, without the network's own weights."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        # Held until the end, because the address of a freed block is used again. The storage, not the tensor: a tensor
        # leads to the graph, and the graph to this function, a circle that is never collected.
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
        model.logits(x[None].detach().clone().requires_grad_())
    for weights in model.weights():
        kept.pop(weights.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values()) + x.nbytes
