"""Gradient, SmoothGrad and Integrated Gradients are Captum's to the last bit; and no method leaves a trace behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skimage.data
import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case, configured
from reference import gradient, probabilities
from secondsight.baselines import clipped
from secondsight.config import METHODS, Method
from secondsight.results.first_order import first_order_map
from secondsight.results.sentences import proof

RIVALS = ("gradient", "smoothgrad", "integrated-gradients")
SOME = [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], CURVED[1], CURVED[2], CURVED[4]]


def asked(method: str, n: int = 50, **options: Any) -> Method:
    """The config of a method with those of the options that it has; n is also the number of steps."""
    return configured(method, n=n, n_steps=n, **{name: value for name, value in options.items() if value is not None})


def captum(
    model: ss.Classifier,
    x: Tensor,
    method: str,
    target: int,
    *,
    score: str = "logit",
    times_input: bool = False,
    n: int = 6,
    batch_size: int = 3,
    sigma: float = 0.2,
    seed: int = 5,
) -> Tensor:
    """Captum called as its own documentation has it."""

    def loss(batch: Tensor) -> Tensor:
        wanted = torch.full((len(batch),), target)
        return nn.functional.cross_entropy(model.logits(batch), wanted, reduction="none")

    function: Callable[[Tensor], Tensor] = model.logits if score == "logit" else loss
    wanted = target if score == "logit" else None
    given = x[None].clone()
    with model.ready(), torch.random.fork_rng():
        torch.manual_seed(seed)
        if method == "integrated-gradients":
            integrated = IntegratedGradients(function, multiply_by_inputs=times_input)
            return integrated.attribute(given, target=wanted, n_steps=n, internal_batch_size=batch_size)[0].detach()
        if method == "gradient":
            found = Saliency(function).attribute(given.requires_grad_(), target=wanted, abs=False)
        else:
            found = NoiseTunnel(Saliency(function)).attribute(
                given,
                nt_type="smoothgrad",
                nt_samples=n,
                nt_samples_batch_size=batch_size,
                stdevs=sigma * float(x.max() - x.min()),
                target=wanted,
                abs=False,
            )
    return (found * given if times_input else found)[0].detach()


ASKED: dict[str, Any] = {"n": 6, "batch_size": 3, "sigma": 0.2}
SEED = 5


@pytest.mark.parametrize("case", SOME, ids=str)
@pytest.mark.parametrize("method", RIVALS)
@pytest.mark.parametrize("score", ["logit", "loss"])
@pytest.mark.parametrize("times_input", [None, False, True])
def test_captum_to_the_last_bit(case: Case, method: str, score: str, times_input: bool | None) -> None:
    model = case.classifier()
    e = ss.explain(model, case.x, asked(method, score=score, times_input=times_input, **ASKED), seed=SEED)
    multiplied = method == "integrated-gradients" if times_input is None else times_input
    expected = captum(model, case.x, method, e.target, score=score, times_input=multiplied)
    assert bool(expected.any())
    assert torch.equal(e.delta, expected)
    assert e.method.times_input is multiplied
    assert e.seed == SEED


@pytest.mark.parametrize("method", RIVALS)
def test_captum_on_a_photograph(method: str) -> None:
    model = ss.load_model("efficientnet-lite0")
    coffee = Image.fromarray(skimage.data.coffee())
    e = ss.explain(model, coffee, asked(method, **ASKED), seed=SEED)
    multiplied = method == "integrated-gradients"
    assert torch.equal(e.delta, captum(model, model.load(coffee), method, e.target, times_input=multiplied))
    assert e.delta.shape == (3, 224, 224)
    assert e.label in {"espresso", "cup", "coffee mug"}
    assert isinstance(e.figure(), Figure)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gradient_of_the_loss(case: Case) -> None:
    """Not only Captum's: the paper's equation too."""
    e = ss.explain(case.classifier(), case.x, ss.Gradient(score="loss"), target=1)
    torch.testing.assert_close(e.delta.flatten(), gradient(case.net, case.x, 1), rtol=1e-9, atol=1e-12)
    assert e.target == 1


@pytest.mark.parametrize("case", SOME, ids=str)
@pytest.mark.parametrize("score", ["logit", "loss"])
def test_integrated_gradients_add_up_to_the_change_of_the_score(case: Case, score: str) -> None:
    e = ss.explain(case.classifier(), case.x, ss.IntegratedGradients(score=score, n_steps=400))
    with torch.no_grad():
        logits = case.net(torch.stack([case.x, torch.zeros_like(case.x)]))
    scores = (logits if score == "logit" else -logits.log_softmax(1))[:, e.target]
    assert float(e.delta.sum()) == pytest.approx(float(scores[0] - scores[1]), rel=0.02, abs=0.01)


@pytest.mark.parametrize("case", SOME, ids=str)
@pytest.mark.parametrize("method", RIVALS)
def test_what_they_say_of_themselves(case: Case, method: str) -> None:
    e = ss.explain(case.classifier(), case.x, asked(method, n=4, sigma=0.1, score="loss"))
    p = probabilities(case.net, case.x)
    assert e.target == int(p.argmax())
    assert e.label == str(e.target)
    assert e.probability == pytest.approx(float(p.max()))
    assert e.method == asked(method, n=4, sigma=0.1, score="loss")
    assert torch.equal(e.input, case.x)
    assert type(e) is ss.Explanation
    absent = (
        "certificate gradient lambda1 lambda1_max lambda2 path groups window_norms smoothing "
        "products curvature top_eigenvalue second_order"
    )
    for name in absent.split():
        last = "smooth-caso" if name in ("products", "curvature", "top_eigenvalue") else "smooth-caso, picture"
        with pytest.raises(AttributeError, match=f"the result of {method} has no {name}: only .*caso, .*{last} have"):
            getattr(e, name)
    for name in ("gap", "relative_gap", "certified", "support", "top_eigenvalue_bound", "settings", "cafo"):
        with pytest.raises(AttributeError, match=f"Explanation has no attribute '{name}'"):
            getattr(e, name)
    assert proof(e) == ""
    assert e.seconds > 0
    assert e.notes == ()


def strict(text: str) -> Any:
    """JSON without NaN and Infinity, which are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], PIECEWISE_LINEAR[5], CURVED[2]], ids=str)
