"""Tapes with curvature against dense float64 second derivatives, and what a product with them costs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import secondsight as ss
from cases import CURVED, Case, lively
from reference import hessian
from secondsight.model import diagnosis
from secondsight.operators.exact_hessian import ExactHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import choose_hessian
from secondsight.operators.linearisation import linearise
from secondsight.operators.tape.curved_steps import Elementwise
from secondsight.operators.tape.recorder import record_tape
from secondsight.operators.tape.rules import curved_activations
from secondsight.operators.tape.tape import Tape, joined, split
from secondsight.operators.tape_jacobian import TapeJacobian
from test_tape import assert_right, behind, module, normal, recorded, tapped

# torch's own hard-sigmoid has a slope of 1/6 in float32.
TIGHT = {"rtol": 1e-6, "atol": 1e-8}
Layer = Callable[[Tensor], Tensor]


class HardSwish(nn.Module):
    """Torch cannot differentiate its hard-sigmoid twice."""

    def forward(self, x: Tensor) -> Tensor:
        return x * functional.hardsigmoid(x)


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, gate: Layer) -> None:
        super().__init__()
        self.narrow, self.wide, self.gate = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1), gate

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.wide(self.narrow(x.mean((2, 3), keepdim=True)).relu()))


class Heads(nn.Module):
    """Self-attention in the manner of timm: one matrix for queries, keys and values, which are unbound."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.all, self.out, self.fused = nn.Linear(6, 18), nn.Linear(6, 6), fused

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, _ = x.shape
        q, k, v = self.all(x).reshape(n, tokens, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = (q * 3**-0.5 @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, tokens, 6))


Attend = Callable[[nn.MultiheadAttention, Tensor], Tensor]


def attention(attend: Attend, frozen: bool = True, **options: Any) -> Layer:
    """Apply `attend` to torch's own attention. Torch runs other operations if the weights need gradients."""
    layer = module(nn.MultiheadAttention(6, 2, **options)).requires_grad_(not frozen)
    return lambda x: attend(layer, x)


def itself(weights: bool = False, **named: Any) -> Attend:
    """Self-attention."""
    return lambda layer, x: layer(x, x, x, need_weights=weights, **named)[0]


def padded(weights: bool) -> Attend:
    """The last token is padding."""
    left_out = torch.tensor([[False, False, True]])
    return lambda layer, x: itself(weights, key_padding_mask=left_out.expand(len(x), 3))(layer, x)


def encoder(before: bool, activation: str, batch_first: bool, frozen: bool = True) -> Layer:
    layer = nn.TransformerEncoderLayer(4, 2, 5, norm_first=before, activation=activation, batch_first=batch_first)
    layer = module(layer).requires_grad_(not frozen)
    return layer if batch_first else behind(layer)


def decoder() -> Layer:
    layer = module(nn.TransformerDecoderLayer(4, 2, 5, batch_first=True))
    return lambda x: layer(x[:, :2], x.tanh())


