"""One thread at a time: locks for networks, and torch's switches that all threads share.

Explaining sets a network to eval mode, freezes it, and puts it back. If two threads did so at the same time, each would
put back what the other one has set. Torch's switches for attention belong to the process: the first thread that needs
them sets them, and the last one puts them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

_GUARD = Lock()  # Held while a lock is looked up or made.
_LOCKS: WeakKeyDictionary[object, Any] = WeakKeyDictionary()  # Not in the network, because locks cannot be copied.


@contextmanager
def locked(net: object) -> Iterator[None]:
    """Keep other threads from a network, and from other networks that have modules in common with it.

    Each module has a lock, because a network may also be part of another one. A thread that holds the locks may take
    them again.
    """
    parts = sorted(set(net.modules()), key=id) if isinstance(net, nn.Module) else [net]
    with ExitStack() as stack:
        # All threads take locks in the same order, that of the addresses, so that no two wait for each other.
        for part in parts:
            stack.enter_context(_lock_of(part))
        yield


def _lock_of(part: object) -> Any:
    with _GUARD:
        try:
            return _LOCKS.setdefault(part, RLock())
        except TypeError:
            # Built-in functions cannot be referred to weakly. They have no settings that threads could change.
            return RLock()


class _AttentionSwitches:
    """Turns off fused attention, which cannot be differentiated twice, while at least one thread is in the context."""

    def __init__(self) -> None:
        self.lock, self.users, self.undo = Lock(), 0, ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.users == 0:
                self._set()
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0:
                    self.undo.close()

    def _set(self) -> None:
        # Fused attention has neither forward mode nor a second derivative.
        self.undo.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        self.undo.enter_context(sdpa_kernel(SDPBackend.MATH))


plain_attention = _AttentionSwitches()
"""A context in which torch computes attention from plain operations: `with plain_attention():`."""
