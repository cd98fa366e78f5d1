"""What a map may cost, in counts that are the same on every machine: H-products, passes and the largest tensor.

A pass is one call of a convolution for each convolution of the network and each input or direction: whoever runs it
(autograd, forward mode, a tape), `aten.convolution` goes forward and `aten.convolution_backward` goes back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import secondsight as ss
from cases import CURVED, Case, lively
from secondsight.config import method_of
from secondsight.operators.tape.tape import Tape

CASO_PRODUCTS = 4
"""Three fix lambda2 (at the gradient, a random probe and the top eigenvector of these); one certifies the map."""

FORWARD_PER_PRODUCT = 1
"""The tangent pass. Forward mode would run the network again beside it, and each convolution three times."""

BACKWARD_PER_PRODUCT = 1

DIRECTIONS = 2
"""Products that go through the network together: the first two that fix lambda2."""

PATH_DIRECTIONS = 8
"""The same when a whole path is certified: never all of its points, for each takes a network's memory."""

VECTORS = 8
"""Float64 vectors of the input's size in one tensor: a basis of four to six, with room."""

COPIES = 4
"""Noisy copies of the smooth methods, all at a time."""

METHODS = {
    "cafo": {},
    "caso": {},
    "smooth-cafo": {"n": COPIES, "batch_size": COPIES},
    "smooth-caso": {"n": COPIES, "batch_size": COPIES},
}


@dataclass(frozen=True)
class Counts:
    """What a map cost, or may cost at most. `largest`: bytes of the largest tensor."""

    products: float
    forward: float
    backward: float
    largest: float

    def beyond(self, bounds: Counts) -> dict[str, tuple[float, float]]:
        """Where these counts exceed the bounds: what was counted, what is allowed."""
        pairs = {f.name: (getattr(self, f.name), getattr(bounds, f.name)) for f in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] > pair[1]}


@dataclass(frozen=True, eq=False)
class Subject:
    """A network whose checks are already paid for, an input, and the bytes of its largest activation there."""

    model: ss.Classifier
    x: Tensor
    activation: int

    def largest(self, passes: int, vectors: int = VECTORS) -> int:
        """Bytes of the largest tensor where so many inputs or directions pass at a time."""
        return max(passes * self.activation, vectors * self.x.numel() * 8)


