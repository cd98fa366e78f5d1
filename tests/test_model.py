"""The classifier: what it refuses, what it computes, and that a network comes back as it was."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
from cases import configured

METHODS = ["cafo", "caso"]


def conv(channels: int = 3, classes: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, classes)
    )


def trained() -> nn.Sequential:
    """A network whose output depends on its mode: batch statistics and dropout."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    net(torch.randn(8, 3, 6, 6))
    return net


def pixels(*shape: int) -> Tensor:
    return torch.rand(*(shape or (3, 6, 6)), generator=torch.Generator().manual_seed(1))


def logits_of(x: Tensor, classes: int = 4) -> Tensor:
    """Logits that a function without parameters may return."""
    weights = torch.linspace(-1, 1, x[0].numel() * classes, dtype=x.dtype).reshape(-1, classes).sin()
    return x.flatten(1) @ weights


class TestConstruction:
    @pytest.mark.parametrize(
        ("mean", "std"),
        [
            (None, None),
            (0.4, None),
            (None, 0.2),
            (0.4, 0.2),
            ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]),
            ([0.1, 0.2, 0.3], 0.5),
        ],
    )
    def test_normalisation(self, mean: Any, std: Any) -> None:
        net, x = conv(), pixels(2, 3, 6, 6)
        shift = torch.tensor(0.0 if mean is None else mean).reshape(-1, 1, 1)
        scale = torch.tensor(1.0 if std is None else std).reshape(-1, 1, 1)
        assert torch.allclose(ss.Classifier(net, mean, std)(x), net((x - shift) / scale), atol=1e-6)

    def test_normalisation_of_features(self) -> None:
        net, x = nn.Linear(3, 2), torch.tensor([[1.0, 20.0, 300.0]])
        model = ss.Classifier(net, [1, 2, 3], [1, 10, 100], input_shape=(3,))
        assert torch.allclose(model(x), net(torch.tensor([[0.0, 1.8, 2.97]])), atol=1e-6)

    @pytest.mark.parametrize("std", [0, -1, 0.0, [0.1, 0.0, 0.2], [0.1, -0.1, 0.2]])
    def test_std_must_be_positive(self, std: Any) -> None:
        with pytest.raises(ss.InputError, match="std must be positive"):
            ss.Classifier(conv(), std=std)

    @pytest.mark.parametrize("argument", ["mean", "std"])
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), "abc", [[0.1], [0.2, 0.3]], [[0.1, 0.2, 0.3]]])
    def test_statistics_must_be_numbers(self, argument: str, value: Any) -> None:
        with pytest.raises(ss.InputError, match=argument):
            ss.Classifier(conv(), **{argument: value})

    @pytest.mark.parametrize(
        "arguments",
        [
            {"mean": [0.5, 0.5]},
            {"mean": [0.5] * 3, "std": [0.5] * 4},
            {"mean": [0.5], "channels": 3},
            {"channels": 2},
            {"channels": 0},
        ],
    )
    def test_number_of_channels(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ss.InputError, match="channels"):
            ss.Classifier(conv(), **arguments)

    @pytest.mark.parametrize("features", [1, 4])
    def test_statistics_of_other_length_than_the_features(self, features: int) -> None:
        with pytest.raises(ss.InputError, match="mean"):
            ss.Classifier(nn.Linear(3, 2), mean=[1, 2, 3], input_shape=(features,))

    @pytest.mark.parametrize(
        ("arguments", "channels"), [({}, 3), ({"mean": 0.5}, 3), ({"std": [0.5] * 4}, 4), ({"mean": [0.5]}, 1)]
    )
    def test_default_channels(self, arguments: dict[str, Any], channels: int) -> None:
        assert ss.Classifier(conv(), **arguments).channels == channels

    def test_unknown_interpolation(self) -> None:
        with pytest.raises(ss.InputError, match=r"interpolation must be one of .*bicubic.*, not 'cubic'"):
            ss.Classifier(conv(), interpolation="cubic")

    @pytest.mark.parametrize("net", [None, 3, "resnet50", {"weight": 1}])
    def test_net_must_be_callable(self, net: Any) -> None:
        with pytest.raises(ss.InputError, match="net must be"):
            ss.Classifier(net)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"size": 0},
            {"size": -8},
            {"size": 2.5},
            {"size": "8"},
            {"size": (8,)},
            {"size": (8, 0)},
            {"size": 8, "resize": -1},
            {"size": 8, "resize": 9.5},
            {"input_shape": 4},
            {"input_shape": ()},
            {"input_shape": (4, -1)},
        ],
    )
    def test_lengths_must_be_positive_and_whole(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ss.InputError, match=list(arguments)[-1]):
            ss.Classifier(conv(), **arguments)

    def test_lengths_may_come_from_numpy(self) -> None:
        assert ss.Classifier(conv(), size=np.int64(8)).input_shape == (3, 8, 8)


