"""Many inputs on all of torch's threads: lines of inputs, whose threads share passes.

On the CPU, several passes with a thread each are faster than all threads on one pass. So the inputs are dealt out to
lines, one for each of torch's threads, and the inputs of a line share passes. At the end, the last inputs of all lines
share passes that run on all threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Generic, TypeVar

import torch

from secondsight.batching.rendezvous import Rendezvous, Request, SharedOperator, StoppedError
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.loss_hessian import LossHessian

T = TypeVar("T")

Share = Callable[[LossHessian], SymmetricOperator]
"""From the H of one input to the operator that its solver calls."""

MOST_LINES = 8
"""Lines at a time. Each holds the tapes and bases of several inputs: more would fill the memory of large machines."""

LARGEST_BLOCK = 31 * 2**20
"""Bytes, just below the 32 MB where glibc stops counting freed blocks."""


@dataclass(frozen=True)
class Task(Generic[T]):
    """One input that the network has seen.

    Attributes:
        hessian: the H of the input.
        solve: solves the input with the operator that it is given for H.
    """

    hessian: LossHessian
    solve: Callable[[Share], T]

    def solve_alone(self) -> T:
        """Solve with products of its own."""
        return self.solve(lambda hessian: hessian)


Begin = Callable[[Sequence[int]], list[Task[T]]]
"""From the numbers of inputs to their tasks. It runs the network."""


def side_by_side(begin: Begin[T], count: int) -> list[T]:
    """Solve `count` inputs, and return the results in their order.

    The network is never run by two threads at a time, because networks may keep what they compute in themselves. Inputs
    whose products run the network are therefore solved alone.
    """
    (first,) = begin([0])
    jacobian = first.hessian.shared_jacobian
    if jacobian is None:
        return [first.solve_alone(), *(begin([i])[0].solve_alone() for i in range(1, count))]
    threads = torch.get_num_threads() if jacobian.x.device.type == "cpu" else 1
    number = max(1, min(threads, MOST_LINES, count // 2))
    crew = Crew(begin, number, jacobian.directions, threads)
    for i, line in enumerate(crew.lines):
        line.queue.extend(range(i or number, count, number))
    crew.lines[0].begun.append((0, first))
    crew.run()
    return [crew.results[i] for i in range(count)]


class Crew(Generic[T]):
    """The lines of one call, and what they share.

    Args:
        begin: begins some inputs.
        number: how many lines there are.
        size: how many inputs share a pass. One more in a pass costs as much as one direction more.
        threads: torch's threads, to be shared by the lines.
    """

    def __init__(self, begin: Begin[T], number: int, size: int, threads: int) -> None:
        """Make the lines, without inputs."""
        self.begin, self.size, self.threads, self.share = begin, size, threads, threads // number
        self.network, self.stop = Lock(), Event()
        self.results: dict[int, T] = {}
        self.errors: list[BaseException] = []
        # The last inputs of the lines meet here, when all of torch's threads are free.
        self.last = Rendezvous(number, size, self.stop, partial(torch_threads, threads, self.share))
        self.lines = [Line(self) for _ in range(number)]

    def run(self) -> None:
        """Run every line to its end. After an error nothing goes on, and the first error is raised."""
        # Begun before there are threads, which could only run the network one after the other.
        for line in self.lines:
            line.fetch()
        # glibc gives memory back to the system, at a price, beyond twice the largest block that it has seen freed.
        torch.empty(LARGEST_BLOCK, dtype=torch.uint8)
        members = [line for line in self.lines for _ in range(line.open())]
        try:
            with ThreadPoolExecutor(len(members), initializer=torch.set_num_threads, initargs=(self.share,)) as pool:
                try:
                    for done in [pool.submit(line.work) for line in members]:
                        done.result()
                except BaseException as error:
                    self.fail(error)
        finally:
            torch.set_num_threads(self.threads)
        if self.errors:
            raise self.errors[0]

    def fail(self, error: BaseException) -> None:
        """Keep an error, and wake the threads that wait for the last inputs of other lines."""
        if not isinstance(error, StoppedError):
            self.errors.append(error)
        self.stop.set()
        with self.last.turn:
            self.last.turn.notify_all()


class Line(Generic[T]):
    """Inputs that share passes, some at a time. As one is solved, the next one comes in.

    Attributes:
        queue: the numbers of inputs that the network has not seen.
        begun: inputs that no thread solves yet.
    """

    def __init__(self, crew: Crew[T]) -> None:
        """Start without inputs."""
        self.crew = crew
        self.queue: deque[int] = deque()
        self.begun: deque[tuple[int, Task[T]]] = deque()
        self.group = Rendezvous(0, crew.size, crew.stop)

    def open(self) -> int:
        """Decide how many threads this line needs: one for each input that shares a pass."""
        self.group.members = max(1, min(self.crew.size, len(self.queue) + len(self.begun)))
        return self.group.members

    def work(self) -> None:
        """Solve inputs of this line until none is left: what one of its threads does."""
        with self.group.turn:
            try:
                while (found := self._next()) is not None:
                    number, task = found
                    self.crew.results[number] = task.solve(partial(self._shared, number))
            except BaseException as error:
                self.crew.fail(error)
            finally:
                self._leave()

    def fetch(self) -> None:
        """Begin as many inputs as share a pass, because the network takes them in one pass, too."""
        with self.crew.network:
            numbers = [self.queue.popleft() for _ in range(min(self.crew.size, len(self.queue)))]
            if not numbers:
                return
            for number, task in zip(numbers, self.crew.begin(numbers), strict=True):
                if task.hessian.shared_jacobian is None:
                    self.crew.results[number] = task.solve_alone()
                else:
                    self.begun.append((number, task))

    def _next(self) -> tuple[int, Task[T]] | None:
        while not self.begun and self.queue:
            self.fetch()
        return self.begun.popleft() if self.begun else None

    def _shared(self, number: int, hessian: LossHessian) -> SharedOperator:
        return SharedOperator(hessian, partial(self._meet, number))

    def _meet(self, number: int, request: Request) -> None:
        """Meet the other inputs of this line, or as the last of them the last inputs of other lines."""
        self.group.ask(number, request, until=self._is_last)
        if not request.done:
            with self.crew.last.turn:
                self.crew.last.ask(number, request)

    def _is_last(self) -> bool:
        return self.group.members == 1 and not self.begun and not self.queue and len(self.crew.lines) > 1

    def _leave(self) -> None:
        self.group.leave()
        if self.group.members == 0:
            with self.crew.last.turn:
                self.crew.last.leave()


@contextmanager
def torch_threads(during: int, after: int) -> Iterator[None]:
    """Give this thread a number of torch's threads for a while."""
    torch.set_num_threads(during)
    try:
        yield
    finally:
        torch.set_num_threads(after)
