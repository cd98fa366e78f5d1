"""The inputs of a batch side by side: each asks for its products, and those of several are taken in one pass.

On the CPU, several passes with a thread each are faster than all threads on one. Which inputs share a pass never
depends on how fast a thread is, so that results are reproducible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock

import torch
from torch import Tensor

from secondsight.curvature.hessian import LossHessian
from secondsight.curvature.joint import Joint, tape_of
from secondsight.explanation import Explanation
from secondsight.solve.asking import Asking, answered

MOST_LINES = 8
"""At a time: each of their inputs holds a tape and a basis."""
LARGEST_BLOCK = 31 * 2**20
"""Bytes: just below where glibc stops to count (32 MB)."""


@dataclass(frozen=True)
class Task:
    """One input's way to its explanation, which asks for products with the Hessian there."""

    hessian: LossHessian
    asking: Asking[Explanation]

    def finish(self) -> Explanation:
        return answered(self.asking, self.hessian.product)


Begin = Callable[[Sequence[int]], list[Task]]
"""From the numbers of inputs to their tasks."""


def side_by_side(begin: Begin, count: int) -> list[Explanation]:
    """The explanations of `count` inputs.

    `begin` runs the network, and products without a tape do: never two threads at a time, for networks may keep what
    they compute in themselves.
    """
    (first,) = begin([0])
    tape = tape_of(first.hessian)
    if tape is None:
        return [first.finish(), *(begin([i])[0].finish() for i in range(1, count))]
    threads = torch.get_num_threads() if tape.logits.device.type == "cpu" else 1
    number, lock = max(1, min(threads, MOST_LINES, count // 2)), Lock()

    def begun(indices: Sequence[int]) -> list[Task | Explanation]:
        with lock:
            return [task.finish() if tape_of(task.hessian) is None else task for task in begin(indices)]

    # An input more in a pass costs what a direction more does.
    lines = [Line(begun, range(i or number, count, number), tape.directions) for i in range(number)]
    lines[0].waiting.append((0, first))
    if number > 1:
        # Begun before there are threads, for they could only do so one after the other.
        for line in lines:
            line.fetch()
        _work(lines, threads)
    whole, *others = lines
    # The last of each line, for which all threads are free now.
    whole.take_over(others)
    whole.work(Event(), 1)
    return [whole.results[i] for i in range(count)]


class Line:
    """Inputs that one thread explains, so many in a pass; as some are done, the next come in.

    queue: those to be begun. waiting: begun, and not under way. questions: the rows whose products those under way
    want to know. answers: as many as are known by now.
    """

    def __init__(
        self, begun: Callable[[Sequence[int]], list[Task | Explanation]], queue: Iterable[int], size: int
    ) -> None:
        self.begun, self.queue, self.size = begun, deque(queue), size
        self.waiting: deque[tuple[int, Task]] = deque()
        self.tasks: dict[int, Task] = {}
        self.questions: dict[int, Tensor] = {}
        self.answers: dict[int, list[Tensor]] = {}
        self.results: dict[int, Explanation] = {}
        self.joint = Joint()

    def work(self, stop: Event, fewest: int) -> None:
        """Until fewer are under way, and none are left to begin."""
        while not stop.is_set():
            while len(self.questions) < self.size and (self.waiting or self.queue):
                self._follow()
            if len(self.questions) < fewest and not (self.waiting or self.queue):
                break
            self._answer(list(self.questions)[: self.size])

    def _answer(self, asking: Sequence[int]) -> None:
        """A row of each, so that passes stay full; all rows of one who is alone."""
        hessians = [self.tasks[i].hessian for i in asking]
        left = [self.questions[i][len(self.answers[i]) :] for i in asking]
        if len(asking) == 1:
            self.answers[asking[0]].extend(hessians[0].product(left[0]))
        else:
            for i, product in zip(asking, self.joint.products(hessians, [rows[0] for rows in left]), strict=True):
                self.answers[i].append(product)
        for i in asking:
            if len(self.answers[i]) == len(self.questions[i]):
                self._tell(i, torch.stack(self.answers[i]))

    def fetch(self) -> None:
        """Begin as many as share a pass: the network takes them in one, too."""
        indices = [self.queue.popleft() for _ in range(min(self.size, len(self.queue)))]
        for i, task in zip(indices, self.begun(indices), strict=True):
            if isinstance(task, Task):
                self.waiting.append((i, task))
            else:
                self.results[i] = task

    def take_over(self, others: Iterable[Line]) -> None:
        for other in others:
            self.tasks |= other.tasks
            self.questions |= other.questions
            self.answers |= other.answers
            self.results |= other.results

    def _follow(self) -> None:
        """The next one comes in."""
        if not self.waiting:
            self.fetch()
        if self.waiting:
            i, self.tasks[i] = self.waiting.popleft()
            self._tell(i, None)

    def _tell(self, i: int, answer: Tensor | None) -> None:
        try:
            # The first thing sent to a generator is None.
            self.questions[i], self.answers[i] = self.tasks[i].asking.send(answer), []  # type: ignore[arg-type]
        except StopIteration as end:
            self.results[i] = end.value
            for kept in (self.tasks, self.questions, self.answers):
                kept.pop(i, None)


def _work(lines: Sequence[Line], threads: int) -> None:
    """All but the last of each, in threads that share torch's own. After an error, nothing goes on."""
    stop, share = Event(), threads // len(lines)

    def work(line: Line) -> None:
        try:
            line.work(stop, 2)
        except BaseException:
            stop.set()
            raise

    # The C library gives memory back to the system, at a price, beyond twice the largest block it has seen freed.
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