class TestInput:
    def test_one_and_a_batch(self) -> None:
        model, x = ss.Classifier(conv(), size=6), pixels(2, 3, 6, 6)
        assert isinstance(ss.explain(model, x[0]), ss.Explanation)
        both = ss.explain(model, list(x))
        assert len(both) == 2
        for one, alone in zip(both, [ss.explain(model, x[0]), ss.explain(model, x[1])], strict=True):
            assert torch.equal(one.delta, alone.delta)
        assert not torch.equal(both[0].delta, both[1].delta)

    @pytest.mark.parametrize("shape", [(2, 3, 6, 6), (1, 3, 6, 6), (2, 4, 6, 6)])
    def test_a_batch_tensor_is_refused_with_the_remedy(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ss.InputError) as refusal:
            ss.explain(ss.Classifier(conv(), size=6), pixels(*shape))
        remedy = f"type list(x), or ss.explain_batches(model, x), not a batch of shape {shape}"
        assert remedy in str(refusal.value)

    @pytest.mark.parametrize("shape", [(6, 6), (3, 6), (1, 6, 6), (3, 6, 7), (3, 7, 6), (4, 6, 6), (1, 2, 3, 6, 6)])
    def test_wrong_shape(self, shape: tuple[int, ...]) -> None:
        model = ss.Classifier(conv(), size=6)
        for x in (pixels(*shape), [pixels(*shape)]):
            with pytest.raises(ss.InputError, match=r"\(3, 6, 6\)"):
                ss.explain(model, x)

    @pytest.mark.parametrize("shape", [(3, 6, 6), (1, 3, 7, 6), (6,)])
    def test_a_call_wants_a_batch(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ss.InputError, match="batch"):
            ss.Classifier(conv(), size=6)(pixels(*shape))

    def test_size_that_is_not_square(self) -> None:
        model = ss.Classifier(conv(), size=(6, 10))
        assert model(pixels(1, 3, 6, 10)).shape == (1, 4)
        assert model.load(Image.new("RGB", (50, 40))).shape == (3, 6, 10)
        assert ss.explain(model, pixels(3, 6, 10)).delta.shape == (3, 6, 10)
        with pytest.raises(ss.InputError, match=r"\(3, 10, 6\)"):
            ss.explain(model, pixels(3, 10, 6))

    def test_any_size(self) -> None:
        model = ss.Classifier(conv())
        assert ss.explain(model, pixels(3, 5, 9)).delta.shape == (3, 5, 9)
        with pytest.raises(ss.InputError, match=r"\(3, H, W\)"):
            ss.explain(model, pixels(1, 5, 9))

    def test_bytes_are_refused_with_the_remedy(self) -> None:
        with pytest.raises(ss.InputError, match="divide by 255"):
            ss.explain(ss.Classifier(conv()), torch.zeros(3, 6, 6, dtype=torch.uint8))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
    def test_only_floats(self, dtype: torch.dtype) -> None:
        with pytest.raises(ss.InputError, match="floats"):
            ss.explain(ss.Classifier(conv()), torch.zeros(3, 6, 6, dtype=dtype))

    @pytest.mark.parametrize("entry", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("shape", [None, (3, 6, 6)])
    def test_not_finite(self, entry: float, shape: tuple[int, ...] | None) -> None:
        x = pixels()
        x[1, 2, 3] = entry
        with pytest.raises(ss.InputError, match="finite"):
            ss.explain(ss.Classifier(conv(), input_shape=shape), x)

    @pytest.mark.parametrize("entry", [-0.01, 1.01, 255.0])
    def test_pixels_outside_0_to_1(self, entry: float) -> None:
        x = pixels()
        x[0, 0, 0] = entry
        with pytest.raises(ss.InputError, match=r"pixels must be in \[0, 1\]"):
            ss.explain(ss.Classifier(conv()), x)

    def test_other_inputs_may_be_any_float(self) -> None:
        x = pixels() * 500 - 250
        e = ss.explain(ss.Classifier(conv(), input_shape=(3, 6, 6)), x)
        assert torch.equal(e.input, x)

    def test_other_inputs_are_no_photographs(self) -> None:
        with pytest.raises(ss.InputError, match="takes no pictures"):
            ss.explain(ss.Classifier(nn.Linear(4, 3), input_shape=(4,)), ss.example_photograph())

    @pytest.mark.parametrize("shape", [(0, 3, 6, 6), (1, 3, 0, 6)])
    def test_empty(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ss.InputError, match="empty"):
            ss.Classifier(conv())(torch.zeros(*shape))

    @pytest.mark.parametrize("x", [np.zeros((3, 6, 6)), 3, None, b"photo.jpg"])
    def test_what_is_no_input(self, x: Any) -> None:
        model = ss.Classifier(conv())
        with pytest.raises(ss.InputError, match=type(x).__name__):
            ss.explain(model, x)
        with pytest.raises(ss.InputError, match=type(x).__name__):
            model(x)

    def test_the_caller_keeps_the_input(self) -> None:
        x = pixels().requires_grad_()
        before = x.detach().clone()
        e = ss.explain(ss.Classifier(conv()), x)
        e.input.zero_()
        assert torch.equal(x.detach(), before)
        assert x.requires_grad
        assert x.grad is None


class TestOutput:
    def test_logits_can_be_differentiated_in_the_input(self) -> None:
        net, x = conv(), pixels(2, 3, 6, 6).requires_grad_()
        (found,) = torch.autograd.grad(ss.Classifier(net, 0.5, 0.2)(x)[:, 1].sum(), x)
        (wanted,) = torch.autograd.grad(net((x - 0.5) / 0.2)[:, 1].sum(), x)
        assert torch.allclose(found, wanted, atol=1e-6)
        assert found.any()

    @pytest.mark.parametrize("labels", [["a", "b", "c"], ["a"] * 5, []])
    def test_labels_of_the_wrong_length(self, labels: list[str]) -> None:
        with pytest.raises(ss.ModelError, match=f"4 classes but {len(labels)} labels"):
            ss.explain(ss.Classifier(conv(), labels=labels), pixels())

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda f: f * float("nan"), "NaN or infinite"),
            (lambda f: f + torch.tensor([0, 0, 0, float("inf")]), "NaN or infinite"),
            (lambda f: f.sum(), r"shape \(\)"),
            (lambda f: f[0], r"shape \(4,\)"),
            (lambda f: f[:, :1], r"shape \(1, 1\)"),
            (lambda f: f[:, :, None], r"shape \(1, 4, 1\)"),
            (lambda f: (f, f), "tuple"),
            (lambda f: {"logits": f}, "dict"),
            (lambda f: f.tolist(), "list"),
        ],
    )
    @pytest.mark.parametrize("method", METHODS)
    def test_what_is_no_batch_of_logits(self, spoil: Callable[[Tensor], Any], message: str, method: str) -> None:
        with pytest.raises(ss.ModelError, match=message):
            ss.explain(ss.Classifier(lambda x: spoil(logits_of(x))), pixels(), method)

    def test_probabilities_draw_a_warning_once_and_a_note_always(self) -> None:
        model = ss.Classifier(nn.Sequential(conv(), nn.Softmax(1)))
        with pytest.warns(ss.SecondsightWarning, match="look like probabilities"):
            first = ss.explain(model, pixels())
        second = ss.explain(model, pixels())
        for e in (first, second):
            assert sum("look like probabilities" in note for note in e.notes) == 1

    def test_logits_draw_no_warning(self) -> None:
        assert not ss.explain(ss.Classifier(conv()), pixels()).notes

    def test_positive_outputs_that_do_not_sum_to_one_are_logits(self) -> None:
        assert not ss.explain(ss.Classifier(nn.Sequential(conv(), nn.Softplus())), pixels()).notes

    @pytest.mark.parametrize("method", METHODS)
    def test_hidden_dependence(self, method: str) -> None:
        with pytest.raises(ss.ModelError, match="cuts its graph"):
            ss.explain(ss.Classifier(lambda x: logits_of(x.detach())), pixels(), method)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(
        "net",
        [lambda x: torch.tensor([[3.0, 1.0, 2.0]]).expand(len(x), 3), lambda x: logits_of(x) * 0],
        ids=["apart", "zero"],
    )
    def test_constant(self, net: Callable[[Tensor], Tensor], method: str) -> None:
        e = ss.explain(ss.Classifier(net), pixels(), method)
        assert not e.delta.any()
        assert e.target == 0
        assert e.sparsity == 1
        assert e.certificate.relative_gap == 0
        assert any("gradient of the loss is zero" in note for note in e.notes)


