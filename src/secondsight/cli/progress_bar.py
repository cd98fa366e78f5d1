"""The progress bar of long work on a terminal."""

from __future__ import annotations

import sys
from threading import Timer
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from secondsight.cli.console import printable
from secondsight.interrupts import begin_work

PATIENCE = 2.0
"""Seconds of work before the bar shows, so that short work leaves the terminal quiet."""


class ProgressBar:
    """A bar on stderr, used as a context manager.

    It shows only on a terminal and only after PATIENCE seconds, and it is erased at the end.

    Args:
        photographs: how many there are to work on. With one there is no known end, and the bar pulses.
        hidden: never show the bar.
    """

    def __init__(self, photographs: int, hidden: bool = False) -> None:
        """Prepare the bar; entering the context starts its clock."""
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[products]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._bar.add_task("model", total=photographs if photographs > 1 else None, products="")
        self._photographs = photographs
        self._timer = Timer(PATIENCE, self._bar.start)
        self._timer.daemon = True
        self._shown = sys.stderr.isatty() and not self._bar.console.is_dumb_terminal and not hidden

    def __enter__(self) -> Self:
        """Start the clock after which the bar shows. From here on Ctrl-C raises KeyboardInterrupt, for the clean-up."""
        begin_work()
        if self._shown:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Erase the bar. Errors pass through."""
        self._timer.cancel()
        if self._shown:
            # The timer may be starting the bar just now.
            self._timer.join()
            self._bar.stop()

    def start_photograph(self, number: int, name: str) -> None:
        """Name the photograph that the work goes on to.

        Args:
            number: its place, from 0.
            name: what to show.
        """
        description = (
            f"{printable(name)} ({number + 1} of {self._photographs})" if self._photographs > 1 else printable(name)
        )
        self._name = description
        self._bar.update(self._task, description=description, completed=number, products="")

    def start_method(self, name: str) -> None:
        """Name the next method on the same photograph."""
        self._bar.update(self._task, description=f"{self._name}, {name}", products="")

    def show_products(self, taken: float) -> None:
        """Show how many Hessian products the current call has taken so far.

        Args:
            taken: the products of all photographs that are explained in this call. Smooth methods count in fractions.
        """
        self._bar.update(self._task, products=f"{taken:.3g} H-products")
