"""Torch's threads on a busy machine.

Torch's threads wait for each other at the end of every operation. Where another program uses the same cores, each wait
may last until that program has had its turn: some milliseconds. A map has thousands of operations, so it may take many
times as long (bench/load.py). A single thread has no other thread to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from secondsight.devices import policy

BUSY = 0.8
"""A thread that computes has a core to itself nearly all the time. Below this share, another program has it, too."""


class CoreWatch:
    """Measures, from when it is made, which share of the time this thread was running."""

    def __init__(self, device: torch.device) -> None:
        """Start. Passes on another device than the CPU tell nothing."""
        self.tells = policy(device).computes_here
        self.start, self.own_start = time.perf_counter(), time.thread_time()

    def is_busy(self) -> bool:
        """Whether another program seems to have the cores, too."""
        passed, own = time.perf_counter() - self.start, time.thread_time() - self.own_start
        return self.tells and own < BUSY * passed


@contextmanager
def one_thread(when: bool) -> Iterator[None]:
    """Let torch have one thread, if `when` is set. The number that the user has set is restored, also after errors."""
    threads = torch.get_num_threads()
    if not when or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