class TestTarget:
    LABELS = ("tabby cat", "tiger_cat", "Egyptian cat", "crane", "Crane", "7up")

    def explained(self, target: Any) -> ss.Explanation:
        return ss.explain(ss.Classifier(conv(classes=6), labels=self.LABELS), pixels(), target=target)

    @pytest.mark.parametrize(
        ("target", "index"),
        [
            (0, 0),
            (5, 5),
            ("2", 2),
            (np.int64(2), 2),
            ("tabby cat", 0),
            ("TABBY Cat", 0),
            ("tabby_cat", 0),
            (" tabby cat ", 0),
            ("tiger cat", 1),
            ("egyptian_CAT", 2),
            ("7UP", 5),
        ],
    )
    def test_found(self, target: Any, index: int) -> None:
        e = self.explained(target)
        assert (e.target, e.label) == (index, self.LABELS[index])

    def test_the_predicted_class_by_default(self) -> None:
        model = ss.Classifier(conv(classes=6), labels=self.LABELS)
        probabilities = model(pixels()[None]).softmax(1)[0]
        e = self.explained(None)
        assert e.target == int(probabilities.argmax())
        assert e.probability == pytest.approx(float(probabilities.max()), rel=1e-5)

    def test_each_of_a_batch(self) -> None:
        model = ss.Classifier(conv(classes=6), labels=self.LABELS)
        found = ss.explain(model, list(pixels(3, 3, 6, 6)), target=[1, "7up", None])
        assert [e.target for e in found[:2]] == [1, 5]

    @pytest.mark.parametrize(
        ("target", "near"),
        [("tiger cart", "tiger cat"), ("egyptian", "egyptian cat"), ("tabby", "tabby cat"), ("cat", "egyptian cat")],
    )
    def test_wrong_name_suggests_near_ones(self, target: str, near: str) -> None:
        with pytest.raises(ss.InputError, match=f"near: .*{near}.*not '{target}'"):
            self.explained(target)

    def test_wrong_name_without_near_ones(self) -> None:
        with pytest.raises(ss.InputError, match=r"one of the model's labels, not 'xyzzy'"):
            self.explained("xyzzy")

    @pytest.mark.parametrize("target", [6, -1, "6", "-1", 10**12, True, False, 2.0, 2.7, "²", "--1", b"crane"])
    def test_no_index(self, target: Any) -> None:
        with pytest.raises(ss.InputError, match="target must be"):
            self.explained(target)

    def test_ambiguous_name(self) -> None:
        with pytest.raises(ss.InputError, match="indices 3, 4"):
            self.explained("crane")

    def test_name_without_labels(self) -> None:
        with pytest.raises(ss.InputError, match="no labels"):
            ss.explain(ss.Classifier(conv()), pixels(), target="cat")