MASK = normal(3, 3, seed=9)
ATTENTION: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "attention": (attention(itself(), batch_first=True), (3, 6)),
    "attention-weighed": (attention(itself(weights=True), batch_first=True), (3, 6)),
    "attention-behind-tokens": (behind(attention(itself())), (3, 6)),
    "attention-behind-tokens-weighed": (behind(attention(itself(weights=True))), (3, 6)),
    "attention-not-frozen": (attention(itself(), frozen=False, batch_first=True), (3, 6)),
    "attention-behind-tokens-not-frozen": (behind(attention(itself(), frozen=False)), (3, 6)),
    "attention-no-bias": (attention(itself(), batch_first=True, bias=False), (3, 6)),
    "attention-more-tokens": (attention(itself(), batch_first=True, add_bias_kv=True, add_zero_attn=True), (3, 6)),
    "attention-mask": (attention(itself(attn_mask=MASK), batch_first=True), (3, 6)),
    "attention-mask-weighed": (attention(itself(weights=True, attn_mask=MASK > 1), batch_first=True), (3, 6)),
    "attention-padding": (attention(padded(weights=False), batch_first=True), (3, 6)),
    "attention-padding-weighed": (attention(padded(weights=True), batch_first=True), (3, 6)),
    "attention-weights": (attention(lambda layer, x: layer(x, x, x)[1], batch_first=True), (3, 6)),
    "attention-across": (attention(lambda layer, x: layer(x[:, :2], x.tanh(), x * 2)[0], batch_first=True), (3, 6)),
    "attention-across-to-the-same": (
        attention(lambda layer, x: layer(x[:, :2], y := x.tanh(), y, need_weights=False)[0], batch_first=True),
        (3, 6),
    ),
    "attention-across-sizes": (
        attention(lambda layer, x: layer(x, x[..., :4], x[..., 1:])[0], batch_first=True, kdim=4, vdim=5),
        (3, 6),
    ),
    **{
        f"encoder-{activation}-norm-{'first' if before else 'last'}{'' if batch_first else '-behind-tokens'}": (
            encoder(before, activation, batch_first),
            (3, 4),
        )
        for activation in ("relu", "gelu")
        for before in (True, False)
        for batch_first in (True, False)
    },
    "encoder-not-frozen": (encoder(True, "gelu", batch_first=True, frozen=False), (3, 4)),
    "decoder": (decoder(), (3, 4)),
}
"""Layers of torch that put the inputs behind the tokens."""


def in_place(function: Callable[..., Tensor]) -> Layer:
    return lambda x: function(x * 1.0, inplace=True)


SCALES = torch.tensor([0.5, -2.0, 1.5, 3.0, -0.3, 1.0], dtype=torch.float64)


def used_twice(x: Tensor) -> Tensor:
    return x.tanh() + x


