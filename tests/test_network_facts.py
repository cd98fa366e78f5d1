"""What is found out about a network is found out at each input, and a zero gradient is looked into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

import secondsight as ss
from cases import PIECEWISE_LINEAR, configured, lively
from reference import gauss_newton, hessian
from secondsight.errors import FALLBACK, Caution
from secondsight.model.diagnosis import is_piecewise_linear

TIGHT = {"rtol": 1e-9, "atol": 1e-11}
EYE = torch.eye(6, dtype=torch.float64)
METHODS = ["cafo", "caso", "smooth-cafo", "smooth-caso", "gradient", "smoothgrad", "integrated-gradients"]
PIECEWISE = "the network is piecewise linear"

Layer = Callable[[Tensor], Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


FIRST, LAST = normal(6, 8, seed=5), normal(8, 4, seed=6)
INPUT = torch.tensor([0.3, 0.7, 0.2, 0.9, 0.4, 0.6], dtype=torch.float64)


class Shifted(nn.Module):
    """An activation that is flat or straight at large inputs, beside a linear way that keeps the gradient alive."""

    def __init__(self, activation: Layer, shift: float) -> None:
        super().__init__()
        self.first, self.last, self.skip = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(6, 4)
        self.activation, self.shift = activation, shift
        lively(self, 0)

    def forward(self, x: Tensor) -> Tensor:
        # The last entry moves all hidden units at once.
        hidden = self.first(x) + self.shift * x[:, -1:]
        return self.last(self.activation(hidden)) + self.skip(x)


CURVED: dict[str, Callable[[], nn.Module]] = {
    "tanh": lambda: Shifted(torch.tanh, 300.0),
    "elu": lambda: Shifted(functional.elu, 300.0),
    "squared-relu": lambda: Shifted(lambda x: x.relu() ** 2, -300.0),
}
STRAIGHT_HERE = torch.tensor([0.3, -0.2, 0.5, 0.1, -0.4, 1.0], dtype=torch.float64)
"""Where these networks have no second derivative, and neither nearby."""
CURVED_HERE = torch.tensor([0.3, -0.2, 0.5, 0.1, -0.4, 0.0], dtype=torch.float64)
ALSO_CURVED_HERE = torch.tensor([-0.6, 0.4, 0.2, -0.3, 0.8, 0.0], dtype=torch.float64)


def classifier(net: Callable[..., Tensor], **options: Any) -> ss.Classifier:
    return ss.Classifier(net, input_shape=(6,), **options)


@pytest.mark.parametrize("name", CURVED)
class TestEachInputByItself:
    """A network that is straight at the first input is curved at the second."""

    def test_the_second_derivative_vanishes_at_the_first_input(self, name: str) -> None:
        net = CURVED[name]()
        dense = hessian(net, STRAIGHT_HERE, 0)
        torch.testing.assert_close(dense, gauss_newton(net, STRAIGHT_HERE), **TIGHT)
        dense = hessian(net, CURVED_HERE, 0)
        assert (dense - gauss_newton(net, CURVED_HERE)).norm() > 1e-2 * dense.norm()

    @pytest.mark.parametrize("method", ["caso", "smooth-caso"])
    def test_the_first_input_decides_nothing(self, name: str, method: str) -> None:
        net, config = CURVED[name](), configured(method, n=3)
        model = classifier(net)
        ss.explain(model, STRAIGHT_HERE, config)
        e, fresh = ss.explain(model, CURVED_HERE, config), ss.explain(classifier(net), CURVED_HERE, config)
        assert e.curvature == fresh.curvature == "exact"
        assert torch.equal(e.delta, fresh.delta)
        assert e.notes == fresh.notes
        assert e.certificate.holds

    def test_the_true_hessian_at_each_input(self, name: str) -> None:
        net = CURVED[name]()
        model = classifier(net)
        for x in (STRAIGHT_HERE, CURVED_HERE, STRAIGHT_HERE, ALSO_CURVED_HERE):
            h = ss.input_hessian(model, x, target=1)
            torch.testing.assert_close(h.matmul(EYE), hessian(net, x, 1), **TIGHT)

    def test_the_note_is_never_false(self, name: str) -> None:
        model = classifier(CURVED[name]())
        for x in (STRAIGHT_HERE, CURVED_HERE):
            h = ss.input_hessian(model, x, curvature="exact")
            assert h.kind == "exact"
            assert not any(PIECEWISE in note for note in h.notes)

    @settings(max_examples=6, deadline=None)
    @given(order=st.permutations(range(3)))
    def test_the_order_of_inputs_does_not_matter(self, name: str, order: list[int]) -> None:
        points, net = [STRAIGHT_HERE, CURVED_HERE, ALSO_CURVED_HERE], CURVED[name]()
        model, batch = classifier(net), [points[i] for i in order]
        one_by_one = [ss.explain(model, x) for x in batch]
        together = ss.explain(classifier(net), batch)
        for x, alone, other in zip(batch, one_by_one, together, strict=True):
            expected = ss.explain(classifier(net), x)
            for e in (alone, other):
                # Inputs that share a pass may differ in the last digits.
                torch.testing.assert_close(e.delta, expected.delta, rtol=1e-9, atol=0)
                assert (e.curvature, e.notes) == (expected.curvature, expected.notes)


MATRIX = normal(6, 6, seed=3)
WEIGHTS = torch.arange(1.0, 7.0, dtype=torch.float64)
STRAIGHT: dict[str, Layer] = {
    "absolute": torch.abs,
    "prelu": lambda x: functional.prelu(x, torch.tensor([0.3], dtype=torch.float64)),
    "hardsigmoid": functional.hardsigmoid,
    "softshrink": lambda x: functional.softshrink(x, 0.1),
    "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "largest": lambda x: x - x.amax(1, keepdim=True) + x.max(1, keepdim=True).values + x.max(),
    "sorted": lambda x: x.sort(1).values + x.topk(6, 1).values,
    "where": lambda x: torch.where(x > 0, x, 3 * x),
    "batch-norm": lambda x: functional.batch_norm(x, torch.zeros(6).double(), torch.ones(6).double(), 2 * WEIGHTS),
    "batched-product": lambda x: (x[:, None] @ MATRIX.expand(len(x), 6, 6))[:, 0],
    "fixed-factor": lambda x: (x + 1) * WEIGHTS / WEIGHTS.flip(0) - x @ MATRIX,
    "with-weights-that-want-gradients": lambda x: x * WEIGHTS.clone().requires_grad_().exp(),
    "other-precision": lambda x: x.float().double(),
}
"""Layers that are piecewise linear."""


@pytest.mark.parametrize("name", STRAIGHT)
def test_piecewise_linear_by_its_operations(name: str) -> None:
    """Also for operations that no tape knows, so that Gauss-Newton and its factor remain."""
    layer, x = STRAIGHT[name], normal(6, seed=1)

    def net(x: Tensor) -> Tensor:
        return layer(x).abs() @ MATRIX[:, :4]

    model = classifier(net)
    h = ss.input_hessian(model, x, curvature="exact")
    assert h.kind == "gauss-newton"
    assert any(PIECEWISE in note for note in h.notes)
    tight = TIGHT if name != "other-precision" else {"rtol": 1e-5, "atol": 1e-5}
    # Torch has no second derivative of hardsigmoid.
    dense = gauss_newton(net, x) if name == "hardsigmoid" else hessian(net, x, int(model(x[None]).argmax()))
    torch.testing.assert_close(h.matmul(EYE), dense, **tight)
    with model.ready():
        assert is_piecewise_linear(model, x)
        assert model.facts.piecewise_linear is None


class Relu(torch.autograd.Function):
    """A square that is called like an operation of torch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 2 * x


