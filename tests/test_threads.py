"""Several threads on one network: maps are right, nothing is left changed, and no thread waits for ever."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from secondsight.captum import CASO
from secondsight.model.network_lock import locked, plain_attention

THREADS, EACH = 6, 4
TIMEOUT = 120


def network() -> nn.Sequential:
    """In training mode, as a user may have it. Batch norm would change its statistics there."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(6 * 36, 5)]
    return nn.Sequential(*layers).train()


def inputs(count: int) -> list[Tensor]:
    return list(torch.rand((count, 3, 8, 8), generator=torch.Generator().manual_seed(1)))


def in_threads(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run all at once, each in a thread of its own, and fail instead of waiting for ever."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        ends = [pool.submit(run, work) for work in works]
        return [end.result(TIMEOUT) for end in ends]


@pytest.mark.parametrize("wrappers", [1, THREADS], ids=["one wrapper", "a wrapper each"])
@pytest.mark.parametrize("method", [ss.CASO(), ss.CAFO(), ss.SmoothCAFO(n=3), ss.Gradient()], ids=str)
def test_threads_get_the_maps_that_one_gets(method: ss.Method, wrappers: int) -> None:
    net = network()
    before = copy.deepcopy(net.state_dict())
    net[0].weight.requires_grad_(False)
    models = [ss.Classifier(net, size=8) for _ in range(wrappers)]
    x = inputs(EACH)
    alone = [ss.explain(ss.Classifier(copy.deepcopy(net), size=8), one, method) for one in x]
    works = [lambda i=i: [ss.explain(models[i % wrappers], one, method, seed=0) for one in x] for i in range(THREADS)]
    for found in in_threads(works):
        for e, right in zip(found, alone, strict=True):
            torch.testing.assert_close(e.delta, right.delta, rtol=1e-4, atol=1e-6 * float(right.delta.abs().max()))
    assert all(module.training for module in net.modules())
    assert [parameter.requires_grad for parameter in net.parameters()] == [False] + [True] * 5
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_batches_calls_and_generators_do_not_wait_for_each_other_for_ever() -> None:
    """Every public way to a network at once. Our own workers never ask for the lock."""
    net = network()
    model, x = ss.Classifier(net, size=8), inputs(6)
    works: list[Callable[[], Any]] = [
        lambda: ss.explain(model, x),
        lambda: list(ss.explain_batches(model, torch.stack(x))),
        lambda: ss.compare(model, x[0], "gradient,caso"),
        lambda: ss.sweep(model, x[0]),
        lambda: ss.input_hessian(model, x[0]).eigh(2),
        lambda: CASO(net).attribute(torch.stack(x), target=0),
        lambda: model(torch.stack(x)),
    ]
    assert len(in_threads(works)) == len(works)
    assert all(module.training for module in net.modules())


def test_a_generator_lets_go_between_its_results() -> None:
    net = network()
    model = ss.Classifier(net, size=8)
    results = ss.explain_batches(model, torch.stack(inputs(3)), "cafo")
    next(results)
    assert all(module.training for module in net.modules())
    (other,) = in_threads([lambda: ss.explain(model, inputs(1)[0], "cafo")])
    assert other.delta.any()
    assert len(list(results)) == 2


def test_an_error_in_one_thread_frees_the_network_for_the_others() -> None:
    model = ss.Classifier(network(), size=8)

    def wrong() -> bool:
        with pytest.raises(ss.InputError):
            ss.explain(model, inputs(1)[0], target=99)
        return True

    assert in_threads([wrong, wrong, lambda: bool(ss.explain(model, inputs(1)[0]).delta.any())]) == [True] * 3


def test_networks_with_a_part_in_common_wait_for_each_other_and_others_do_not() -> None:
    shared, apart = network(), network()
    both, one = nn.Sequential(shared, nn.Identity()), nn.Sequential(nn.Identity(), shared)

    def waits(net: nn.Module) -> bool:
        """Whether another thread cannot have the network now."""
        done = threading.Event()

        def take() -> None:
            with locked(net):
                done.set()

        threading.Thread(target=take, daemon=True).start()
        return not done.wait(0.3)

    with locked(both), locked(both):
        assert waits(one)
        assert waits(shared)
        assert not waits(apart)
    assert not waits(one)


def test_a_wrapper_can_be_copied() -> None:
    model = ss.Classifier(network(), size=8)
    with model.ready():
        assert pickle.loads(pickle.dumps(model)).size == model.size
    assert copy.deepcopy(model).size == model.size


def test_the_switches_of_attention_are_put_back_by_the_last_thread() -> None:
    def switches() -> tuple[bool, ...]:
        cuda = torch.backends.cuda
        return (
            torch.backends.mha.get_fastpath_enabled(),
            cuda.flash_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
            cuda.math_sdp_enabled(),
        )

    before = switches()
    first, second = plain_attention(), plain_attention()
    first.__enter__()
    second.__enter__()
    assert switches()[:3] == (False, False, False)
    first.__exit__(None, None, None)
    assert switches()[:3] == (False, False, False)
    second.__exit__(None, None, None)
    assert switches() == before


def test_a_process_with_threads_ends() -> None:
    """The locks keep no process alive."""
    code = (
        "import threading, torch, secondsight as ss\n"
        "model = ss.Classifier(torch.nn.Linear(4, 3), input_shape=(4,))\n"
        "threads = [threading.Thread(target=ss.explain, args=(model, torch.rand(4))) for _ in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert done.stdout == "done\n"