class Counter(TorchDispatchMode):
    """Counts convolutions, each as often as it has inputs, and the bytes of the largest new tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.forward = self.backward = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default:
            self.forward += len(result)
        elif func is torch.ops.aten.convolution_backward.default:
            self.backward += len(args[0])
        # A view allocates nothing.
        new = _storages(result).items() - _storages((args, kwargs)).items()
        self.largest = max([self.largest, *(size for _, size in new)])
        return result


def _storages(values: Any) -> dict[int, int]:
    """Identity and bytes of what lies behind all tensors."""
    storages = [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]
    return {storage._cdata: storage.nbytes() for storage in storages}


def counted(subject: Subject, work: Callable[[], Any]) -> tuple[Any, Counts]:
    with Counter() as counter:
        result = work()
    convolutions = sum(isinstance(module, nn.Conv2d) for module in subject.model.net.modules())
    products = result.products if isinstance(result, ss.SecondOrderExplanation) else 0
    return result, Counts(products, counter.forward / convolutions, counter.backward / convolutions, counter.largest)


@functools.cache
def explained(subject: Subject, method: str, **options: Any) -> tuple[ss.Explanation, Counts]:
    # A proven bound, which ten classes would get by themselves, takes passes of its own.
    bound = {"bound": "estimated"} if method.endswith("caso") else {}
    return counted(subject, lambda: ss.explain(subject.model, subject.x, method_of(method, **bound, **options)))


def small() -> Subject:
    """Piecewise linear, four convolutions, ten classes, float64."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16), (16, 16), (16, 16)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16 * 6 * 6, 10))
    x = torch.rand(3, 24, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return warm(ss.Classifier(lively(net, 0), size=24), x)


def lite0() -> Subject:
    model = ss.load_model("efficientnet-lite0")
    return warm(model, model.tensor(ss.example_photograph()))


def warm(model: ss.Classifier, x: Tensor) -> Subject:
    ss.explain(model, x)
    # Whether it mixes the inputs of a batch is tried with the first copies.
    ss.explain(model, x, ss.SmoothCAFO(n=2))
    with Counter() as counter, torch.no_grad():
        model(x[None])
    return Subject(model, x, counter.largest)


@pytest.fixture(scope="module", params=[small, lite0], ids=["small", "lite0"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param()


def bounds(subject: Subject, method: str) -> Counts:
    """What a map may cost."""
    copies = COPIES if method.startswith("smooth") else 1
    products, directions = (CASO_PRODUCTS, DIRECTIONS) if method.endswith("caso") else (0, 1)
    # The gradient takes a pass each way, and what it leaves behind serves all products.
    forward = copies * (1 + FORWARD_PER_PRODUCT * products)
    backward = copies * (1 + BACKWARD_PER_PRODUCT * products)
    # The smooth methods also look at the clean input: it decides which class is explained.
    return Counts(products, forward + (copies > 1), backward, subject.largest(copies * directions))


@pytest.mark.parametrize("method", METHODS)
def test_a_map_costs_no_more(subject: Subject, method: str) -> None:
    e, counts = explained(subject, method, **METHODS[method])
    assert e.certificate.relative_gap <= 1e-4
    assert len(e.path) >= 12
    assert counts.beyond(bounds(subject, method)) == {}


def test_a_further_certified_point_costs_one_product(subject: Subject) -> None:
    _, one = explained(subject, "caso")
    e, every = explained(subject, "caso", certify="path")
    assert all(point.relative_gap <= 1e-4 for point in e.path)
    added = len(e.path) - 1
    most = Counts(
        products=one.products + added,
        forward=one.forward + FORWARD_PER_PRODUCT * added,
        backward=one.backward + BACKWARD_PER_PRODUCT * added,
        largest=subject.largest(PATH_DIRECTIONS, vectors=len(e.path) + VECTORS),
    )
    assert every.beyond(most) == {}


def test_one_more_than_allowed_is_noticed(subject: Subject) -> None:
    _, counts = explained(subject, "caso")
    assert counts.beyond(counts) == {}
    for name in ("products", "forward", "backward", "largest"):
        allowed = getattr(counts, name) - 1
        assert counts.beyond(replace(counts, **{name: allowed})) == {name: (allowed + 1, allowed)}


def test_passes_are_counted_however_they_are_run(subject: Subject) -> None:
    model, x = subject.model, subject.x

    def by_autograd() -> None:
        leaf = torch.stack([x, x, x]).requires_grad_()
        torch.autograd.grad(model(leaf).sum(), leaf)

    def by_forward_mode() -> None:
        with model.ready(), torch.no_grad(), forward_ad.dual_level():
            model.logits(forward_ad.make_dual(x[None], torch.ones_like(x)[None]))

    _, counts = counted(subject, by_autograd)
    assert (counts.forward, counts.backward) == (3, 3)
    assert counts.largest >= 3 * subject.activation
    _, counts = counted(subject, by_forward_mode)
    assert counts.forward >= 2


INPUTS = 4
"""Inputs of a batch, all of which share a pass."""

TAPED = [case for case in CURVED if case.name != "attention"]
"""Networks with an exact Hessian from a tape."""


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """One line of inputs: with more threads, fewer inputs share a pass."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each pass, through the network or through a tape, whatever the number of its inputs."""
    passes: list[str] = []

    def watch(owner: type, name: str) -> None:
        run = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            passes.append(name)
            return run(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)

    for name in ("forward", "transpose", "bends"):
        watch(Tape, name)
    watch(ss.Classifier, "logits")
    return passes


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("case", TAPED, ids=str)
def test_exact_products_of_several_inputs_share_passes(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    x = list(torch.rand((INPUTS, *case.x.shape), generator=generator, dtype=torch.float64))
    model = case.classifier()
    # A proven bound multiplies all of so small an H, which takes passes of its own.
    method = ss.CASO(bound="estimated")
    ss.explain(model, x, method)
    passes = count_passes(monkeypatch)
    alone: list[int] = []
    for one in x:
        passes.clear()
        assert ss.explain(model, one, method).curvature == "exact"
        alone.append(len(passes))
    passes.clear()
    assert {e.curvature for e in ss.explain(model, x, method)} == {"exact"}
    # All wait for the longest, and each set of inputs that meets is bent anew.
    assert len(passes) <= max(alone) + INPUTS
    assert len(passes) < 0.5 * sum(alone)