class SuddenError(Exception):
    """Raised by a network or a callback in the middle of an explanation."""


class Raising(nn.Module):
    """Fails from its second call on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 1:
            raise SuddenError
        return x


def stop(_: int) -> None:
    raise SuddenError


def everything(net: nn.Module) -> dict[str, Any]:
    """All that an explanation might leave changed, of a network and of torch."""
    modules = list(net.modules())
    return {
        "training": [module.training for module in modules],
        "requires_grad": [parameter.requires_grad for parameter in net.parameters()],
        "parameters": [parameter.detach().clone() for parameter in net.parameters()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in net.parameters()],
        "buffers": [buffer.clone() for buffer in net.buffers()],
        "forward hooks": [list(module._forward_hooks.items()) for module in modules],
        "forward pre-hooks": [list(module._forward_pre_hooks.items()) for module in modules],
        "backward hooks": [list(module._backward_hooks.items()) for module in modules],
        "attributes": [sorted(vars(module)) for module in modules],
        "dtype": [parameter.dtype for parameter in net.parameters()],
        "grad enabled": torch.is_grad_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "flash attention": torch.backends.cuda.flash_sdp_enabled(),
        "random numbers": torch.get_rng_state(),
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    return bool(a == b)


class TestUntouched:
    @pytest.fixture
    def net(self) -> nn.Sequential:
        """Mixed modes, some frozen parameters, some gradients, hooks."""
        net = trained()
        net.append(nn.Identity())
        net.train()
        net[1].eval()
        net[3].eval()
        net[0].bias.requires_grad_(False)
        net(pixels(4, 3, 6, 6)).sum().backward()
        net[5].bias.grad = None
        net[0].register_forward_hook(lambda module, args, output: None)
        net[4].register_forward_pre_hook(lambda module, args: None)
        net[5].register_full_backward_hook(lambda module, grad_input, grad_output: None)
        return net

    def changed(self, net: nn.Module, act: Callable[[], Any]) -> list[str]:
        before = everything(net)
        act()
        after = everything(net)
        return [name for name in before if not same(before[name], after[name])]

    def test_what_is_compared_would_be_seen(self, net: nn.Sequential) -> None:
        def meddle() -> None:
            net.eval().requires_grad_(False)
            net[1].running_mean += 1
            net[5].weight.grad.zero_()
            net[0]._forward_hooks.clear()
            torch.rand(1)

        assert set(self.changed(net, meddle)) == {
            "training",
            "requires_grad",
            "buffers",
            "gradients",
            "forward hooks",
            "random numbers",
        }

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("curvature", ["auto", "gauss-newton", "exact"])
    def test_after_success(self, net: nn.Sequential, method: str, curvature: str) -> None:
        model = ss.Classifier(net)
        config = configured(method, curvature=curvature)
        assert self.changed(net, lambda: ss.explain(model, pixels(), config)) == []

    def test_after_a_call(self, net: nn.Sequential) -> None:
        model = ss.Classifier(net)
        assert self.changed(net, lambda: model(pixels(2, 3, 6, 6))) == []

    def test_after_products_with_the_hessian(self, net: nn.Sequential) -> None:
        hessian = ss.input_hessian(ss.Classifier(net), pixels())
        assert self.changed(net, lambda: (hessian.matmul(torch.ones(108)), hessian.eigh(2), hessian.trace())) == []

    @pytest.mark.parametrize("method", METHODS)
    def test_after_an_error_of_the_caller(self, net: nn.Sequential, method: str) -> None:
        model = ss.Classifier(net)

        def fail() -> None:
            with pytest.raises(ss.InputError):
                ss.explain(model, pixels(), method, target="cat")

        assert self.changed(net, fail) == []

    def test_after_an_error_of_the_network(self, net: nn.Sequential) -> None:
        net[6] = Raising()
        model = ss.Classifier(net)

        def fail() -> None:
            with pytest.raises(SuddenError):
                ss.explain(model, pixels())

        # The counter is the network's own.
        assert set(self.changed(net, fail)) <= {"attributes"}

    def test_after_an_interruption(self, net: nn.Sequential) -> None:
        model = ss.Classifier(net)

        def fail() -> None:
            with pytest.raises(SuddenError):
                ss.explain(model, pixels(), progress=stop)

        assert self.changed(net, fail) == []

    @pytest.mark.parametrize("method", METHODS)
    def test_mode_does_not_matter(self, method: str) -> None:
        net = trained()
        train = ss.explain(ss.Classifier(net.train()), pixels(), method)
        assert net.training
        evaluated = ss.explain(ss.Classifier(net.eval()), pixels(), method)
        assert torch.equal(train.delta, evaluated.delta)
        assert train.probability == evaluated.probability

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(
        "context",
        [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)],
        ids=["no_grad", "inference_mode", "autocast"],
    )
    def test_surrounding_context_does_not_matter(self, context: Callable[[], Any], method: str) -> None:
        net, x = conv(), pixels()
        model = ss.Classifier(net)
        wanted = ss.explain(model, x, method)
        logits = model(x[None])
        with context():
            state = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
            inside = ss.explain(model, x, method)
            made_inside = ss.explain(ss.Classifier(net, mean=0.0, std=1.0), pixels(), method)
            assert torch.equal(model(x[None]), logits)
            assert state == (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.is_autocast_enabled("cpu"),
            )
        assert torch.equal(inside.delta, wanted.delta)
        assert torch.equal(made_inside.delta, wanted.delta)

    def test_made_in_inference_mode(self) -> None:
        with torch.inference_mode():
            net = conv()
        with pytest.raises(ss.ModelError, match="inference_mode"):
            ss.Classifier(net)

    @pytest.mark.parametrize("enabled", [False, True])
    def test_fast_path_of_attention(self, enabled: bool) -> None:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = ss.Classifier(nn.Sequential(layer, nn.Flatten(), nn.Linear(40, 3)), input_shape=(5, 8))
        before = torch.backends.mha.get_fastpath_enabled()
        try:
            torch.backends.mha.set_fastpath_enabled(enabled)
            e = ss.explain(model, pixels(5, 8))
            assert torch.backends.mha.get_fastpath_enabled() == enabled
        finally:
            torch.backends.mha.set_fastpath_enabled(before)
        assert e.curvature == "exact"
        assert e.certificate.holds


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("method", METHODS)
    def test_half_is_computed_in_float32(self, dtype: torch.dtype, method: str) -> None:
        net = conv().to(dtype)
        before = everything(net)
        e = ss.explain(ss.Classifier(net), pixels(), method)
        wanted = ss.explain(ss.Classifier(copy.deepcopy(net).float()), pixels(), method)
        assert same(list(everything(net).values()), list(before.values()))
        assert {parameter.dtype for parameter in net.parameters()} == {dtype}
        assert e.delta.dtype == torch.float32
        assert torch.equal(e.delta, wanted.delta)
        assert any("computed in float32" in note for note in e.notes)

    @pytest.mark.parametrize("layer", [0, 4])
    def test_half_in_part(self, layer: int) -> None:
        net = conv()
        net[layer].half()
        e = ss.explain(ss.Classifier(net), pixels())
        assert net[layer].weight.dtype == torch.float16
        assert e.delta.dtype == torch.float32
        assert any("computed in float32" in note for note in e.notes)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_input_of_another_precision(self, dtype: torch.dtype) -> None:
        x = (pixels() * 64).round() / 64
        model = ss.Classifier(conv())
        assert torch.equal(ss.explain(model, x.to(dtype)).delta, ss.explain(model, x).delta)

    @pytest.mark.parametrize("method", METHODS)
    def test_float64(self, method: str) -> None:
        double = ss.explain(ss.Classifier(conv().double()), pixels(), configured(method, lambda1=1e-4))
        single = ss.explain(ss.Classifier(conv()), pixels(), configured(method, lambda1=1e-4))
        assert double.delta.dtype == double.gradient.dtype == torch.float64
        assert not torch.equal(double.delta, single.delta.double())
        assert torch.allclose(double.delta, single.delta.double(), rtol=1e-3, atol=1e-8)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("method", METHODS)
    def test_function(self, dtype: torch.dtype, method: str) -> None:
        model = ss.Classifier(logits_of, size=6)
        assert model.device == torch.device("cpu")
        e = ss.explain(model, pixels().to(dtype), method)
        assert e.delta.dtype == dtype
        assert e.delta.any()
        net = nn.Sequential(nn.Flatten(), nn.Linear(108, 4, bias=False)).to(dtype)
        net[1].weight.data = logits_of(torch.eye(108, dtype=dtype)).T.contiguous()
        wanted = ss.explain(ss.Classifier(net), pixels().to(dtype), method)
        assert torch.allclose(e.delta, wanted.delta, rtol=1e-3, atol=1e-7)


class TwoParts(nn.Module):
    """A network of a vector and a small matrix, which tells the modes apart."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.vector, self.matrix, self.drop = nn.Linear(3, 4), nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, vector: Tensor, matrix: Tensor) -> Tensor:
        result: Tensor = self.vector(vector).tanh() + self.drop(self.matrix(matrix.flatten(1)).relu())
        return result


