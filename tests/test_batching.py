"""The inputs of a batch side by side: the same explanations as one by one, whatever the threads and the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from cases import CURVED, PIECEWISE_LINEAR, Case, lively
from secondsight.batching.rendezvous import Rendezvous, Request
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import choose_hessian
from secondsight.operators.linearisation import linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.tape import folding, tape
from secondsight.operators.tape.linear_steps import Step
from secondsight.operators.tape.recorder import record_tape
from secondsight.operators.tape.tape import joined as joined_tapes
from secondsight.operators.tape_jacobian import TapeJacobian

CONV = PIECEWISE_LINEAR[3]


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def inputs(case: Case, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return list(torch.rand((count, *case.x.shape), generator=generator, dtype=torch.float64))


def hessian_at(model: ss.Classifier, x: Tensor, target: int | None = None) -> LossHessian:
    linear = linearise(model, x[None], target, record=True, joinable=True)
    return choose_hessian(linear)[0](linear)


def facts(e: ss.SecondOrderExplanation) -> tuple[object, ...]:
    # A network that was given up after one input says so at the next ones, whatever these are.
    notes = [note for note in e.notes if "no rule of the tape" not in note]
    return e.target, e.products, e.certificate.holds, e.certificate.basis, e.method, notes


def assert_same(together: list[ss.SecondOrderExplanation], alone: list[ss.SecondOrderExplanation]) -> None:
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a.delta, b.delta, rtol=1e-9, atol=1e-12)
        assert facts(a) == facts(b)
        assert a.lambda1 == pytest.approx(b.lambda1, rel=1e-9)
        assert a.certificate.relative_gap == pytest.approx(b.certificate.relative_gap, rel=1e-3, abs=1e-11)


@pytest.mark.parametrize("count", [2, 5, 11])
@pytest.mark.parametrize("case", [*PIECEWISE_LINEAR, *CURVED], ids=str)
def test_a_batch_gives_what_its_items_give(case: Case, count: int, threads: int) -> None:
    model, x = case.classifier(), inputs(case, count)
    alone = [ss.explain(model, one) for one in x]
    assert_same(ss.explain(model, x), alone)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("most", [1, 3])
def test_inputs_so_large_that_few_share_a_pass(most: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "DIRECTIONS", most)
    model, x = CONV.classifier(), inputs(CONV, 9)
    assert_same(ss.explain(model, x), [ss.explain(model, one) for one in x])


def test_every_point_certified() -> None:
    """Each asks for as many products as its path has points left."""
    model, x = CONV.classifier(), inputs(CONV, 3)
    alone = [ss.explain(model, one, ss.CASO(certify="path")) for one in x]
    assert_same(ss.explain(model, x, ss.CASO(certify="path")), alone)


@pytest.mark.parametrize("case", [CONV, *CURVED], ids=str)
def test_products_of_several_are_those_of_each(case: Case) -> None:
    """Whatever the size of the rows, the classes that are explained, and how sure the network is of each."""
    model, x = case.classifier(), inputs(case, 4)
    x[3] *= 20
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(4, x[0].numel(), generator=generator, dtype=torch.float64) * 10.0 ** torch.arange(4)[:, None]
    rows[1] *= 0
    with model.ready():
        hessians = [hessian_at(model, one, i % 2) for i, one in enumerate(x)]
        assert {hessian.kind for hessian in hessians} == {"gauss-newton" if case.piecewise_linear else "exact"}
        joint = hessians[0].joined(hessians[1:])
        assert joint is not None
        for _ in range(2):
            found = joint.times_own_rows(rows)
            for hessian, row, product in zip(hessians, rows, found, strict=True):
                wanted = hessian @ row
                torch.testing.assert_close(product, wanted, rtol=1e-9, atol=1e-12 * float(wanted.abs().max()))


def test_exact_products_without_a_trusted_tape_are_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CURVED[0]
    x = inputs(case, 3)
    expected = [ss.explain(case.classifier(), one) for one in x]
    monkeypatch.setattr(TapeJacobian, "curvature_agrees", lambda self: False)
    model = case.classifier()
    with model.ready():
        first, second = (hessian_at(model, one) for one in x[:2])
        assert (first.kind, first.shareable, first.joined([second])) == ("exact", False, None)
    for found, wanted in zip(ss.explain(model, x), expected, strict=True):
        torch.testing.assert_close(found.delta, wanted.delta, rtol=1e-4, atol=1e-7)


def test_products_go_through_the_network_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """While all four ask, none takes a product of its own."""
    model, x = CONV.classifier(), inputs(CONV, 4)
    ss.explain(model, x[0])
    alone: list[int] = []
    product = GaussNewton.times_rows

    def counted(self: GaussNewton, rows: Tensor) -> Tensor:
        alone.append(len(rows))
        return product(self, rows)

    monkeypatch.setattr(GaussNewton, "times_rows", counted)
    taken = [e.products for e in ss.explain(model, x)]
    longest = sorted(taken)
    assert sum(alone) <= longest[-1] - longest[-2]


def test_the_same_inputs_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining copies the masks of all inputs: it is paid again only when another set of inputs meets."""
    model, x = CONV.classifier(), inputs(CONV, 4)
    ss.explain(model, x)
    met: list[int] = []
    join = GaussNewton.joined

    def counted(self: GaussNewton, others: list[LossHessian]) -> GaussNewton | None:
        met.append(1 + len(others))
        return join(self, others)

    monkeypatch.setattr(GaussNewton, "joined", counted)
    explained = ss.explain(model, x)
    sets = len({e.products for e in explained})
    assert 1 <= len(met) <= sets