def view_squared(x: Tensor) -> Tensor:
    y = x * 1
    y[:, :2].pow_(2)
    return y


NOT_STRAIGHT: dict[str, Layer] = {
    "square": lambda x: x * x,
    "branches": lambda x: x.relu() * x.flip(1).relu(),
    "quotient": lambda x: x / (x.abs().sum(1, keepdim=True) + 1),
    "inverse": lambda x: 1 / (x + 9),
    "saturated": lambda x: torch.tanh(1e3 * x + 1e5),
    "dead-power": lambda x: (x - 1e3).relu() ** 2 + x,
    "elu": lambda x: functional.elu(x + 1e3),
    "hard-swish": lambda x: functional.hardswish(x + 1e3),
    "weights-from-the-input": lambda x: (x[:, None] @ torch.diag_embed(x))[:, 0],
    "statistics-of-the-batch": lambda x: functional.batch_norm(x[0][:, None], None, None, training=True).T,
    "square-called-relu": Relu.apply,
    "view-overwritten": view_squared,
}
"""Layers that are curved, some of them not at the input below."""


@pytest.mark.parametrize("name", NOT_STRAIGHT)
def test_not_piecewise_linear_by_its_operations(name: str) -> None:
    layer, x = NOT_STRAIGHT[name], normal(6, seed=1)
    model = classifier(lambda x: layer(x) @ MATRIX[:, :4])
    with model.ready():
        assert not is_piecewise_linear(model, x)
    h = ss.input_hessian(model, x)
    assert h.kind == "exact"
    expected = hessian(lambda x: layer(x) @ MATRIX[:, :4], x, int(model(x[None]).argmax()))
    torch.testing.assert_close(h.matmul(EYE), expected, **TIGHT)


