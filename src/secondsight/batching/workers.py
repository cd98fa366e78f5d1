"""Many inputs on all of torch's threads: workers, each of which solves several inputs that share passes.

On the CPU, several passes with a thread each are faster than all threads on one pass. So the inputs are dealt out to
several workers, at most one for each of torch's threads. On other devices there is one worker.
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
from secondsight.devices import policy
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.loss_hessian import LossHessian

T = TypeVar("T")
"""What solving an input gives."""

Share = Callable[[LossHessian], SymmetricOperator]
"""From the H of one input to the operator that its solver calls."""

MOST_WORKERS = 8
"""Workers at a time. Each holds the tapes and bases of several inputs: more would fill the memory of large machines."""

LARGEST_BLOCK = 31 * 2**20
"""Bytes of the block that is freed to raise glibc's limit. It is just below 32 MB: larger blocks do not raise it."""


@dataclass(frozen=True)
class Task(Generic[T]):
    """One input that the network has seen.

    Attributes:
        hessian: the H of the input.
        solve: solves the input with the operator that its argument makes of H. With None, it uses H itself.
    """

    hessian: LossHessian
    solve: Callable[[Share | None], T]


Prepare = Callable[[Sequence[int]], list[Task[T]]]
"""From the numbers of inputs to their tasks. It runs the network."""


def side_by_side(prepare: Prepare[T], count: int) -> list[T]:
    """Solve inputs, several at a time if they can share passes.

    Two threads never run the network at the same time, because a network may store what it computes in itself. So an
    input whose products run the network is solved while no other thread runs it. If that is so for input 0, all inputs
    are solved one after the other.

    Args:
        prepare: makes the tasks of some inputs.
        count: the number of inputs.

    Returns:
        The results, in the order of the inputs.
    """
    (first,) = prepare([0])
    if not first.hessian.shareable:
        return [first.solve(None), *(prepare([i])[0].solve(None) for i in range(1, count))]
    threads = torch.get_num_threads() if policy(first.hessian.linear.x.device).computes_here else 1
    number = max(1, min(threads, MOST_WORKERS, count // 2))
    network, stop = Lock(), Event()
    workers = []
    for i in range(number):
        # Input 0 is prepared already: its worker goes on with input `number`.
        numbers = range(i or number, count, number)
        # One more input in a pass costs as much as one more direction, so as many inputs as directions share a pass.
        workers.append(Worker(prepare, numbers, first.hessian.directions, network, stop))
    workers[0].prepared.append((0, first))
    # Each worker's first inputs are prepared before the threads start, because only one thread may run the network.
    for worker in workers:
        worker.prepare_next()
    if number == 1:
        workers[0].work()
    else:
        _work_in_threads(workers, threads, stop)
    results = {i: result for worker in workers for i, result in worker.results.items()}
    return [results[i] for i in range(count)]


class Worker(Generic[T]):
    """Solves inputs in one thread, several at a time, so that they share passes. When one is solved, the next starts.

    Args:
        prepare: makes the tasks of some inputs.
        numbers: the numbers of the inputs.
        size: how many inputs share a pass.
        network: the lock that is held while the network runs.
        stop: an event. It is set when a worker has failed, and ends the work of all.

    Attributes:
        prepared: inputs that the network has seen, and that are not being solved yet.
        results: the result of each input that was solved.
    """

    def __init__(self, prepare: Prepare[T], numbers: Iterable[int], size: int, network: Lock, stop: Event) -> None:
        """Queue the inputs."""
        self.prepare, self.queue, self.size, self.network = prepare, deque(numbers), size, network
        self.prepared: deque[tuple[int, Task[T]]] = deque()
        self.results: dict[int, T] = {}
        self.rendezvous = Rendezvous(stop.is_set)

    def work(self) -> None:
        """Solve all inputs. Raise the error of one that fails."""
        self.rendezvous.run(self._solve_inputs, members=self.size)

    def prepare_next(self) -> None:
        """Prepare as many inputs as share a pass, because the network also takes them in one pass.

        An input whose products run the network is solved here, while the lock is held.
        """
        with self.network:
            numbers = [self.queue.popleft() for _ in range(min(self.size, len(self.queue)))]
            for number, task in zip(numbers, self.prepare(numbers) if numbers else [], strict=True):
                if not task.hessian.shareable:
                    self.results[number] = task.solve(None)
                else:
                    self.prepared.append((number, task))

    def _solve_inputs(self) -> None:
        """Solve one input after the other: what each coroutine of the worker does."""
        while self.prepared or self.queue:
            if self.prepared:
                number, task = self.prepared.popleft()
                self.results[number] = task.solve(partial(self._shared, number))
            else:
                self.prepare_next()

    def _shared(self, number: int, hessian: LossHessian) -> SharedOperator:
        return SharedOperator(hessian, number, self.rendezvous)


def _work_in_threads(workers: Sequence[Worker[T]], threads: int, stop: Event) -> None:
    """Run each worker in a thread, with its share of torch's threads. An error in one worker stops all workers."""
    share = threads // len(workers)

    def work(worker: Worker[T]) -> None:
        try:
            worker.work()
        except BaseException:
            stop.set()
            raise

    # Returning free memory to the system takes time. glibc does so when the free memory exceeds twice the largest block
    # freed so far. Freeing a large block raises this limit.
    torch.empty(LARGEST_BLOCK, dtype=torch.uint8, device="cpu")
    mine, *others = workers
    try:
        with ThreadPoolExecutor(len(others), initializer=torch.set_num_threads, initargs=(share,)) as pool:
            ends = [pool.submit(work, worker) for worker in others]
            torch.set_num_threads(share)
            work(mine)
    finally:
        torch.set_num_threads(threads)
    for end in ends:
        end.result()