def normalised() -> nn.Module:
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 1), nn.BatchNorm2d(5), nn.ReLU()]
    return lively(nn.Sequential(*layers, nn.Flatten(), nn.Linear(5 * 4 * 4, 4)), 0)


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_folded_batch_norms_are_compared_with_the_network_too(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    net = normalised()
    model = ss.Classifier(net, input_shape=(3, 6, 6))
    x = list(torch.rand((5, 3, 6, 6), generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    alone = [ss.explain(model, one) for one in x]
    right, seen = folding._folded, []

    def wrong(step: Step, factor: Tensor | float) -> Step | None:
        seen.append(factor)
        return right(step, factor * (1 + error))

    monkeypatch.setattr(folding, "_folded", wrong)
    assert_same(ss.explain(model, x), alone)
    # One for each convolution, whatever the number of inputs.
    assert len(seen) == 2
    assert model.facts.leaves_tapes == (error == 0)


class Gated(nn.Module):
    """A gate that autograd does not see: at each input another linear map, and not only by its masks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y.relu() * y.detach())


def test_tapes_that_differ_in_more_than_masks_are_not_joined() -> None:
    model = ss.Classifier(lively(Gated(), 0), input_shape=(6,), piecewise_linear=True)
    x = list(torch.rand(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    with model.ready():
        tapes = [tape for tape in (record_tape(model, one[None]) for one in x) if tape is not None]
        assert len(tapes) == 4
        assert len({tape.signature for tape in tapes}) == 1
        assert joined_tapes(tapes) is None
        assert joined_tapes([tapes[0], tapes[0]]) is not None
    assert_same(ss.explain(model, x), [ss.explain(model, one) for one in x])


class Normalised(nn.Module):
    """Divides by the largest entry of all that it is given, unseen by autograd: in a batch, another input's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = lively(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), 0)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x / x.detach().abs().max())
        return result


def test_inputs_that_see_each_other_in_a_batch_are_recorded_one_by_one() -> None:
    model = ss.Classifier(Normalised(), input_shape=(6,))
    scales = torch.tensor([1.0, 5.0, 0.2, 30.0, 2.0], dtype=torch.float64)
    x = list(torch.rand(5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * scales[:, None])
    alone = [ss.explain(model, one) for one in x]
    assert model.facts.trusted_tapes
    assert_same(ss.explain(model, x), alone)
    assert model.facts.leaves_tapes


def test_the_network_runs_once_for_several_inputs(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = CONV.classifier(), inputs(CONV, 9)
    ss.explain(model, x[:2])
    passes: list[int] = []
    logits = ss.Classifier.logits

    def counted(self: ss.Classifier, x: Tensor) -> Tensor:
        passes.append(len(x))
        return logits(self, x)

    monkeypatch.setattr(ss.Classifier, "logits", counted)
    ss.explain(model, x)
    # The first alone, then the share of each thread, four at most.
    assert sorted(passes) == {1: [1, 4, 4], 2: [1, 4, 4], 3: [1, 2, 3, 3]}[threads]


def test_pictures_of_several_sizes() -> None:
    net = lively(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)), 0
    )
    model = ss.Classifier(net, channels=3)
    generator = torch.Generator().manual_seed(4)
    x = [torch.rand(3, side, side, generator=generator, dtype=torch.float64) for side in (6, 8, 6, 7)]
    assert_same(ss.explain(model, x), [ss.explain(model, one) for one in x])


class Jealous(nn.Module):
    """Keeps what it is about in itself, as some networks do: two threads at a time would spoil it.

    Long inputs are sorted, which leaves no tape: their products run the network.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.state, self.busy = (
            lively(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), 0),
            None,
            False,
        )

    def forward(self, x: Tensor) -> Tensor:
        assert not self.busy
        self.busy, self.state = True, x
        time.sleep(0.005)
        long = x.shape[1] > 5
        result: Tensor = self.layers(self.state.sort(1).values[:, :5].exp() if long else self.state)
        self.busy = False
        return result


def test_the_network_is_run_by_one_thread_at_a_time(threads: int) -> None:
    model = ss.Classifier(Jealous(), input_shape=(5,))
    x = list(torch.rand(12, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64))
    assert_same(ss.explain(model, x), [ss.explain(model, one) for one in x])


def test_inputs_without_a_tape_among_others(threads: int) -> None:
    model = ss.Classifier(Jealous(), input_shape=(5,))
    model.input_shape = (None,)
    generator = torch.Generator().manual_seed(6)
    x = [torch.rand(length, generator=generator, dtype=torch.float64) for length in (5, 5, 5, 7, 5, 8, 7, 5)]
    alone = [ss.explain(model, one, ss.CASO(curvature="gauss-newton")) for one in x]
    assert_same(ss.explain(model, x, ss.CASO(curvature="gauss-newton")), alone)


def test_several_threads_are_used(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    model, x = CONV.classifier(), inputs(CONV, 12)
    seen: dict[int, set[int]] = {}
    take_pass = Rendezvous._take_pass

    def watched(self: Rendezvous) -> None:
        seen.setdefault(threading.get_ident(), set()).add(torch.get_num_threads())
        take_pass(self)

    monkeypatch.setattr(Rendezvous, "_take_pass", watched)
    ss.explain(model, x)
    # A line for each thread, the caller's among them.
    assert threading.get_ident() in seen
    assert list(seen.values()) == [{1}] * threads
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [threads]


def test_an_error_in_the_middle(threads: int) -> None:
    net = CONV.net.train()
    model, x = ss.Classifier(net, input_shape=CONV.x.shape), inputs(CONV, 9)
    with pytest.raises(ss.InputError, match="target"):
        ss.explain(model, x, target=[0, 1, 0, 1, 0, 99, 0, 1, 0])
    assert net.training
    assert torch.get_num_threads() == threads
    net.eval()
    assert_same(ss.explain(model, x), [ss.explain(model, one) for one in x])


class StopError(Exception):
    pass


def test_progress_counts_all_products_and_can_stop(threads: int) -> None:
    model, x = CONV.classifier(), inputs(CONV, 6)
    told: list[float] = []
    explained = ss.explain(model, x, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == sum(e.products for e in explained)

    def stop(taken: float) -> None:
        if taken > 5:
            raise StopError

    with pytest.raises(StopError):
        ss.explain(model, x, progress=stop)
    assert torch.get_num_threads() == threads


def test_an_error_in_one_thread_stops_the_others() -> None:
    model, x = CONV.classifier(), inputs(CONV, 80)
    told: list[float] = []

    def stop(taken: float) -> None:
        told.append(taken)
        if len(told) == 9:
            raise StopError

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(StopError):
            ss.explain(model, x, progress=stop)
    finally:
        torch.set_num_threads(before)
    assert len(told) < 80


def test_the_time_of_a_call_is_shared() -> None:
    explained = ss.explain(CONV.classifier(), inputs(CONV, 4))
    assert len({e.seconds for e in explained}) == 1
    assert explained[0].seconds > 0


def test_an_empty_batch() -> None:
    assert ss.explain(CONV.classifier(), []) == []


def test_a_product_of_another_kind_is_taken_by_itself() -> None:
    class Twice(LossHessian):
        kind, psd = "twice", True

        def times_rows(self, rows: Tensor) -> Tensor:
            return 2 * rows

    model, x = CONV.classifier(), inputs(CONV, 2)
    with model.ready():
        first, second = (hessian_at(model, one) for one in x)
        twice = Twice(second.linear)
        assert first.joined([twice]) is None
        row = torch.ones(1, x[0].numel(), dtype=torch.float64)
        requests = [Request(first, row), Request(twice, row)]
        found = Rendezvous()._products([0, 1], requests)
        torch.testing.assert_close(found[0], first @ row[0])
        assert torch.equal(found[1], 2 * row[0])