@pytest.mark.parametrize("said", [True, False])
def test_the_users_word_counts_more(said: bool) -> None:
    for net, x in ((CURVED["tanh"](), CURVED_HERE), (nn.Sequential(nn.Linear(6, 4)).double(), CURVED_HERE)):
        model = classifier(net, piecewise_linear=said)
        for _ in range(2):
            assert ss.input_hessian(model, x).kind == ("gauss-newton" if said else "exact")
        assert model.facts.piecewise_linear is said
        with model.ready():
            assert is_piecewise_linear(model, x) is said


def test_a_word_that_is_not_known_to_be_true_is_told_as_a_word() -> None:
    model = classifier(CURVED["tanh"](), piecewise_linear=True)
    h = ss.input_hessian(model, CURVED_HERE, curvature="exact")
    assert not any(PIECEWISE in note for note in h.notes)
    assert any("was declared piecewise linear" in note for note in h.notes)
    case = PIECEWISE_LINEAR[0]
    known = ss.Classifier(case.net, input_shape=case.x.shape, piecewise_linear=True)
    assert any(PIECEWISE in note for note in ss.input_hessian(known, case.x, curvature="exact").notes)


class Swish(torch.autograd.Function):
    """x sigmoid(x), differentiable twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.sigmoid() * (1 + x * (1 - x.sigmoid()))


class DetachedSwish(Swish):
    """The same, with a backward that torch takes for linear."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        x = x.detach()
        return grad * x.sigmoid() * (1 + x * (1 - x.sigmoid()))


class DetachedSquare(torch.autograd.Function):
    """x squared, with a backward that torch takes for linear."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (2 * x.detach())


class Kinked(torch.autograd.Function):
    """A ReLU of one's own. Differences of its gradient are large across kinks, and no curvature."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.relu()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


class Apply(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.function.apply(x)
        return result


def mlp(activation: nn.Module) -> nn.Module:
    return lively(nn.Sequential(nn.Linear(6, 12), activation, nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 4)), 2)


def conv(activation: nn.Module) -> nn.Module:
    """Many kinks beside the activation."""
    layers = [nn.Conv2d(3, 8, 3), activation, nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()]
    return lively(nn.Sequential(*layers, nn.Linear(8 * 21 * 21, 5)), 3)


