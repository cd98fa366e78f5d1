"""How far a run over a dataset is: a bar on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from secondsight.cli.console import complain
from secondsight.interrupts import begin_work

if TYPE_CHECKING:
    from secondsight.runs.standing import Standing

BETWEEN_LINES = 60.0
"""Seconds between two lines where there is no terminal: a log of a run of a day stays readable."""


class RunProgress:
    """Shows how far a run is, on stderr. It is used as a context manager, and the run calls it with its `Standing`."""

    def __init__(self) -> None:
        """Prepare the bar."""
        console = Console(stderr=True)
        self._terminal = sys.stderr.isatty() and not console.is_dumb_terminal
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._bar.add_task("model", total=None, pace="")
        self._last = time.perf_counter()

    def __enter__(self) -> Self:
        """Show the bar. From here on Ctrl-C raises KeyboardInterrupt, for the clean-up."""
        begin_work()
        if self._terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Erase the bar. Errors pass through."""
        if self._terminal:
            self._bar.stop()

    def __call__(self, standing: Standing) -> None:
        """Update the bar. Without a terminal, print a line at the start and at most every BETWEEN_LINES seconds."""
        if self._terminal:
            done = standing.before + standing.done
            words = f"{done:,} of {standing.total:,}" + _failed(standing)
            self._bar.update(self._task, total=standing.total, completed=done, description=words, pace=_pace(standing))
        elif time.perf_counter() - self._last >= BETWEEN_LINES or not standing.done:
            self._last = time.perf_counter()
            complain(in_words(standing), "note")


def in_words(standing: Standing) -> str:
    """Say how far a run is, in one line."""
    done = standing.before + standing.done
    words = f"{done:,} of {standing.total:,} items done{_failed(standing)}"
    if not standing.done:
        earlier = " by earlier starts" if standing.before else ""
        return words + earlier
    return f"{words}, {_pace(standing)}"


def duration(seconds: float) -> str:
    """Write a time as people say it: no more digits than an estimate has.

    >>> [duration(seconds) for seconds in (7, 95, 4000, 200_000)]
    ['7 s', '2 min', '1 h 07 min', '2 d 7 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _failed(standing: Standing) -> str:
    return f", {standing.failed:,} with an error" if standing.failed else ""


def _pace(standing: Standing) -> str:
    if standing.seconds_left is None:
        return ""
    pace = standing.done / standing.seconds
    each = f"{pace:.1f} a second" if pace >= 1 else f"{1 / pace:.1f} s each"
    return f"{each}, {duration(standing.seconds_left)} left"
