"""A busy machine: maps take one thread, and the user's number is restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import secondsight as ss
from cases import lively
from secondsight import threads
from secondsight.optim.caso import CasoSolver
from secondsight.threads import CoreWatch, one_thread


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def network() -> ss.Classifier:
    return ss.Classifier(lively(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), 0), input_shape=(6,))


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("method", ["caso", "smooth-caso(n=2)", "caso(certify=path)"])
def test_one_thread_where_it_is_busy(busy: bool, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()
    solve: Any = CasoSolver._solve_at

    def watched(*arguments: Any) -> Any:
        seen.append(torch.get_num_threads())
        return solve(*arguments)

    monkeypatch.setattr(CoreWatch, "is_busy", lambda self: busy)
    monkeypatch.setattr(CasoSolver, "_solve_at", watched)
    assert ss.explain(network(), torch.rand(6, dtype=torch.float64), method).delta.any()
    assert set(seen) == {1 if busy else 3}
    assert torch.get_num_threads() == 3


def test_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(CoreWatch, "is_busy", lambda self: True)
    monkeypatch.setattr(CasoSolver, "_solve_at", fail)
    with pytest.raises(KeyboardInterrupt):
        ss.explain(network(), torch.rand(6, dtype=torch.float64))
    assert torch.get_num_threads() == 3


def test_never_more_than_the_users() -> None:
    torch.set_num_threads(1)
    with one_thread(when=True):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def test_a_thread_that_waits_is_busy_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"perf_counter": 0.0, "thread_time": 0.0}
    for name in clocks:
        monkeypatch.setattr(threads.time, name, lambda name=name: clocks[name])
    watch, other = CoreWatch(torch.device("cpu")), CoreWatch(torch.device("meta"))
    clocks |= {"perf_counter": 1.0, "thread_time": 0.9}
    assert not watch.is_busy()
    clocks |= {"perf_counter": 2.0, "thread_time": 1.0}
    assert watch.is_busy()
    assert not other.is_busy()