class TestCustomFunctions:
    """A custom function may hide its curvature. Differences of the gradient show it."""

    TWIN = staticmethod(lambda: mlp(nn.SiLU()))
    HIDING = staticmethod(lambda: mlp(Apply(DetachedSwish)))

    def test_torch_says_nothing(self) -> None:
        hidden = hessian(self.HIDING(), CURVED_HERE, 0)
        assert (hidden - hessian(self.TWIN(), CURVED_HERE, 0)).norm() > 1e-2 * hidden.norm()

    @pytest.mark.parametrize("function", [False, True], ids=["module", "function"])
    def test_hidden_curvature_falls_back(self, function: bool) -> None:
        net = self.HIDING()
        h = ss.input_hessian(classifier((lambda x: net(x)) if function else net), CURVED_HERE)
        assert h.kind == "gauss-newton"
        (caution,) = (note for note in h.notes if isinstance(note, Caution))
        assert caution.kind == FALLBACK
        assert "DetachedSwish hides its curvature" in caution
        torch.testing.assert_close(h.matmul(EYE), gauss_newton(self.TWIN(), CURVED_HERE), **TIGHT)

    @pytest.mark.parametrize("method", ["caso", "smooth-caso"])
    def test_explain_warns(self, method: str) -> None:
        with pytest.warns(ss.SecondsightWarning, match="hides its curvature"):
            e = ss.explain(classifier(self.HIDING()), CURVED_HERE, configured(method, n=2))
        assert e.curvature == "gauss-newton"

    def test_exact_is_refused(self) -> None:
        with pytest.raises(ss.InputError, match="DetachedSwish hides its curvature") as refusal:
            ss.input_hessian(classifier(self.HIDING()), CURVED_HERE, curvature="exact")
        assert refusal.value.argument == "curvature"
        assert "\n" not in str(refusal.value)

    def test_also_after_an_input_where_nothing_is_hidden(self) -> None:
        model = classifier(Shifted(DetachedSwish.apply, -1e4))
        assert ss.input_hessian(model, STRAIGHT_HERE).kind == "exact"
        assert ss.input_hessian(model, CURVED_HERE).kind == "gauss-newton"
        assert ss.input_hessian(model, STRAIGHT_HERE).kind == "exact"

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("function", [Swish, DetachedSwish, Kinked])
    def test_kinks_are_no_curvature_and_hide_none(self, function: Any, dtype: torch.dtype) -> None:
        """In float32 no step is small enough to pass between so many kinks, so the network is copied to float64."""
        model = ss.Classifier(conv(Apply(function)).to(dtype), size=48)
        for seed in range(2):
            x = torch.rand(3, 48, 48, generator=torch.Generator().manual_seed(seed)).to(dtype)
            assert ss.input_hessian(model, x).kind == ("gauss-newton" if function is DetachedSwish else "exact")

    def test_an_input_on_a_kink_has_no_curvature(self) -> None:
        """All steps cross it, however small."""
        model = classifier(lambda x: Kinked.apply(x @ FIRST).abs() @ LAST + x[:, :4])
        assert ss.input_hessian(model, torch.zeros(6).double()).kind == "exact"

    def test_curvature_that_only_noisy_copies_have(self) -> None:
        model = classifier(lambda x: DetachedSquare.apply((x - INPUT - 1e-3).relu()) @ FIRST @ LAST + x[:, :4])
        e = ss.explain(model, INPUT, ss.SmoothCASO(n=2))
        assert e.curvature == "gauss-newton"
        assert any("DetachedSquare hides its curvature" in note for note in e.notes)

    def test_what_is_differentiable_twice_is_exact(self) -> None:
        h = ss.input_hessian(classifier(mlp(Apply(Swish))), CURVED_HERE, target=2)
        assert not h.notes
        torch.testing.assert_close(h.matmul(EYE), hessian(self.TWIN(), CURVED_HERE, 2), **TIGHT)


