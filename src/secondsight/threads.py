"""Torch's threads on a busy machine.

Torch's threads wait for each other at the end of every operation. Where another program has the cores, each such wait
may take a turn of the scheduler. The solver has thousands of operations that are too short for that. On a busy machine
it takes one thread, and only the passes through the network take all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

BUSY = 0.8
"""A thread that computes has a core to itself nearly all the time. Below this share, another program has it, too."""

_user: ContextVar[int | None] = ContextVar("_user", default=None)
"""The number of threads that the user has set, while there are fewer."""


class CoreWatch:
    """Measures, from when it is made, which share of the time this thread was running."""

    def __init__(self, device: torch.device) -> None:
        """Start. Passes on another device than the CPU tell nothing."""
        self.tells = device.type == "cpu"
        self.start, self.own_start = time.perf_counter(), time.thread_time()

    def is_busy(self) -> bool:
        """Whether another program seems to have the cores, too."""
        passed, own = time.perf_counter() - self.start, time.thread_time() - self.own_start
        return self.tells and own < BUSY * passed


@contextmanager
def one_thread(when: bool) -> Iterator[None]:
    """Let torch have one thread, if wanted, except within `all_threads`. The number is restored, also after errors."""
    threads = torch.get_num_threads()
    if not when or threads == 1:
        yield
        return
    token = _user.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _user.reset(token)


@contextmanager
def all_threads() -> Iterator[None]:
    """Let torch have the threads that the user has set."""
    threads = _user.get()
    if threads is None:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(1)
