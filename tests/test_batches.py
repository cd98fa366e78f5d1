"""explain_batches: many inputs from whatever holds them, one result after the other, and little of them in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import secondsight as ss
from cases import PIECEWISE_LINEAR, configured
from secondsight.call import CHUNK
from secondsight.config import METHODS

CONV, TABLE = PIECEWISE_LINEAR[3], PIECEWISE_LINEAR[0]
COUNT = CHUNK + 5
"""More than are held at a time."""


def inputs(count: int = COUNT, shape: tuple[int, ...] = tuple(TABLE.x.shape)) -> Tensor:
    return torch.rand((count, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def some_labels(count: int = COUNT) -> Tensor:
    return torch.randint(0, 4, (count,), generator=torch.Generator().manual_seed(2))


def assert_same(found: Iterable[ss.Explanation], expected: Iterable[ss.Explanation]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.delta, b.delta, rtol=1e-9, atol=1e-12)
        assert torch.equal(a.input, b.input)
        assert (type(a), a.target, a.method, a.seed, a.notes) == (type(b), b.target, b.method, b.seed, b.notes)


X, LABELS = inputs(), some_labels()
SOURCES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: X,
    "list of tensors": lambda: list(X.split(3)),
    "generator of tensors": lambda: (batch for batch in X.split(7)),
    "list of lists": lambda: [list(batch) for batch in X.split(4)],
    "list of tuples": lambda: [tuple(batch) for batch in X.split(3)],
    "loader": lambda: DataLoader(TensorDataset(X), batch_size=4),
    "loader of tensors": lambda: DataLoader(X, batch_size=4),
    "loader with labels": lambda: DataLoader(TensorDataset(X, LABELS), batch_size=6),
    "pairs": lambda: zip(X.split(2), LABELS.split(2), strict=True),
    "pairs of lists": lambda: [(list(X[:9]), LABELS[:9].tolist()), (list(X[9:]), LABELS[9:].tolist())],
    "unequal batches, one empty": lambda: [X[:1], X[:0], X[1:COUNT]],
}
LABELLED = ("loader with labels", "pairs", "pairs of lists")


@pytest.fixture(scope="module")
def alone() -> list[ss.Explanation]:
    model = TABLE.classifier()
    return [ss.explain(model, x) for x in X]


@pytest.mark.parametrize("source", SOURCES)
def test_whatever_holds_the_inputs(source: str, alone: list[ss.Explanation]) -> None:
    results = ss.explain_batches(TABLE.classifier(), SOURCES[source]())
    assert iter(results) is results
    assert_same(results, alone)


@pytest.mark.parametrize("source", LABELLED)
def test_labels_are_explained_on_request_only(source: str) -> None:
    model = TABLE.classifier()
    expected = [ss.explain(model, x, target=int(label)) for x, label in zip(X, LABELS, strict=True)]
    assert [e.target for e in expected] == LABELS.tolist()
    assert_same(ss.explain_batches(model, SOURCES[source](), use_labels=True), expected)
    predicted = [e.target for e in ss.explain_batches(model, SOURCES[source](), "cafo")]
    assert predicted == TABLE.net(X).argmax(1).tolist() != LABELS.tolist()


@pytest.mark.parametrize("source", sorted(SOURCES.keys() - LABELLED))
def test_labels_that_are_not_there(source: str) -> None:
    with pytest.raises(ss.InputError, match="batches must be inputs with labels, because use_labels is set, not"):
        list(ss.explain_batches(TABLE.classifier(), SOURCES[source](), "cafo", use_labels=True))


def test_labels_that_do_not_fit() -> None:
    with pytest.raises(
        ss.InputError, match="batches must be with one label for each of the 5 inputs, not with 4 labels"
    ):
        list(ss.explain_batches(TABLE.classifier(), [(X[:5], LABELS[:4])], "cafo", use_labels=True))
    with pytest.raises(ss.InputError, match="target must be a class index from 0 to 3"):
        list(ss.explain_batches(TABLE.classifier(), [(X[:5], LABELS[:5] + 4)], "cafo", use_labels=True))


def test_names_as_labels() -> None:
    model = ss.Classifier(TABLE.net, input_shape=TABLE.x.shape, labels=["ant", "bee", "cat", "dog"])
    results = ss.explain_batches(model, [(list(X[:3]), ["dog", "ant", "cat"])], "cafo", use_labels=True)
    assert [e.label for e in results] == ["dog", "ant", "cat"]


def test_one_target_for_all() -> None:
    model = TABLE.classifier()
    assert {e.target for e in ss.explain_batches(model, X, "cafo", target=3)} == {3}
    # Refused at once, before the first result is asked for.
    with pytest.raises(ss.InputError, match="target must be None where use_labels is set, not 3"):
        ss.explain_batches(model, [(X, LABELS)], "cafo", target=3, use_labels=True)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_the_seed(method: str) -> None:
    model, config = TABLE.classifier(), configured(method, n=3, n_steps=3, groups="none")
    expected = [ss.explain(model, x, config, seed=7) for x in X]
    assert_same(ss.explain_batches(model, X, config, seed=7), expected)


def test_pictures_and_files(tmp_path: Any) -> None:
    model = ss.Classifier(CONV.net, size=tuple(CONV.x.shape[1:]))
    x = inputs(5, tuple(CONV.x.shape))
    assert_same(ss.explain_batches(model, x), [ss.explain(model, one) for one in x])
    photograph = ss.example_photograph()
    assert_same(ss.explain_batches(model, [[photograph, str(photograph)]]), ss.explain(model, [photograph, photograph]))


class TwoParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4).double(), nn.Linear(4, 4).double()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = self.first(x).tanh() + self.second(y.flatten(1))
        return result


def test_inputs_of_several_parts() -> None:
    model = ss.Classifier(TwoParts(), input_shape=[(3,), (2, 2)])
    x, y = inputs(COUNT, (3,)), inputs(COUNT, (2, 2))
    expected = [ss.explain(model, pair) for pair in zip(x, y, strict=True)]
    assert_same(ss.explain_batches(model, DataLoader(TensorDataset(x, y), batch_size=4)), expected)
    assert_same(ss.explain_batches(model, [list(zip(x, y, strict=True))]), expected)
    labelled = ss.explain_batches(model, DataLoader(TensorDataset(x, y, LABELS), batch_size=4), use_labels=True)
    assert [e.target for e in labelled] == LABELS.tolist()


def test_nothing_gives_nothing() -> None:
    for source in ([], iter([]), [[]], X[:0], [X[:0]]):
        assert list(ss.explain_batches(TABLE.classifier(), source)) == []


@pytest.mark.parametrize("batch", [3, None, "photo.jpg", {"x": X}, TABLE.x.numpy()])
def test_what_is_no_batch(batch: Any) -> None:
    with pytest.raises(ss.InputError, match="batches must be tensors, lists of inputs, or pairs of inputs and labels"):
        list(ss.explain_batches(TABLE.classifier(), [batch]))


def test_bad_requests_are_refused_at_once() -> None:
    with pytest.raises(ss.InputError, match="did you mean caso"):
        ss.explain_batches(TABLE.classifier(), X, "casso")
    with pytest.raises(ss.InputError, match="seed must be a whole number"):
        next(ss.explain_batches(TABLE.classifier(), X, seed=-1))


def counted(batches: Iterable[Tensor]) -> tuple[Iterator[Tensor], list[int]]:
    """Batches that say how many were taken."""
    taken: list[int] = []

    def give() -> Iterator[Tensor]:
        for batch in batches:
            taken.append(len(batch))
            yield batch

    return give(), taken


def test_no_more_is_read_than_is_needed() -> None:
    """Many batches, of which only as many are read as one chunk takes."""
    batches, taken = counted(X[:4] for _ in range(CHUNK))
    results = ss.explain_batches(TABLE.classifier(), batches, "cafo")
    assert taken == []
    next(results)
    assert sum(taken) == CHUNK
    for _ in range(CHUNK - 1):
        next(results)
    assert sum(taken) == CHUNK
    next(results)
    assert sum(taken) == 2 * CHUNK


@pytest.mark.parametrize("method", ["caso", "cafo", "gradient", "smooth-caso"])
def test_memory_is_flat(method: str) -> None:
    """Nothing keeps a result that was given and let go, nor the inputs of a chunk that is done."""
    model, config = TABLE.classifier(), configured(method, n=2)
    maps: list[weakref.ref[Tensor]] = []
    alive = []
    for e in ss.explain_batches(model, (X[i : i + 1].clone() for i in range(COUNT)), config):
        maps += [weakref.ref(e.delta), weakref.ref(e.input)]
        del e
        alive.append(sum(reference() is not None for reference in maps))
    assert len(maps) == 2 * COUNT
    assert alive == [0] * COUNT


class Watched(nn.Module):
    """Tells the modes apart, and may fail at one of its inputs."""

    def __init__(self, fails_at: float | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(10, 8).double(), nn.Linear(8, 4).double()
        self.drop, self.fails_at = nn.Dropout(0.5), fails_at
        self.train()
        self.last.eval()
        self.last.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.fails_at is not None and bool((x == self.fails_at).any()):
            raise ZeroDivisionError("midway")
        result: Tensor = self.last(self.drop(self.first(x).relu()))
        return result

    def state(self) -> tuple[object, ...]:
        modes = [module.training for module in self.modules()]
        return modes, [parameter.requires_grad for parameter in self.parameters()], torch.get_num_threads()


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["caso", "cafo", "smoothgrad"])
def test_the_network_is_yours_between_two_results(method: str, threads: int) -> None:
    net = Watched()
    before = net.state()
    assert before[2] == threads
    results = ss.explain_batches(ss.Classifier(net, input_shape=(10,)), X, configured(method, n=3))
    assert net.state() == before
    for e in results:
        assert net.state() == before
        # Yours to train: what one step changes, the next chunk sees.
        assert torch.is_grad_enabled()
        assert not e.delta.requires_grad


@pytest.mark.parametrize("method", ["caso", "cafo"])
def test_the_network_is_yours_after_closing_early(method: str, threads: int) -> None:
    net = Watched()
    before = net.state()
    batches, taken = counted(X.split(3))
    results: Any = ss.explain_batches(ss.Classifier(net, input_shape=(10,)), batches, method)
    next(results)
    results.close()
    assert net.state() == before
    assert sum(taken) < COUNT
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.parametrize("method", ["caso", "cafo"])
def test_the_network_is_yours_after_an_error(method: str, threads: int) -> None:
    """In the second chunk: the results of the first have been given."""
    x = X.clone()
    x[CHUNK + 2, 4] = 0.123
    net = Watched(fails_at=0.123)
    before = net.state()
    results = ss.explain_batches(ss.Classifier(net, input_shape=(10,)), x, method)
    assert len([next(results) for _ in range(CHUNK)]) == CHUNK
    with pytest.raises(ZeroDivisionError, match="midway"):
        next(results)
    assert net.state() == before
    with pytest.raises(StopIteration):
        next(results)


def test_a_new_weight_is_seen_by_the_next_chunk() -> None:
    net = nn.Linear(10, 4).double()
    results = ss.explain_batches(ss.Classifier(net, input_shape=(10,)), X, "cafo", target=0)
    first = [next(results) for _ in range(CHUNK)]
    with torch.no_grad():
        net.weight.mul_(-1)
    rest = list(results)
    model = ss.Classifier(net, input_shape=(10,))
    assert_same(rest, [ss.explain(model, x, "cafo", target=0) for x in X[CHUNK:]])
    assert not torch.allclose(first[0].delta, ss.explain(model, X[0], "cafo", target=0).delta)


def test_progress_adds_up_over_all_chunks() -> None:
    told: list[float] = []
    results: Any = list(ss.explain_batches(CONV.classifier(), inputs(COUNT, tuple(CONV.x.shape)), progress=told.append))
    assert told == sorted(told)
    assert told[-1] == sum(e.products for e in results)
    assert len(results) == COUNT
