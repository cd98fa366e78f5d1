"""Operators that meet: several inputs are solved side by side, and one pass through the network answers all of them.

Each input is solved by a thread of its own, in straight-line code. `H @ V` of a `SharedOperator` waits until each other
thread of the group has come to its own `H @ V`, and the last one to come takes one pass for all. Which inputs share a
pass depends on the inputs only, never on how fast a thread is, so that results are reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Condition, Event

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.operators.gauss_newton import JointGaussNewton, joined
from secondsight.operators.loss_hessian import LossHessian


class StoppedError(Exception):
    """Another input has failed, so this one is given up."""


@dataclass
class Request:
    """The products that one input waits for.

    Attributes:
        hessian: the H of the input.
        rows: the vectors to multiply H with.
        products: the answers so far.
    """

    hessian: LossHessian
    rows: Tensor
    products: list[Tensor] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every row is answered."""
        return len(self.products) == len(self.rows)

    @property
    def left(self) -> Tensor:
        """The rows that are not answered yet."""
        return self.rows[len(self.products) :]


class Rendezvous:
    """Where the threads of one group wait for each other.

    A thread holds `turn` while it runs, and gives it up only while it waits here: one thread of a group runs at a time.

    Args:
        members: how many threads will ask for products, or leave.
        size: how many inputs share a pass.
        stop: set when an input has failed anywhere.
        during_pass: the context that a pass runs in, such as a number of torch's threads.
    """

    def __init__(
        self,
        members: int,
        size: int,
        stop: Event,
        during_pass: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Start with no requests."""
        self.members, self.size, self.stop, self.during_pass = members, size, stop, during_pass
        self.turn = Condition()
        self._requests: dict[int, Request] = {}
        self._joined: tuple[list[int], JointGaussNewton | None] = [], None

    def ask(self, number: int, request: Request, until: Callable[[], bool] = lambda: False) -> None:
        """Wait until the request of an input is answered, or until `until` says to give up. The caller holds `turn`."""
        self._requests[number] = request
        while not request.done:
            if self.stop.is_set():
                raise StoppedError
            if until():
                del self._requests[number]
                return
            if len(self._requests) < self.members:
                self.turn.wait()
            else:
                self._take_pass()
                self.turn.notify_all()

    def leave(self) -> None:
        """Say that this thread will not ask again. The caller holds `turn`."""
        self.members -= 1
        self.turn.notify_all()

    def _take_pass(self) -> None:
        """Answer one row of each input, so that passes stay full, or all rows of an input that is alone."""
        numbers = sorted(self._requests)[: self.size]
        requests = [self._requests[number] for number in numbers]
        with self.during_pass():
            if len(requests) == 1:
                requests[0].products.extend(requests[0].hessian.times_rows(requests[0].left))
            else:
                for request, product in zip(requests, self._products(numbers, requests), strict=True):
                    request.products.append(product)
        for number, request in zip(numbers, requests, strict=True):
            if request.done:
                del self._requests[number]

    def _products(self, numbers: list[int], requests: Sequence[Request]) -> Sequence[Tensor]:
        # The last joined operator is kept, because the same inputs usually ask again.
        if numbers != self._joined[0]:
            self._joined = numbers, joined([request.hessian for request in requests])
        joint = self._joined[1]
        if joint is None:
            return [request.hessian @ request.left[0] for request in requests]
        return list(joint.times_own_row(torch.stack([request.left[0] for request in requests])))


class SharedOperator(SymmetricOperator):
    """The H of one input, whose products are taken together with those of other inputs.

    Args:
        hessian: H itself.
        meet: waits for the other inputs and returns with the request answered.
    """

    def __init__(self, hessian: LossHessian, meet: Callable[[Request], None]) -> None:
        """Promise what H promises."""
        self.hessian, self.meet, self.psd = hessian, meet, hessian.psd

    @property
    def size(self) -> int:
        """The number of rows and columns of H."""
        return self.hessian.size

    def times_rows(self, rows: Tensor) -> Tensor:
        """Wait for the other inputs, and return H times each row."""
        request = Request(self.hessian, rows)
        self.meet(request)
        return torch.stack(request.products)
