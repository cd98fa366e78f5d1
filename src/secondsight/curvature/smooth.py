"""Gradient and Hessian averaged over noisy copies of the input (definition 4 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import torch
from torch import Tensor

from secondsight.curvature.hessian import LossHessian
from secondsight.curvature.linearisation import Linearisation
from secondsight.errors import ModelError
from secondsight.model import Classifier

Part = Callable[[LossHessian], Tensor]

MEMORY = 2**29
"""Bytes that the graph of one batch of samples may take."""
KEPT = 2**30
"""Bytes of tapes that are kept from one pass over the samples to the next."""


@dataclass(frozen=True)
class Noise:
    """n Gaussian copies of an input, always the same for one seed, whatever the size of the batches."""

    n: int
    deviation: float
    seed: int
    batch_size: int

    def copies(self, x: Tensor) -> Iterator[Tensor]:
        """The copies of x (without batch dimension), a batch at a time."""
        generator = torch.Generator().manual_seed(self.seed)
        for start in range(0, self.n, self.batch_size):
            count = min(self.batch_size, self.n - start)
            # One by one: torch draws other numbers for a batch.
            noise = torch.stack([torch.randn(x.shape, generator=generator) for _ in range(count)])
            yield x + self.deviation * noise.to(x)


class SmoothHessian(LossHessian):
    """The average of g and H over noisy copies, for one fixed class.

    The network at a batch of copies is kept as a tape as long as there is room (KEPT), else each pass builds it anew.

    linear: the network at the clean input.
    progress: called, during a pass, with the number of products that it has done, a fraction.
    """

    def __init__(self, linear: Linearisation, kind: type[LossHessian], noise: Noise) -> None:
        super().__init__(linear)
        self.kind, self.semidefinite = kind.kind, kind.semidefinite
        self._kind, self._way = kind, linear.way
        # Without noise, all copies are one.
        self.noise = noise if noise.deviation > 0 else replace(noise, n=1)
        self.progress: Callable[[float], None] | None = None
        self._kept: list[Linearisation] = []

    @cached_property
    def gradient(self) -> Tensor:
        return self._average(lambda hessian: hessian.gradient)

    def product(self, rows: Tensor) -> Tensor:
        return self._average(lambda hessian: hessian.product(rows), len(rows))

    def _average(self, part: Part, products: int = 0) -> Tensor:
        while True:
            try:
                return self._one_pass(part, products)
            except torch.OutOfMemoryError:
                if self.noise.batch_size == 1:
                    raise ModelError("out of memory with a single noisy copy of the input at a time") from None
            self._kept.clear()
            self.noise = replace(self.noise, batch_size=self.noise.batch_size // 2)
            self.linear.notes.append(f"memory was short: the noisy copies went {self.noise.batch_size} at a time")

    def _one_pass(self, part: Part, products: int) -> Tensor:
        total, done = torch.zeros((), dtype=torch.float64, device=self.linear.device), 0
        for linear in self._linearisations():
            total = total + part(self._kind(linear)) * len(linear.x)
            self._way = linear.way
            self.linear.notes += [note for note in linear.notes if note not in self.linear.notes]
            done += len(linear.x)
            if self.progress is not None and products:
                self.progress(products * done / self.noise.n)
        return total / self.noise.n

    def _linearisations(self) -> Iterator[Linearisation]:
        """The network at each batch of copies. The first ones are kept, as many as fit."""
        kept = list(self._kept)
        yield from kept
        if sum(len(linear.x) for linear in kept) == self.noise.n:
            return
        room = KEPT - sum(linear.nbytes for linear in kept)
        for copies in islice(self.noise.copies(self.linear.x.detach()[0]), len(kept), None):
            linear = Linearisation(self.linear.model, copies, self.linear.target, self._way)
            room -= linear.nbytes
            if linear.tape is not None and room >= 0:
                self._kept.append(linear)
            yield linear


def fitting_batch_size(model: Classifier, x: Tensor, n: int) -> int:
    """How many copies of x go through the network at a time: up to n, as far as MEMORY allows."""
    return max(1, min(n, MEMORY // graph_bytes(model, x)))


def graph_bytes(model: Classifier, x: Tensor) -> int:
    """Bytes that autograd keeps for one input, without the network's own weights."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        # Held until the end: a freed block would be counted once for all its later owners. Without its tensor, which
        # leads to the graph, and that to this function: a circle that nobody would ever collect.
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
        model.logits(x[None].detach().clone().requires_grad_())
    for weights in model.weights():
        kept.pop(weights.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values()) + x.nbytes