@pytest.mark.parametrize("method", RIVALS)
def test_figures_files_and_tables(case: Case, method: str, tmp_path: Path) -> None:
    e = ss.explain(case.classifier(), case.x, asked(method, n=3))
    assert isinstance(e.figure(), Figure)
    e.save(tmp_path / "e.png")
    with Image.open(tmp_path / "e.png") as picture:
        assert min(picture.size) > 100
    e.save(tmp_path / "e.npz")
    loaded = ss.Explanation.load(tmp_path / "e.npz")
    assert torch.equal(loaded.delta, e.delta)
    assert torch.equal(loaded.input, e.input)
    assert loaded.method == e.method
    assert type(loaded) is ss.Explanation
    assert not any(hasattr(loaded, name) for name in ("path", "gradient", "certificate", "groups", "products"))
    assert not {"gap", "certified", "lambda1", "lambda2", "products", "curvature"} & e.summary().keys()
    assert loaded.summary() == e.summary()
    assert strict(json.dumps(e.summary(), allow_nan=False))["method"] == method


def bar_label(e: ss.Explanation) -> str:
    return " ".join(axes.get_xlabel() + " " + axes.get_ylabel() for axes in e.figure().axes)


@pytest.mark.parametrize(("score", "word"), [("logit", "for the class"), ("loss", "against the class")])
def test_figures_tell_which_way_is_up(score: str, word: str) -> None:
    case = PIECEWISE_LINEAR[0]
    assert word in bar_label(ss.explain(case.classifier(), case.x, ss.Gradient(score=score)))
    assert "against the class" in bar_label(ss.explain(case.classifier(), case.x, "cafo"))


@pytest.mark.parametrize("method", RIVALS)
def test_a_constant_network(method: str) -> None:
    model = ss.Classifier(lambda x: torch.tensor([[1.0, 2.0]]).expand(len(x), 2), input_shape=(8,))
    for score in ("logit", "loss"):
        e = ss.explain(model, torch.rand(8), asked(method, n=3, score=score))
        assert not bool(e.delta.any())
        assert e.delta.shape == (8,)
        assert e.sparsity == 1
        assert e.target == 1
        assert any("does not change with the input" in note for note in e.notes)