LAYERS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    **{
        name: (getattr(functional, name), (6,))
        for name in ("gelu", "silu", "mish", "sigmoid", "tanh", "softplus", "elu", "selu", "celu", "hardswish")
    },
    "gelu-tanh": (lambda x: functional.gelu(x, approximate="tanh"), (6,)),
    "softplus-beta": (lambda x: functional.softplus(x, beta=3), (6,)),
    "hardsigmoid": (functional.hardsigmoid, (6,)),
    **{f"{name}-in-place": (in_place(getattr(functional, name)), (2, 3, 3)) for name in ("silu", "elu", "hardswish")},
    "exp": (torch.exp, (5,)),
    "square": (lambda x: x**2, (5,)),
    "cube": (lambda x: x.pow(3), (5,)),
    "product-with-itself": (lambda x: x * x, (5,)),
    "product": (lambda x: x.sigmoid() * (2 * x + 1), (5,)),
    "product-spread": (lambda x: x * x.mean(2, keepdim=True).tanh(), (2, 4)),
    "gate": (module(Gate(torch.sigmoid)), (4, 3, 3)),
    "gate-hard": (module(Gate(functional.hardsigmoid)), (4, 3, 3)),
    "softmax": (lambda x: x.softmax(1), (5,)),
    "softmax-inside": (lambda x: (2 * x).softmax(1), (4, 3)),
    "layer-norm": (module(nn.LayerNorm(5)), (3, 5)),
    "layer-norm-plain": (nn.LayerNorm((3, 4), elementwise_affine=False), (2, 3, 4)),
    "layer-norm-one-row": (module(nn.LayerNorm(7)), (7,)),
    "group-norm": (module(nn.GroupNorm(2, 4)), (4, 3, 2)),
    "group-norm-plain": (nn.GroupNorm(3, 3, affine=False), (3, 5)),
    "matrices": (lambda x: x @ x.transpose(1, 2), (3, 4)),
    "heads": (module(Heads(fused=False)), (5, 6)),
    "heads-fused": (module(Heads(fused=True)), (5, 6)),
    "quotient": (lambda x: x.tanh() / (x.exp() + 1), (5,)),
    "quotient-spread": (lambda x: x / (x.exp().mean(2, keepdim=True) + 1), (2, 4)),
    "quotient-spread-above": (lambda x: x.mean(2, keepdim=True) / (x.exp() + 1), (2, 4)),
    "reciprocal": (lambda x: 1 / (x * x + 1), (5,)),
    "root": (lambda x: (x * x + 1).sqrt() - (x.exp() + 2).rsqrt(), (5,)),
    "variance": (lambda x: x.var(2), (3, 4)),
    "variance-of-planes": (lambda x: x / (x.var((1, -1), correction=0, keepdim=True) + 1).sqrt(), (3, 2, 2)),
    "variance-behind-tokens": (behind(lambda x: x * x.var(2, keepdim=True)), (3, 4)),
    "quotient-in-place": (lambda x: (x * 1).div_(x.exp() + 1), (5,)),
    "product-in-place": (lambda x: (x * 2).mul_(x.mean(2, keepdim=True)).mul_(x.tanh()), (2, 4)),
    "stack": (lambda x: torch.stack([x.tanh(), x.exp(), normal(*x.shape)], 1).pow(2).flatten(1, 2), (2, 3)),
    "stack-behind-tokens": (behind(lambda x: torch.stack([x.tanh(), x]).exp().sum(0)), (2, 3)),
    "amax": (lambda x: x.tanh().amax(1) * x.exp().min(2)[0].sum(1, keepdim=True), (3, 4)),
    "windows": (lambda x: x.tanh().unfold(1, 2, 1).exp().flatten(1), (4, 2)),
    "patches": (lambda x: functional.fold(functional.unfold(x.tanh(), 2).exp(), (3, 3), 2), (2, 3, 3)),
    "bicubic": (lambda x: functional.interpolate(x.tanh(), (3, 4), mode="bicubic").exp(), (2, 2, 3)),
    "repeat": (lambda x: x.tanh().repeat(1, 2, 1) * x.exp().repeat(1, 2, 1).roll(1, 1), (2, 3)),
    "indexed": (lambda x: x.tanh()[:, torch.tensor([1, 0, 1])].exp(), (3,)),
    "larger": (lambda x: torch.maximum(x.tanh(), normal(5)).exp(), (5,)),
    "largest": (lambda x: x.tanh().max(1)[0].exp(), (3, 4)),
    "clamp-between-tensors": (lambda x: x.exp().clamp(torch.tensor(0.5), torch.tensor(2.0)).tanh(), (5,)),
    "factor-in-more-places": (lambda x: (x.tanh()[:, :, None] * normal(2)).exp(), (3,)),
    "written-through-a-view": (lambda x: functional.silu((x.T * 2).T, inplace=True), (4,)),
    "matrices-behind-tokens": (behind(lambda x: torch.bmm(x.tanh(), normal(3, 4, 2)).exp()), (3, 4)),
    "norm": (lambda x: x.norm(dim=2), (3, 4)),
    "norm-of-planes": (lambda x: torch.linalg.vector_norm(x, dim=(1, -1), keepdim=True) * x, (3, 2, 2)),
    "norm-of-one-row": (lambda x: functional.normalize(x, dim=1), (4,)),
    "norm-behind-tokens": (behind(lambda x: functional.normalize(x, dim=2) / (x.norm(dim=-1)[..., None] + 1)), (3, 4)),
    "fixed-matrix-after": (lambda x: torch.bmm(x.tanh(), normal(4, 2).expand(len(x), 4, 2)), (3, 4)),
    "fixed-matrix-before": (lambda x: torch.bmm(normal(2, 3).expand(len(x), 2, 3), x.tanh()), (3, 4)),
    "transposed-tokens": (lambda x: functional.linear(x.tanh().transpose(1, 2), normal(5, 3)), (3, 4)),
    "roll": (lambda x: x.tanh().roll((1, -1), (1, 2)), (3, 4)),
    "pooled-channels-last": (
        lambda x: functional.adaptive_avg_pool2d(x.contiguous(memory_format=torch.channels_last).tanh(), 1),
        (3, 2, 4),
    ),
    "twice": (lambda x: functional.silu(functional.gelu(x * 2) * x - x.tanh()), (5,)),
    "used-again": (lambda x: x.tanh() + x.tanh().relu() * x, (5,)),
    "scale-before": (lambda x: functional.silu(x * SCALES), (6,)),
    "scale-used-again": (lambda x: used_twice(x * SCALES), (6,)),
    "scale-that-repeats": (lambda x: functional.silu(x.sum(1, keepdim=True) * SCALES), (6,)),
    "kept-tangents-are-not-overwritten": (lambda x: (x * 2).tanh() + functional.relu_(x * 2), (5,)),
    "behind-tokens": (behind(lambda x: functional.silu(x * x.mean(2, keepdim=True).tanh(), inplace=True)), (3, 4)),
    "layer-norm-behind-tokens": (behind(module(nn.LayerNorm(4))), (3, 4)),
    "softmax-behind-tokens": (behind(lambda x: x.softmax(-1)), (3, 4)),
    "in-one-dimension": (behind(lambda x: functional.silu(x.flatten() * 2).exp().view(x.shape)), (3, 4)),
    **ATTENTION,
}
"""Layers, and the shape of their inputs."""


