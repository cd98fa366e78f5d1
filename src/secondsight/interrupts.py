"""What Ctrl-C does while the command runs: it ends the command with one line, from the first moment on.

Loading torch takes seconds. Until work begins there is nothing to clean up, so Ctrl-C ends the process at once: an
interrupt that is raised while a library is loaded may come out as any error, or not at all.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""The exit code: by the convention of shells 128 plus the number of the signal, 2."""

MESSAGE = "secondsight: interrupted\n"
"""What Ctrl-C leaves on the terminal."""

MOMENT = 0.01
"""Seconds until a dropped interrupt is sent again: the destructor that dropped it has ended by then."""


def leave_at_once() -> None:
    """Let Ctrl-C end the process, unless it was started in the background and told to ignore it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


def begin_work() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from here on, because there may be something to clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _interrupt_again


def end_work() -> None:
    """Ignore Ctrl-C: what was asked is done, and leaving takes no time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt_again(unraisable: Any) -> None:
    """Interrupt once more where Python drops an interrupt: in a destructor, or as a weak reference dies."""
    if unraisable.exc_type is KeyboardInterrupt:
        threading.Timer(MOMENT, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(unraisable)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, MESSAGE.encode())
    os._exit(INTERRUPTED)