@pytest.mark.parametrize("method", METHODS)
def test_sparsity_is_the_share_of_zeros(method: str) -> None:
    """Half of the inputs reach no weight."""
    net = nn.Linear(10, 3).double()
    with torch.no_grad():
        net.weight[:, ::2] = 0
    e = ss.explain(
        ss.Classifier(net, input_shape=(10,)), torch.rand(10).double(), asked(method, n=3, lambda1=0.0, groups="none")
    )
    assert e.sparsity == 0.5


class Watched(nn.Module):
    """A network with everything that a careless method would leave changed."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 12), nn.BatchNorm1d(12), nn.Linear(12, 4)
        self.drop, self.fails_at, self.calls = nn.Dropout(), fails_at, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.fails_at:
            raise ZeroDivisionError("midway")
        return self.last(self.drop(self.norm(self.first(x)).relu()))


class State:
    """All that a user can see of a network, from outside."""

    def __init__(self, fails_at: int | None = None) -> None:
        torch.manual_seed(0)
        self.net = Watched(fails_at).double()
        self.net.train()
        self.net.last.eval()
        self.net.first.weight.grad = torch.ones_like(self.net.first.weight)
        self.net.last.bias.requires_grad_(False)
        self.net.norm.register_forward_hook(self.hook)
        self.x = torch.rand(8, dtype=torch.float64)
        self.kept_x, self.before = self.x.clone(), self.seen()
        self.kept = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}

    def hook(self, *ignored: object) -> None:
        """What a user registered."""

    def seen(self) -> dict[str, object]:
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return {
            "modes": [module.training for module in self.net.modules()],
            "wanted": [parameter.requires_grad for parameter in self.net.parameters()],
            "gradients": [None if p.grad is None else float(p.grad.sum()) for p in self.net.parameters()],
            "hooks": [list(getattr(module, name).values()) for module in self.net.modules() for name in hooks],
            "tensor hooks": [p._backward_hooks for p in self.net.parameters()],
            "input": (self.x.requires_grad, self.x.grad, self.x._backward_hooks, self.x.is_leaf),
            "grad mode": torch.is_grad_enabled(),
        }

    def assert_untouched(self) -> None:
        assert self.seen() == self.before
        assert torch.equal(self.x, self.kept_x)
        assert all(torch.equal(tensor, self.kept[name]) for name, tensor in self.net.state_dict().items())

    def explain(self, method: str, target: int | None = None, **options: Any) -> ss.Explanation:
        config = asked(method, n=3, batch_size=2, groups="none", **options)
        return ss.explain(ss.Classifier(self.net, input_shape=(8,)), self.x, config, target)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", ["logit", "loss"])
def test_no_trace_is_left(method: str, score: str) -> None:
    state = State()
    e = state.explain(method, score=score)
    state.assert_untouched()
    assert sum(map(len, state.before["hooks"])) == 1  # type: ignore[arg-type]
    assert not e.delta.requires_grad
    assert not e.input.requires_grad


@pytest.mark.parametrize("method", METHODS)
def test_no_trace_is_left_by_an_input_that_requires_a_gradient(method: str) -> None:
    state = State()
    state.x.requires_grad_()
    state.before = state.seen()
    e = state.explain(method)
    state.assert_untouched()
    assert not e.delta.requires_grad
    assert not e.input.requires_grad


@pytest.mark.parametrize("method", METHODS)
def test_no_trace_is_left_without_gradients(method: str) -> None:
    """Called under no_grad, as in an evaluation loop: the same map, and still no gradients after."""
    state = State()
    expected = state.explain(method).delta
    with torch.no_grad():
        assert torch.equal(state.explain(method).delta, expected)
        assert not torch.is_grad_enabled()
    state.assert_untouched()


@pytest.mark.parametrize("method", METHODS)
def test_no_trace_is_left_by_a_refused_target(method: str) -> None:
    state = State()
    with pytest.raises(ss.InputError, match="target must be a class index from 0 to 3"):
        state.explain(method, target=4)
    state.assert_untouched()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fails_at", [1, 3])
def test_no_trace_is_left_by_a_network_that_fails(method: str, fails_at: int) -> None:
    """At its first call; and at its third, when Captum or the noisy copies are under way."""
    state = State(fails_at)
    if method == "cafo" and fails_at == 3:
        state.explain(method)
    else:
        with pytest.raises(ZeroDivisionError, match="midway"):
            state.explain(method)
    state.assert_untouched()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("casso", "caso"), ("smoothgrads", "smoothgrad"), ("integrated_gradients", "integrated-gradients")],
)
def test_unknown_methods(wrong: str, right: str) -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError, match=rf"did you mean {right}\?") as refusal:
        ss.explain(case.classifier(), case.x, wrong)
    assert refusal.value.argument == "method"
    assert all(name in str(refusal.value) for name in METHODS)
    with pytest.raises(ss.InputError) as refusal:
        ss.explain(case.classifier(), case.x, "zzz")
    assert "did you mean" not in str(refusal.value)


def test_unknown_score() -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError, match="score must be one of logit, loss, not 'probability'"):
        ss.explain(case.classifier(), case.x, ss.Gradient(score="probability"))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 4, 4), (12,), (4, 6)])
@pytest.mark.parametrize("sparsity", [0.0, 0.2, 0.5, 0.75, 0.9, 1.0])
def test_clipped_keeps_the_largest(shape: tuple[int, ...], sparsity: float) -> None:
    """By weight of whole pixels where there are channels."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    result = clipped(values, sparsity)
    weight = values.abs().sum(0) if len(shape) == 3 else values.abs()
    kept = (result != 0).all(0) if len(shape) == 3 else result != 0
    assert result.shape == values.shape
    assert int(kept.sum()) == round((1 - sparsity) * weight.numel())
    assert torch.equal(result, values * kept)
    if bool(kept.any()) and not bool(kept.all()):
        assert float(weight[kept].min()) >= float(weight[~kept].max())


