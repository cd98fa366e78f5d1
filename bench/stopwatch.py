"""A stopwatch for parts of a program: what a part spends inside another part counts there."""

from __future__ import annotations

import functools
import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """A function whose time has a name of its own.

    module: where the function is, below secondsight.
    function: its name, or CLASS.NAME.
    within: counted only inside that part. Elsewhere its time stays with the part that calls it.
    counted: whether its calls are counted, too.
    """

    name: str
    module: str = ""
    function: str = ""
    within: str | None = None
    counted: bool = False


class Stopwatch:
    """Seconds and calls by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._open: list[str] = []
        self._inner: list[float] = []

    def call(self, part: Part, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if part.within is not None and part.within not in self._open:
            return function(*args, **kwargs)
        self._open.append(part.name)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent = time.perf_counter() - start
            self._open.pop()
            self.seconds[part.name] += spent - self._inner.pop()
            self.calls[part.name] += part.counted
            if self._inner:
                self._inner[-1] += spent

    @contextmanager
    def watching(self, parts: Iterable[Part]) -> Iterator[None]:
        """Replace the functions of all parts by timed ones, and put them back."""
        with ExitStack() as stack:
            for part in parts:
                *path, name = part.function.split(".")
                owner = functools.reduce(getattr, path, importlib.import_module(f"secondsight.{part.module}"))
                function = getattr(owner, name)
                stack.callback(setattr, owner, name, function)
                setattr(owner, name, self._timed(part, function))
            yield

    def _timed(self, part: Part, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            return self.call(part, function, *args, **kwargs)

        return timed