def hard(x: Tensor) -> Tensor:
    return (x / 6 + 0.5).clamp(0, 1)


WRITTEN_OUT: dict[str, Layer] = {
    "hardswish": lambda x: x * hard(x),
    "hardswish-in-place": lambda x: x * hard(x),
    "hardsigmoid": hard,
    "gate-hard": module(Gate(hard)),
}
"""Layers that torch cannot differentiate twice, in operations that it can."""


def hessians(model: ss.Classifier, x: Tensor, u: Tensor) -> Tensor:
    """The Hessian of u'f at each input: (inputs, features, features)."""

    def score(z: Tensor, weights: Tensor) -> Tensor:
        return (model.logits(z[None])[0] * weights).sum()

    size = x[0].numel()
    with model.ready():
        found = [torch.autograd.functional.hessian(lambda z, w=w: score(z, w), z) for z, w in zip(x, u, strict=True)]
    return torch.stack(found).reshape(len(x), size, size)


def assert_curved(tape: Tape, wanted: Tensor, x: Tensor, u: Tensor, directions: int = 3) -> None:
    v = normal(directions, *x.shape, seed=4)
    before = v.clone()
    bends = tape.bends(u)
    for _ in range(2):
        kept: dict[int, tuple[Tensor, ...]] = {}
        change = tape.forward(v, kept)
        found = tape.transpose(torch.zeros_like(change), bends, kept)
        torch.testing.assert_close(found.flatten(2), torch.einsum("nde,kne->knd", wanted, v.flatten(2)), **TIGHT)
        assert torch.equal(v, before)
        assert torch.equal(change, tape.forward(v))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("inputs", [1, 3])
def test_first_and_second_derivatives(name: str, inputs: int) -> None:
    layer, shape = LAYERS[name]
    model, x, u = tapped(layer, shape), normal(inputs, *shape, seed=6), normal(inputs, 3, seed=7)
    tape = recorded(model, x)
    assert tape is not None
    assert tape.piecewise_linear == (name == "hardsigmoid")
    assert_right(tape, model, x)
    wanted = hessians(tapped(WRITTEN_OUT.get(name, layer), shape), x, u)
    assert_curved(tape, wanted, x, u)
    # Taken apart and joined again, it is the same.
    again = joined(split(tape))
    assert again is not None
    assert_curved(again, wanted, x, u)
    for i, one in enumerate(split(tape)):
        assert_curved(one, wanted[i : i + 1], x[i : i + 1], u[i : i + 1])


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_products_with_the_hessian_of_the_loss(case: Case) -> None:
    model = case.classifier()
    with model.ready():
        linear = linearise(model, case.x[None], record=True)
        assert isinstance(linear.jacobian, TapeJacobian)
        hessian_class, notes = choose_hessian(linear)
        assert (hessian_class, notes) == (ExactHessian, [])
        H = hessian_class(linear)
        rows = normal(3, H.size, seed=8) * torch.tensor([[1.0], [1e-9], [1e9]], dtype=torch.float64)
        wanted = hessian(case.net, case.x, linear.target)
        torch.testing.assert_close(H.times_rows(rows), rows @ wanted, rtol=1e-9, atol=1e-20)