def test_clipped_weighs_all_channels() -> None:
    """A pixel strong in one channel against one fairly strong in three."""
    values = torch.tensor([[1.0, -0.5], [0.0, -0.5], [0.0, 0.5]]).reshape(3, 1, 2)
    assert torch.equal(clipped(values, 0.5), values * torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("method", ["cafo", "caso", "smooth-cafo", "smooth-caso"])
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], CURVED[0]], ids=str)
def test_times_input_of_penalised_maps(case: Case, method: str) -> None:
    plain, times = (
        ss.explain(case.classifier(), case.x, asked(method, n=3, times_input=flag, certify="path"))
        for flag in (None, True)
    )
    assert torch.equal(times.delta, plain.delta * case.x)
    for ours, theirs in zip(times.path, plain.path, strict=True):
        assert torch.equal(ours.delta, theirs.delta * case.x)
    for name in ("lambda1", "lambda2", "sparsity", *(["products"] if "caso" in method else [])):
        assert getattr(times, name) == getattr(plain, name)
    for name in ("gap", "relative_gap", "holds", "basis"):
        assert getattr(times.certificate, name) == getattr(plain.certificate, name)
    assert torch.equal(times.certificate.support.nonzero, plain.certificate.support.nonzero)
    assert torch.equal(first_order_map(times), first_order_map(plain) * case.x)
    assert any("appendix D" in note for note in times.notes)
    assert not any("appendix D" in note for note in plain.notes)


@pytest.mark.parametrize("method", RIVALS)
def test_times_input_of_captums_maps_is_noted_where_it_was_asked_for(method: str) -> None:
    case = PIECEWISE_LINEAR[0]
    e = ss.explain(case.classifier(), case.x, asked(method, n=3, times_input=True))
    assert any("appendix D" in note for note in e.notes) is (method != "integrated-gradients")
    plain = ss.explain(case.classifier(), case.x, asked(method, n=3, times_input=False))
    torch.testing.assert_close(e.delta, plain.delta * case.x)
    assert not plain.notes


@pytest.mark.parametrize("method", RIVALS)
def test_a_batch_gives_what_its_items_give(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    batch = torch.stack([case.x, 1 - case.x])
    for x, e in zip(batch, ss.explain(case.classifier(), list(batch), asked(method, n=3), target=[0, 2]), strict=True):
        assert torch.equal(e.delta, ss.explain(case.classifier(), x, asked(method, n=3), target=e.target).delta)
