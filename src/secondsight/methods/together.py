"""The inputs of a batch side by side: each asks for its products, and those of several are taken in one pass.

On the CPU, one thread for each group of inputs is faster than all threads on one product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from secondsight.curvature.hessian import LossHessian
from secondsight.curvature.joint import Joint, tape_of
from secondsight.explanation import Explanation
from secondsight.solve.asking import Asking, answered

MOST_GROUPS = 8
"""At a time: each of their inputs holds a tape and a basis."""


@dataclass(frozen=True)
class Task:
    """One input's way to its explanation, which asks for products with the Hessian there."""

    hessian: LossHessian
    asking: Asking[Explanation]

    def finish(self) -> Explanation:
        return answered(self.asking, self.hessian.product)


def side_by_side(start: Callable[[int], Task], count: int) -> list[Explanation]:
    """The explanations of `count` inputs.

    `start` runs the network, and products without a tape do: never two threads at a time, for networks may keep what
    they compute in themselves.
    """
    first = start(0)
    tape = tape_of(first.hessian)
    if tape is None:
        return [first.finish(), *(start(i).finish() for i in range(1, count))]
    threads = torch.get_num_threads() if tape.logits.device.type == "cpu" else 1
    groups = min(threads, MOST_GROUPS, count)
    # An input more in a pass costs what a direction more does.
    size = min(tape.directions, math.ceil(count / groups))
    parts = [range(i, min(i + size, count)) for i in range(0, count, size)]
    lock = Lock()

    def begun(i: int) -> Task | Explanation:
        with lock:
            task = first if i == 0 else start(i)
            return task.finish() if tape_of(task.hessian) is None else task

    def explained(part: range) -> list[Explanation]:
        return _finished([begun(i) for i in part])

    if groups == 1:
        return [e for part in parts for e in explained(part)]
    with _pool(groups, threads) as pool:
        return [e for part in pool.map(explained, parts) for e in part]


def _finished(begun: Sequence[Task | Explanation]) -> list[Explanation]:
    """All of them, in rounds of one question each; those that are done drop out."""
    joint = Joint()
    tasks = {i: task for i, task in enumerate(begun) if isinstance(task, Task)}
    results = {i: done for i, done in enumerate(begun) if isinstance(done, Explanation)}
    answers: dict[int, Tensor | None] = dict.fromkeys(tasks)
    while answers:
        questions = {}
        for i, answer in answers.items():
            try:
                # The first thing sent to a generator is None.
                questions[i] = tasks[i].asking.send(answer)  # type: ignore[arg-type]
            except StopIteration as end:
                results[i] = end.value
        products = joint.products([tasks[i].hessian for i in questions], list(questions.values()))
        answers = dict(zip(questions, products, strict=True))
    return [results[i] for i in range(len(begun))]


@contextmanager
def _pool(workers: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that share torch's own; after an error nothing new is begun."""
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        # What the workers set holds for them, and for threads that come later.
        torch.set_num_threads(threads)
