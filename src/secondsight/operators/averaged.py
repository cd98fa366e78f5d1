"""Gradient and Hessian averaged over noisy copies of the input (definition 4 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice

import torch
from torch import Tensor

from secondsight.errors import ModelError
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.noise import Noise, Spread

KEPT_MEMORY = 2**30
"""Bytes of tapes that are kept from one pass to the next. A gigabyte holds those of some fifty photographs."""

Part = Callable[[LossHessian], Tensor]
"""What is averaged: a function of the Hessian at a batch of copies."""


class AveragedHessian(LossHessian):
    """The average of g and H over noisy copies, for one fixed class.

    The tapes of the first batches of copies are kept, up to KEPT_MEMORY. At the other batches, each pass runs the
    network again.

    Args:
        linear: the network around the clean input, which decides the class.
        hessian_class: the class of the Hessian at a batch of copies.
        noise: how the copies are drawn.
        record: whether to record the network at the copies, because products will be asked for.
        view: the function of the averaged gradient whose standard error is estimated. None: the gradient itself.
    """

    def __init__(
        self,
        linear: Linearisation,
        hessian_class: type[LossHessian],
        noise: Noise,
        record: bool = True,
        view: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Keep the arguments. Copies are drawn when the first average needs them."""
        super().__init__(linear)
        self.kind, self.psd = hessian_class.kind, hessian_class.psd
        self._hessian_class, self._record = hessian_class, record
        # Without noise, all copies are equal, so one is enough.
        self.noise = noise if noise.deviation > 0 else replace(noise, n=1)
        self._kept: list[Linearisation] = []
        self._logit_rounding = 0.0
        self.spread = Spread(view or (lambda gradient: gradient))

    @property
    def gradient(self) -> Tensor:
        """The averaged gradient, flat, float64."""
        return self._gradient_and_uncertainty[:-1]

    @property
    def uncertainty(self) -> float:
        """1 - p_y, averaged over the copies."""
        return float(self._gradient_and_uncertainty[-1])

    def logit_rounding(self, careful: bool) -> float:
        """Estimate how far rounding may move a logit: the largest estimate over all copies."""

        def look(hessian: LossHessian) -> Tensor:
            self._logit_rounding = max(self._logit_rounding, hessian.linear.logit_rounding(careful))
            return torch.zeros(1, dtype=torch.float64, device=self.linear.jacobian.solver_device)

        if careful:
            self._average(look)
        return self._logit_rounding

    @cached_property
    def _gradient_and_uncertainty(self) -> Tensor:
        """Compute the averaged gradient and the averaged 1 - p_y in one pass over the copies."""

        def both(hessian: LossHessian) -> Tensor:
            rows = hessian.linear.gradients()
            gradient = rows.mean(0)
            hessian.linear.keep_gradient(gradient)
            self.spread.add(rows)
            self._logit_rounding = max(self._logit_rounding, hessian.linear.logit_rounding(careful=False))
            return torch.cat([gradient, hessian.linear.uncertainty.to(gradient)])

        return self._average(both, first=True)

    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply the averaged H with each row, in one pass over the copies."""
        return self._average(lambda hessian: hessian.times_rows(rows), len(rows))

    def _average(self, part: Part, products: int = 0, first: bool = False) -> Tensor:
        """Average over the copies. The first pass decides how many there are."""
        while True:
            try:
                return self._one_pass(part, products, first)
            except torch.OutOfMemoryError:
                if self.noise.batch_size == 1:
                    raise ModelError("out of memory with a single noisy copy of the input at a time") from None
            self._kept.clear()
            if first:
                self.spread.clear()
            self.noise = replace(self.noise, batch_size=self.noise.batch_size // 2)
            self.linear.notes.append(f"memory was short: the noisy copies went {self.noise.batch_size} at a time")

    def _one_pass(self, part: Part, products: int, first: bool) -> Tensor:
        total, done = torch.zeros((), dtype=torch.float64, device=self.linear.jacobian.solver_device), 0
        for linear in self._linearisations():
            total = total + part(self._hessian_class(linear)) * len(linear.x)
            notes = [*linear.notes, *linear.jacobian.notes]
            self.linear.notes += [note for note in notes if note not in self.linear.notes]
            done += len(linear.x)
            if self.progress is not None and products:
                self.progress(products * done / self.noise.n)
            if first and self.noise.enough(done, self.spread):
                self.noise = replace(self.noise, n=done)
                break
        return total / self.noise.n

    def _linearisations(self) -> Iterator[Linearisation]:
        """Linearise the network at each batch of copies. The first batches are kept, up to KEPT_MEMORY."""
        kept = list(self._kept)
        yield from kept
        if sum(len(linear.x) for linear in kept) == self.noise.n:
            return
        room, keeping = KEPT_MEMORY - sum(linear.jacobian.nbytes for linear in kept), True
        for copies in islice(self.noise.copies(self.linear.x[0]), len(kept), None):
            linear = linearise(self.linear.model, copies, self.linear.target, self._record)
            room -= linear.jacobian.nbytes
            # A graph is not worth keeping: it takes several times the memory of a tape. Only first batches are kept.
            keeping = keeping and linear.jacobian.shareable and room >= 0
            if keeping:
                self._kept.append(linear)
            yield linear