def test_an_activation_takes_in_the_scale_of_the_batch_norm_before_it() -> None:
    net = lively(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Hardswish(), nn.Linear(5, 4)), 3).double()
    tape = recorded(ss.Classifier(net, input_shape=(6,)), normal(2, 6))
    assert tape is not None
    assert [type(node.step).__name__ for node in tape.nodes] == ["Product", "Elementwise", "Product"]
    (step,) = (node.step for node in tape.nodes if isinstance(node.step, Elementwise))
    assert step.scale_before is not None
    # Tapes whose scales differ are not joined, because a step has one scale for all inputs.
    one, other = split(tape)
    assert joined([one, other]) is not None
    other.nodes[1].step = replace(step, slope=step.slope[1:], value=step.value[1:], scale_before=2 * step.scale_before)
    assert joined([one, other]) is None


def test_gauss_newton_frees_what_only_curvature_needs() -> None:
    net = lively(nn.Sequential(nn.Linear(6, 300), nn.GELU(), nn.Linear(300, 4)), 3)
    model, v = ss.Classifier(net, input_shape=(6,)), normal(6, 1)
    with model.ready():
        linear = linearise(model, normal(1, 6), record=True)
        before = linear.jacobian.nbytes
        assert linear.jacobian.curvature_agrees()
        wanted = ExactHessian(linear) @ v
        GaussNewton(linear)
        assert before - linear.jacobian.nbytes >= 300 * wanted.element_size()
        # Products with curvature then go by double backward.
        H = ExactHessian(linear)
        assert not H.shareable
        torch.testing.assert_close(H @ v, wanted)


def test_networks_of_many_layers_are_recorded_without_a_pass_for_each_product() -> None:
    """Counted: one pass to record, one each to check for randomness and derivatives, none for any product."""
    calls = 0

    class Counted(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return super().forward(x)

    net = lively(Counted(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)), 3)
    model = ss.Classifier(net, input_shape=(6,))
    first = ss.explain(model, normal(6, seed=1).sigmoid())
    assert first.curvature == "exact"
    calls = 0
    second = ss.explain(model, normal(6, seed=2).sigmoid())
    assert (calls, second.curvature) == (1, "exact")
    assert second.products >= 3


