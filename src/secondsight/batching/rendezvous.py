"""Operators that meet: several inputs are solved side by side, and one pass through the network answers all of them.

An input is solved by straight-line code in a coroutine (a greenlet, which can be suspended from within the functions
that it calls). Several coroutines each solve one input after the other. `H @ V` of a `SharedOperator` suspends its
coroutine until every other coroutine has reached its own `H @ V`. The last coroutine to arrive takes one pass for all.
One coroutine runs at a time, in a fixed order, so which inputs share a pass depends on the inputs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.operators.loss_hessian import LossHessian


@dataclass
class Request:
    """The products that one input waits for.

    Attributes:
        hessian: the H of the input.
        rows: the vectors to multiply H with.
        products: the products of the first rows, as far as they are computed.
    """

    hessian: LossHessian
    rows: Tensor
    products: list[Tensor] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether the product of every row is computed."""
        return len(self.products) == len(self.rows)

    @property
    def left(self) -> Tensor:
        """The rows whose products are not computed yet."""
        return self.rows[len(self.products) :]


class Rendezvous:
    """Where the coroutines of one thread wait for each other.

    Args:
        stopped: returns whether to give up. It is called after each round, in which every coroutine had one turn.
    """

    def __init__(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start with no coroutines."""
        self._stopped = stopped
        self._running: list[greenlet] = []
        self._requests: dict[int, Request] = {}
        self._joined: tuple[list[int], LossHessian | None] = [], None

    def run(self, work: Callable[[], None], members: int) -> None:
        """Run a function in several coroutines, until all have returned, one has failed, or `stopped` returns True.

        Args:
            work: the function.
            members: the number of coroutines.
        """
        self._running = [greenlet(work) for _ in range(members)]
        try:
            while self._running and not self._stopped():
                for coroutine in list(self._running):
                    # The coroutine runs until it waits in `ask` or returns.
                    coroutine.switch()
                    if coroutine.dead:
                        self._running.remove(coroutine)
        finally:
            for coroutine in self._running:
                coroutine.throw()

    def ask(self, number: int, request: Request) -> None:
        """Wait until all products of a request are computed. To be called by one of the coroutines.

        Args:
            number: the number of the input.
            request: what the input waits for.
        """
        self._requests[number] = request
        while not request.done:
            if len(self._requests) < len(self._running):
                getcurrent().parent.switch()
            else:
                self._take_pass()

    def _take_pass(self) -> None:
        """Compute the product of one row of each waiting input, or of all rows if only one input waits.

        Passes stay full: when a short request is done, its coroutine asks again while longer requests still wait.
        """
        # In a fixed order, because the coroutine that took the last pass asks before the others.
        numbers = sorted(self._requests)
        requests = [self._requests[number] for number in numbers]
        if len(requests) == 1:
            requests[0].products.extend(requests[0].hessian.times_rows(requests[0].left))
        else:
            for request, product in zip(requests, self._products(numbers, requests), strict=True):
                request.products.append(product)
        self._requests = {number: request for number, request in self._requests.items() if not request.done}

    def _products(self, numbers: list[int], requests: Sequence[Request]) -> Sequence[Tensor]:
        # The last joined operator is kept, because the same inputs usually ask again.
        if numbers != self._joined[0]:
            first, *others = (request.hessian for request in requests)
            self._joined = numbers, first.joined(others)
        joint = self._joined[1]
        if joint is None:
            return [request.hessian @ request.left[0] for request in requests]
        return list(joint.times_own_rows(torch.stack([request.left[0] for request in requests])))


class SharedOperator(SymmetricOperator):
    """The H of one input, whose products are taken together with those of other inputs.

    Args:
        hessian: H itself.
        number: the number of the input.
        rendezvous: where the operator waits for those of the other inputs.
    """

    def __init__(self, hessian: LossHessian, number: int, rendezvous: Rendezvous) -> None:
        """Take over `psd` from H."""
        self.hessian, self.number, self.rendezvous, self.psd = hessian, number, rendezvous, hessian.psd

    @property
    def size(self) -> int:
        """The number of rows and columns of H."""
        return self.hessian.size

    def times_rows(self, rows: Tensor) -> Tensor:
        """Wait for the other inputs, and return H times each row."""
        request = Request(self.hessian, rows)
        self.rendezvous.ask(self.number, request)
        return torch.stack(request.products)