class TestSeveralParts:
    SHAPES = ((3,), (2, 2))

    def model(self) -> tuple[ss.Classifier, nn.Module]:
        net = TwoParts().double()
        return ss.Classifier(net, input_shape=list(self.SHAPES)), net

    def parts(self, seed: int = 1) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        first, second = (torch.rand(shape, generator=generator, dtype=torch.float64) for shape in self.SHAPES)
        return first, second

    @pytest.mark.parametrize("method", METHODS)
    def test_a_tuple_is_one_input(self, method: str) -> None:
        model, net = self.model()
        x = self.parts()
        e = ss.explain(model, x, method)
        assert torch.equal(e.input, torch.cat([part.flatten() for part in x]))
        assert e.delta.shape == (7,)
        assert [part.shape for part in model.split(e.delta)] == list(self.SHAPES)
        assert torch.equal(torch.cat([part.flatten() for part in model.split(e.delta)]), e.delta)
        leaves = [part[None].clone().requires_grad_() for part in x]
        loss = nn.functional.cross_entropy(net.eval()(*leaves), torch.tensor([e.target]))
        slopes = torch.cat([slope.flatten() for slope in torch.autograd.grad(loss, leaves)])
        torch.testing.assert_close(e.gradient, slopes)
        assert e.method.c1 == "0.25L"
        assert e.model == "TwoParts"

    def test_a_list_of_tuples_is_several(self) -> None:
        model, _ = self.model()
        x = [self.parts(1), self.parts(2)]
        for e, one in zip(ss.explain(model, x), x, strict=True):
            torch.testing.assert_close(e.delta, ss.explain(model, one).delta, rtol=1e-9, atol=1e-12)

    def test_the_network_comes_back_as_it_was(self) -> None:
        model, net = self.model()
        net.train()
        ss.explain(model, self.parts())
        assert all(module.training for module in net.modules())
        assert all(parameter.requires_grad for parameter in net.parameters())

    def test_parts_that_do_not_fit(self) -> None:
        model, _ = self.model()
        first, second = self.parts()
        for wrong in ((first,), (first, second, second), (second, first), (first, 3)):
            with pytest.raises(ss.InputError, match=r"the input must be tensors of the shapes \[\(3,\), \(2, 2\)\]"):
                ss.explain(model, wrong)

    def test_a_tuple_for_a_network_of_one_input(self) -> None:
        with pytest.raises(ss.InputError, match="a tuple is one input of several parts; several inputs are a list"):
            ss.explain(ss.Classifier(conv()), (pixels(), pixels()))

    @pytest.mark.parametrize("shapes", [[(3,), (0,)], [(3,), 2], [(3,), ("x",)]])
    def test_shapes_that_are_none(self, shapes: Any) -> None:
        with pytest.raises(ss.InputError, match="input_shape must be a shape or a list of shapes"):
            ss.Classifier(TwoParts(), input_shape=shapes)

    def test_no_normalisation(self) -> None:
        with pytest.raises(ss.InputError, match="mean and std must be None for a network of several inputs"):
            ss.Classifier(TwoParts(), mean=0.5, input_shape=self.SHAPES)