@pytest.mark.parametrize("method", ["caso", "smooth-caso(n=3)"])
def test_maps_are_those_of_double_backward(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CURVED[0]
    on_tape = ss.explain(case.classifier(), case.x, method)
    monkeypatch.setattr(TapeJacobian, "curvature_agrees", lambda self: False)
    by_autograd = ss.explain(case.classifier(), case.x, method)
    assert on_tape.curvature == by_autograd.curvature == "exact"
    assert on_tape.certificate.holds
    torch.testing.assert_close(on_tape.delta, by_autograd.delta, rtol=1e-4, atol=1e-7)


def test_a_batch_gives_what_its_items_give() -> None:
    case = CURVED[0]
    inputs = [case.x, case.x.flip(0), case.x / 2]
    together = ss.explain(case.classifier(), inputs)
    for x, found in zip(inputs, together, strict=True):
        alone = ss.explain(case.classifier(), x)
        torch.testing.assert_close(found.delta, alone.delta, rtol=1e-4, atol=1e-8)


def test_a_wrong_second_derivative_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is of what the steps bend, not of a product that Gauss-Newton's part may dominate."""
    right = curved_activations._second_derivative
    monkeypatch.setattr(curved_activations, "_second_derivative", lambda function, a: 1.05 * right(function, a))
    case = CURVED[0]
    model = case.classifier()
    found = ss.explain(model, case.x)
    assert not model.facts.leaves_tapes
    assert found.curvature == "exact"
    monkeypatch.undo()
    torch.testing.assert_close(found.delta, ss.explain(case.classifier(), case.x).delta, rtol=1e-4, atol=1e-7)


def test_where_torch_has_no_second_derivative_differences_check() -> None:
    net = lively(nn.Sequential(nn.Linear(6, 12), HardSwish(), nn.Linear(12, 4)), 5)
    model, x = ss.Classifier(net, input_shape=(6,)), normal(6, seed=3)
    found = ss.explain(model, x)
    assert (found.curvature, found.notes) == ("exact", ())
    assert found.certificate.holds

    def written_out(x: Tensor) -> Tensor:
        y = net[0](x)
        return net[2](y * (y / 6 + 0.5).clamp(0, 1))

    twin = ss.explain(ss.Classifier(written_out, input_shape=(6,)), x)
    torch.testing.assert_close(found.delta, twin.delta, rtol=1e-4, atol=1e-7)


def test_rounding_across_a_kink_does_not_contradict_the_check() -> None:
    """In float32, some activations lie on the other side of their kink than in float64."""
    net = lively(nn.Sequential(nn.Linear(6, 40), HardSwish(), nn.Linear(40, 4)), 5).float()
    x = normal(6, seed=3).float()
    with torch.no_grad():
        net[0].bias.copy_(3 - net[0].weight @ x)
        # Half of the activations are smooth at x, so that there is curvature to compare.
        net[0].bias[::2] -= 3
        single, double = net[0](x), copy.deepcopy(net[0]).double()(x.double())
    assert bool(((single > 3) != (double > 3)).any())
    found = ss.explain(ss.Classifier(net, input_shape=(6,)), x)
    assert (found.curvature, found.notes) == ("exact", ())


def test_the_twin_of_the_check_is_right() -> None:
    case = CURVED[0]
    model, x = case.classifier(), case.x[None]
    u, v = normal(1, 4, seed=1), normal(*x.shape, seed=2)
    with model.ready():
        own = diagnosis.second_derivative(model, x, u, v)
        *_, estimate = diagnosis.gradient_differences(model, x, u, v)
    wanted = hessians(model, x, u)[0] @ v.flatten()
    torch.testing.assert_close(own.flatten(1)[0], wanted, **TIGHT)
    torch.testing.assert_close(estimate.flatten(1)[0], wanted, rtol=1e-3, atol=1e-3)


def test_gauss_newton_on_the_same_tape() -> None:
    case = CURVED[0]
    model = case.classifier()
    with model.ready():
        linear = linearise(model, case.x[None], record=True)
        hessian_class, _ = choose_hessian(linear, "gauss-newton")
    assert hessian_class is GaussNewton
    assert linear.jacobian.shareable
    found = ss.explain(model, case.x, ss.CASO(curvature="gauss-newton"))
    assert (found.curvature, found.certificate.holds) == ("gauss-newton", True)


def test_curved_steps_tell_their_bytes() -> None:
    values: Any = torch.zeros(2, 5)
    assert Elementwise(values).nbytes == values.nbytes
    assert Elementwise(values, values, torch.sin).nbytes == 2 * values.nbytes
    model = tapped(torch.tanh, (5,))
    with model.ready():
        tape = record_tape(model, normal(2, 5))
    assert tape is not None
    assert tape.kept == 2 * 5 * 8


@pytest.mark.parametrize("method", ["caso", "smooth-caso(n=2)"])
def test_an_operation_without_a_rule_is_named(method: str) -> None:
    net = lively(nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 4)), 3)
    model = ss.Classifier(lambda x: net[1](torch.sin(net[0](x))), input_shape=(6,))
    for _ in range(2):
        e = ss.explain(model, normal(6, seed=1), method)
        assert e.notes == ("sin.default has no rule of the tape: products were taken by autograd, which takes longer",)
        assert (e.curvature, e.certificate.holds) == ("exact", True)
