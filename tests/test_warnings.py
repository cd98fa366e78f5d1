"""Warnings: what changes the meaning of a result is said once per call, where the user calls; others are quiet."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, PIECEWISE_LINEAR, Case, configured
from secondsight.config import METHODS
from secondsight.errors import ALL_ZERO, FALLBACK, NOT_CERTIFIED, Caution
from test_operators import Once

CONV = PIECEWISE_LINEAR[3]


class Contradictory(torch.autograd.Function):
    """tanh with a wrong derivative, which is that of no function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2) + x.roll(1, 1) * grad.roll(2, 1)


class Wrong(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(Contradictory.apply(self.first(x)))
        return result


def constant(x: Tensor) -> Tensor:
    return torch.tensor([[1.0, 2.0]]).expand(len(x), 2)


def inputs(count: int, *shape: int) -> list[Tensor]:
    return list(torch.rand((count, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64))


@dataclass(frozen=True)
class Warned:
    """A call whose result means something else: the network, its inputs' shape, the method, what is said."""

    name: str
    model: Callable[[], ss.Classifier]
    shape: tuple[int, ...]
    method: ss.Method
    kind: str
    says: str

    def __str__(self) -> str:
        return self.name


def once_differentiable() -> ss.Classifier:
    torch.manual_seed(0)
    return ss.Classifier(Once().double(), input_shape=(6,))


def contradictory() -> ss.Classifier:
    return ss.Classifier(Wrong().double(), input_shape=(6,))


def flat() -> ss.Classifier:
    return ss.Classifier(constant, input_shape=(5,))


SHAPE = tuple(CONV.x.shape)
FEW = ss.CASO(max_products=3, bound="estimated")
PATH = ss.CASO(max_products=6, certify="path", bound="estimated")
WARNED = [
    Warned("no gradient", flat, (5,), ss.CASO(), ALL_ZERO, "the gradient of the loss is zero"),
    Warned("no gradient, cafo", flat, (5,), ss.CAFO(), ALL_ZERO, "the map is all zero"),
    Warned("no score", flat, (5,), ss.Gradient(), ALL_ZERO, "the score does not change"),
    Warned("large lambda1", CONV.classifier, SHAPE, ss.CASO(lambda1=1e3), ALL_ZERO, "not below lambda1_max"),
    Warned("large share", CONV.classifier, SHAPE, ss.SmoothCAFO(lambda1="100%", n=2), ALL_ZERO, "all zero"),
    Warned("fallback", once_differentiable, (6,), ss.CASO(), FALLBACK, "Gauss-Newton matrix stands for the Hessian"),
    Warned("picture", once_differentiable, (6,), ss.Picture(n=2, groups="none"), FALLBACK, "cannot differentiate"),
    Warned("smooth fallback", once_differentiable, (6,), ss.SmoothCASO(n=2), FALLBACK, "cannot differentiate"),
    Warned("few products", CONV.classifier, SHAPE, FEW, NOT_CERTIFIED, "max_products = 3"),
    Warned("few for a path", CONV.classifier, SHAPE, PATH, NOT_CERTIFIED, "maps of the path are not certified"),
    Warned("no symmetry", contradictory, (6,), ss.CASO(curvature="exact"), NOT_CERTIFIED, "are not symmetric"),
]


@pytest.fixture
def seen() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings, also those that pytest ignores and Python shows once."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def of_ours(seen: list[warnings.WarningMessage]) -> list[warnings.WarningMessage]:
    return [warning for warning in seen if issubclass(warning.category, ss.SecondsightWarning)]


@pytest.mark.parametrize("warned", WARNED, ids=str)
def test_one_input_one_warning(warned: Warned, seen: list[warnings.WarningMessage]) -> None:
    model = warned.model()
    for call in (1, 2):
        e = ss.explain(model, inputs(1, *warned.shape)[0], warned.method)
        ours = of_ours(seen)
        assert len(ours) == call
        message = str(ours[-1].message)
        assert warned.says in message
        assert Path(ours[-1].filename) == Path(__file__)
        cautions = [note for note in e.notes if isinstance(note, Caution)]
        assert [caution.kind for caution in cautions] == [warned.kind]
        assert message == cautions[0]
        assert isinstance(cautions[0], str)


@pytest.mark.parametrize("warned", WARNED, ids=str)
def test_a_list_one_warning(warned: Warned, seen: list[warnings.WarningMessage]) -> None:
    results = ss.explain(warned.model(), inputs(4, *warned.shape), warned.method)
    (ours,) = of_ours(seen)
    assert warned.says in str(ours.message)
    assert "(4 of 4 maps)" in str(ours.message)
    assert Path(ours.filename) == Path(__file__)
    assert all(any(warned.says in note for note in e.notes) for e in results)


@pytest.mark.parametrize("warned", WARNED, ids=str)
def test_many_batches_one_warning(warned: Warned, seen: list[warnings.WarningMessage]) -> None:
    """More inputs than one chunk holds."""
    batches = [inputs(5, *warned.shape) for _ in range(4)]
    results = list(ss.explain_batches(warned.model(), batches, warned.method))
    (ours,) = of_ours(seen)
    assert warned.says in str(ours.message)
    assert Path(ours.filename) == Path(__file__)
    assert len(results) == 20
    assert all(any(warned.says in note for note in e.notes) for e in results)


def test_a_list_says_how_many(seen: list[warnings.WarningMessage]) -> None:
    """Of three inputs, one has no gradient."""
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        net[0].bias.zero_()
        net[0].weight.abs_()
    x = [torch.ones(4).double(), -torch.ones(4).double(), 2 * torch.ones(4).double()]
    results = ss.explain(ss.Classifier(net, input_shape=(4,)), x)
    (ours,) = of_ours(seen)
    assert "(1 of 3 maps)" in str(ours.message)
    assert [any(isinstance(note, Caution) for note in e.notes) for e in results] == [False, True, False]


def test_each_kind_is_said(seen: list[warnings.WarningMessage]) -> None:
    """Two cautions of one result: a fallback, and a map that is all zero."""
    e = ss.explain(once_differentiable(), inputs(1, 6)[0], ss.CASO(lambda1="100%"))
    assert {note.kind for note in e.notes if isinstance(note, Caution)} == {FALLBACK, ALL_ZERO}
    assert sorted("cannot differentiate" in str(ours.message) for ours in of_ours(seen)) == [False, True]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_plain_results_are_quiet(case: Case, method: str, seen: list[warnings.WarningMessage]) -> None:
    config = configured(method) if case.x.ndim == 3 else configured(method, groups="none")
    results = [ss.explain(case.classifier(), case.x, config), *ss.explain(case.classifier(), [case.x, case.x], config)]
    results += list(ss.explain_batches(case.classifier(), torch.stack([case.x, case.x]), config))
    assert len(results) == 5
    assert of_ours(seen) == []
    assert not any(isinstance(note, Caution) for e in results for note in e.notes)


def test_notes_that_change_nothing_are_no_warnings(seen: list[warnings.WarningMessage]) -> None:
    e = ss.explain(CONV.classifier(), CONV.x, ss.CASO(curvature="exact", times_input=True))
    assert len(e.notes) == 2
    assert of_ours(seen) == []


def test_a_warning_can_be_made_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ss.SecondsightWarning)
        with pytest.raises(ss.SecondsightWarning, match="max_products = 3"):
            ss.explain(CONV.classifier(), CONV.x, FEW)
        with pytest.raises(ss.SecondsightWarning, match="max_products = 3"):
            next(ss.explain_batches(CONV.classifier(), CONV.x[None], FEW))


def test_copies_of_results_keep_their_cautions() -> None:
    """As processes that send each other results make them."""
    e = ss.explain(CONV.classifier(), CONV.x, FEW)
    for twin in (pickle.loads(pickle.dumps(e)), copy.deepcopy(e), replace(e)):
        assert type(twin) is type(e)
        assert twin.notes == e.notes
        assert [note.kind for note in twin.notes if isinstance(note, Caution)] == [NOT_CERTIFIED]
        assert torch.equal(twin.delta, e.delta)
        assert twin.method == e.method


def test_notes_are_stored_as_text(tmp_path: Path) -> None:
    e = ss.explain(CONV.classifier(), CONV.x, FEW)
    e.save(tmp_path / "e.npz")
    assert ss.Explanation.load(tmp_path / "e.npz").notes == e.notes
    assert e.summary()["notes"] == list(e.notes)
    assert {type(note) for note in e.summary()["notes"]} == {str}


def test_a_comparison_and_a_sweep_warn_once() -> None:
    """Of all their maps together, and at the line of the user."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    torch.nn.init.zeros_(net[1].weight)
    model = ss.Classifier(net, size=2)
    for use in (
        lambda: ss.compare(model, torch.rand(3, 2, 2), "cafo,caso,gradient"),
        lambda: ss.sweep(model, torch.rand(3, 2, 2)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ss.SecondsightWarning)
            use()
        ours = [warning for warning in caught if issubclass(warning.category, ss.SecondsightWarning)]
        assert [warning.filename for warning in ours] == [__file__]
        assert "the map is all zero" in str(ours[0].message)
