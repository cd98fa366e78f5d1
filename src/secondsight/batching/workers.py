"""Many inputs on all of torch's threads: lines of inputs that share passes.

On the CPU, several passes with a thread each are faster than all threads on one pass. So the inputs are dealt out to
lines, one for each of torch's threads, and the inputs of a line share passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Generic, TypeVar

import torch

from secondsight.batching.rendezvous import Rendezvous, SharedOperator
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
    network, stop = Lock(), Event()
    # One more input in a pass costs as much as one more direction.
    lines = [Line(begin, range(i or number, count, number), jacobian.directions, network, stop) for i in range(number)]
    lines[0].begun.append((0, first))
    # Begun before there are threads, which could only run the network one after the other.
    for line in lines:
        line.fetch()
    if number == 1:
        lines[0].work()
    else:
        _work_in_threads(lines, threads, stop)
    results = {i: result for line in lines for i, result in line.results.items()}
    return [results[i] for i in range(count)]


class Line(Generic[T]):
    """Inputs that one thread solves, several at a time, so that they share passes. As one is done, the next comes in.

    Args:
        begin: begins some inputs.
        queue: the numbers of the inputs.
        size: how many share a pass.
        network: held while the network runs.
        stop: set when another line has failed.

    Attributes:
        begun: inputs that the network has seen, and that are not being solved yet.
        results: the result of each input that was solved.
    """

    def __init__(self, begin: Begin[T], queue: Iterable[int], size: int, network: Lock, stop: Event) -> None:
        """Begin nothing yet."""
        self.begin, self.queue, self.size, self.network = begin, deque(queue), size, network
        self.begun: deque[tuple[int, Task[T]]] = deque()
        self.results: dict[int, T] = {}
        self.rendezvous = Rendezvous(stop.is_set)

    def work(self) -> None:
        """Solve all inputs of this line."""
        self.rendezvous.run(self._solve_inputs, members=self.size)

    def fetch(self) -> None:
        """Begin as many inputs as share a pass, because the network takes them in one pass, too."""
        with self.network:
            numbers = [self.queue.popleft() for _ in range(min(self.size, len(self.queue)))]
            for number, task in zip(numbers, self.begin(numbers) if numbers else [], strict=True):
                if task.hessian.shared_jacobian is None:
                    self.results[number] = task.solve_alone()
                else:
                    self.begun.append((number, task))

    def _solve_inputs(self) -> None:
        """Solve one input after the other: what each coroutine of the line does."""
        while self.begun or self.queue:
            if self.begun:
                number, task = self.begun.popleft()
                self.results[number] = task.solve(partial(self._shared, number))
            else:
                self.fetch()

    def _shared(self, number: int, hessian: LossHessian) -> SharedOperator:
        return SharedOperator(hessian, number, self.rendezvous)


def _work_in_threads(lines: Sequence[Line[T]], threads: int, stop: Event) -> None:
    """Run each line in a thread, with its share of torch's threads. After an error, nothing goes on."""
    share = threads // len(lines)

    def work(line: Line[T]) -> None:
        try:
            line.work()
        except BaseException:
            stop.set()
            raise

    # glibc gives memory back to the system, at a price, beyond twice the largest block that it has seen freed.
    torch.empty(LARGEST_BLOCK, dtype=torch.uint8)
    mine, *others = lines
    try:
        with ThreadPoolExecutor(len(others), initializer=torch.set_num_threads, initargs=(share,)) as pool:
            ends = [pool.submit(work, line) for line in others]
            torch.set_num_threads(share)
            work(mine)
    finally:
        torch.set_num_threads(threads)
    for end in ends:
        end.result()
