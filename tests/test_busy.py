"""A busy machine: the solver takes one thread, the network all that the user has set, and nothing stays changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from cases import lively
from secondsight import threads
from secondsight.optim.caso import CasoSolver
from secondsight.threads import CoreWatch, all_threads, one_thread


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


class Watched(nn.Module):
    """Notes torch's threads at each of its passes, and those at each of its products by a hook on the gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.net = lively(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), 0)
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(torch.get_num_threads())
        return self.net(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("method", ["caso", "cafo", "smooth-caso(n=2)", "caso(certify=path)"])
def test_only_the_solver_has_fewer_threads(busy: bool, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, solver = Watched(), list[int]()
    solve: Any = CasoSolver._solve_at

    def watched(*arguments: Any) -> Any:
        solver.append(torch.get_num_threads())
        return solve(*arguments)

    monkeypatch.setattr(CoreWatch, "is_busy", lambda self: busy)
    monkeypatch.setattr(CasoSolver, "_solve_at", watched)
    e = ss.explain(ss.Classifier(net, input_shape=(6,)), torch.rand(6, dtype=torch.float64), method)
    assert e.delta.any()
    assert set(net.seen) == {3}
    assert set(solver) == (set() if method == "cafo" else {1 if busy else 3})
    assert torch.get_num_threads() == 3


def test_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(CoreWatch, "is_busy", lambda self: True)
    monkeypatch.setattr(CasoSolver, "_solve_at", fail)
    with pytest.raises(KeyboardInterrupt):
        ss.explain(ss.Classifier(Watched(), input_shape=(6,)), torch.rand(6, dtype=torch.float64))
    assert torch.get_num_threads() == 3


def test_one_thread_stays_one() -> None:
    torch.set_num_threads(1)
    with one_thread(when=True), all_threads():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def test_all_threads_are_the_users() -> None:
    with all_threads():
        assert torch.get_num_threads() == 3
    with one_thread(when=True):
        with all_threads():
            assert torch.get_num_threads() == 3
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