ZERO_HERE = FIRST.new_full((8,), -8.0)
HIDING: dict[str, Layer] = {
    "detached": lambda x: x.detach() @ FIRST @ LAST,
    "numpy": lambda x: torch.from_numpy(x.detach().numpy() @ FIRST.numpy()) @ LAST,
    "rounded": lambda x: (x * 4).round() @ FIRST @ LAST,
    "floor-deep-inside": lambda x: (x @ FIRST).tanh().mul(8).floor() @ LAST,
    "signs": lambda x: (x @ FIRST - 0.1).sign() @ LAST,
    "decision": lambda x: torch.where(x[:, :1] > 0.5, LAST[:1], LAST[1:2]) + 0 * x[:, :4],
    "argmax": lambda x: functional.one_hot((x @ FIRST).argmax(1), 8).double() @ LAST,
    "argmax-with-a-graph": lambda x: functional.one_hot((x @ FIRST).argmax(1), 8).double() @ LAST + 0 * x[:, :4],
    "beside-dead-relus": lambda x: (x @ FIRST + ZERO_HERE).relu() @ LAST + x.detach()[:, :4],
}
"""Networks whose logits change with the input although all gradients are zero."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HIDING)
def test_a_zero_gradient_that_hides_a_dependence_is_refused(name: str, method: str) -> None:
    with pytest.raises(ss.ModelError, match="cuts its graph") as refusal:
        ss.explain(classifier(HIDING[name]), INPUT, configured(method, n=2, n_steps=2))
    assert "\n" not in str(refusal.value)


def test_several_inputs_are_refused_alike() -> None:
    with pytest.raises(ss.ModelError, match="cuts its graph"):
        ss.explain(classifier(HIDING["beside-dead-relus"]), [INPUT, INPUT / 2])


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", ["logit", "loss"])
def test_a_quantised_network_is_refused(method: str, score: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    quantised = torch.ao.quantization.quantize_dynamic(net, {nn.Linear})
    with pytest.raises(ss.ModelError, match="the float network that a quantised one was made from"):
        ss.explain(classifier(quantised), INPUT.float(), configured(method, n=2, n_steps=2, score=score))
    assert ss.explain(classifier(net), INPUT.float(), configured(method, n=2, n_steps=2, score=score)).delta.any()


WANTING = LAST.clone().requires_grad_()
"""Weights of a function, which nobody freezes: the logits have a graph, and the input is not in it."""


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_that_leaves_out_the_input(method: str) -> None:
    config = configured(method, n=2, n_steps=2)
    with pytest.raises(ss.ModelError, match="cuts its graph"):
        ss.explain(classifier(lambda x: x.detach() @ FIRST @ WANTING), INPUT, config)
    e = ss.explain(classifier(lambda x: (0 * x.detach() + 1) @ FIRST @ WANTING), INPUT, config)
    assert not e.delta.any()


def certain(x: Tensor) -> Tensor:
    """So certain that p - y is zero."""
    return x[:, :4] + torch.tensor([2000.0, 0.0, 0.0, 0.0])


REALLY_ZERO: dict[str, tuple[Layer, Tensor]] = {
    "dead": (lambda x: (x @ FIRST + ZERO_HERE).relu() @ LAST, INPUT),
    "nearly-alive": (lambda x: (x @ FIRST - (INPUT @ FIRST) - 1e-9).relu() @ LAST, INPUT),
    "at-a-kink": (lambda x: (x @ FIRST).relu() @ LAST, torch.zeros(6).double()),
    "dead-on-both-sides": (lambda x: functional.hardtanh(1e4 * (x - 0.35)) @ FIRST @ LAST, INPUT),
    "saturated": (lambda x: (30 + x @ FIRST).tanh() @ LAST, INPUT),
    "saturated-float32": (lambda x: (1e5 * (x - 0.35)).sigmoid() @ (FIRST @ LAST).float(), INPUT.float()),
    "stationary": (lambda x: (x - INPUT).square() @ FIRST @ LAST, INPUT),
    "cubic": (lambda x: (x - INPUT) ** 3 @ FIRST @ LAST, INPUT),
    "nothing-but-rounding": (lambda x: ((x + 1000) - 1000 - x)[:, :4] + LAST[:1].float(), INPUT.float()),
    "constant": (lambda x: LAST[:1].expand(len(x), 4), INPUT),
    "times-zero": (lambda x: 0 * x[:, :4], INPUT),
    "same-change-of-all-logits": (lambda x: x.sum(1, keepdim=True) + torch.tensor([[0.0, 0.0]]), INPUT),
    "certain": (certain, INPUT),
}
"""Networks whose loss does not change with the input to first order, without hiding anything."""


@pytest.mark.parametrize("method", ["cafo", "caso"])
@pytest.mark.parametrize("name", REALLY_ZERO)
def test_a_true_zero_gradient_is_accepted(name: str, method: str) -> None:
    net, x = REALLY_ZERO[name]
    e = ss.explain(classifier(net), x, method)
    assert not e.delta.any()
    assert e.certificate.holds
    assert any("the gradient of the loss is zero here" in note for note in e.notes)


@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "integrated-gradients"])
@pytest.mark.parametrize("name", ["dead", "constant", "times-zero"])
def test_baselines_accept_it_too(name: str, method: str) -> None:
    net, x = REALLY_ZERO[name]
    e = ss.explain(classifier(net), x, configured(method, n=2, n_steps=2, sigma=0.01))
    assert not e.delta.any()
    assert any("does not change with the input here" in note for note in e.notes)


def test_several_dead_inputs() -> None:
    for e in ss.explain(classifier(REALLY_ZERO["dead"][0]), [INPUT, INPUT / 2]):
        assert not e.delta.any()
        assert e.certificate.holds


def test_a_network_that_fails_far_away_is_not_blamed() -> None:
    def net(x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            raise ValueError("no negative pixels")
        return 0 * x[:, :4]

    assert not ss.explain(classifier(net), INPUT).delta.any()


@pytest.mark.parametrize("name", ["tanh", "elu"])
def test_a_gradient_costs_no_further_pass(name: str) -> None:
    """What is found out from operations takes no pass, and a gradient that is not zero is not looked into."""
    net, passes = CURVED[name](), list[int]()
    model = classifier(net)
    net.register_forward_pre_hook(lambda *_: passes.append(1))
    for expected in (4, 1):
        passes.clear()
        ss.explain(model, CURVED_HERE, ss.CASO(bound="estimated"))
        assert len(passes) == expected
