"""Our methods under Captum's own conventions."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from captum.attr import Attribution, NoiseTunnel, Saliency, visualization
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, PIECEWISE_LINEAR, Case, lively
from reference import Quadratic, gauss_newton, gradient
from secondsight.captum import CAFO, CASO, SmoothCAFO, SmoothCASO
from secondsight.config import METHODS, method_of

ALL = {"cafo": CAFO, "caso": CASO, "smooth-cafo": SmoothCAFO, "smooth-caso": SmoothCASO}
CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-13}


class TwoInputs(nn.Module):
    """Logits of a picture and a vector together, and of a scale that is no input."""

    def __init__(self) -> None:
        super().__init__()
        self.picture, self.vector, self.head = nn.Conv2d(1, 2, 2), nn.Linear(5, 3), nn.Linear(11, 4)

    def forward(self, picture: Tensor, vector: Tensor, scale: Any = 1.0) -> Tensor:
        seen = self.picture(picture).relu().flatten(1)
        logits: Tensor = self.head(torch.cat([seen, self.vector(vector).relu()], dim=1))
        return logits * (scale[:, None] if isinstance(scale, Tensor) else scale)


def two_inputs() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(3, 1, 3, 3, generator=generator, dtype=torch.float64)
    vectors = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    return lively(TwoInputs(), 1), (pictures, vectors)


def options_of(method: str, **options: Any) -> dict[str, Any]:
    """The options that a method has."""
    return {name: value for name, value in options.items() if name in METHODS[method].options()}


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_is_explained_example_by_example(case: Case, method: str) -> None:
    batch = torch.stack([case.x, case.x * 0.5, 1 - case.x])
    few = options_of(method, n=3)
    attribution = ALL[method](case.net, **few)
    assert isinstance(attribution, Attribution)
    together = attribution.attribute(batch, target=[0, 1, 0])
    assert together.shape == batch.shape
    assert together.dtype == batch.dtype
    for x, target, found in zip(batch, (0, 1, 0), together, strict=True):
        alone = ALL[method](case.net, **few).attribute(x[None], target=target)[0]
        torch.testing.assert_close(found, alone, **CLOSE)
        ours = ss.explain(case.classifier(), x, method_of(method, **few), target=target).delta
        torch.testing.assert_close(found, ours, **CLOSE)


def test_targets_of_every_kind() -> None:
    case = PIECEWISE_LINEAR[0]
    batch = torch.stack([case.x, 1 - case.x])
    method = CASO(case.net)
    one = method.attribute(batch, target=2)
    same: list[Any] = [torch.tensor(2), torch.tensor([2]), [2], [2, 2], (2,), [(2,), (2,)], -2, [-2, 2], [-2]]
    same += [torch.tensor([2, 2]), torch.tensor([[2], [2]]), torch.tensor([[2], [-2]]), np.int64(2)]
    for target in same:
        assert torch.equal(method.attribute(batch, target=target), one), target
    mixed = method.attribute(batch, target=torch.tensor([0, 2]))
    assert torch.equal(mixed[1], one[1])
    predicted = case.net(batch).argmax(1)
    assert torch.equal(method.attribute(batch), method.attribute(batch, target=predicted))


class Map(nn.Module):
    """Logits of three classes at each of 2 x 2 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 12)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.relu() + 0.1 * x).reshape(-1, 3, 2, 2)
        return logits


def test_a_position_in_the_outputs() -> None:
    """A tuple is the class and the position, for all examples or for each."""
    net = lively(Map(), 4)
    batch = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for method in (CAFO, CASO):
        here = method(lambda x: net(x)[:, :, 1, 0]).attribute(batch, target=2)
        there = method(lambda x: net(x)[:, :, 0, 1]).attribute(batch, target=0)
        torch.testing.assert_close(method(net).attribute(batch, target=(2, 1, 0)), here, **CLOSE)
        torch.testing.assert_close(method(net).attribute(batch, target=(-1, -1, 0)), here, **CLOSE)
        mixed = method(net).attribute(batch, target=[(2, 1, 0), (0, 0, 1)])
        torch.testing.assert_close(mixed, torch.stack([here[0], there[1]]), **CLOSE)
    for wrong in (1, None, (1, 0), (1, 0, 0, 0), (1, 2, 0), (3, 0, 0)):
        with pytest.raises(ss.InputError, match="target must be"):
            CASO(net).attribute(batch, target=wrong)


@pytest.mark.parametrize("method", ALL)
def test_the_sign(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    few = options_of(method, n=2)
    loss = ALL[method](case.net, **few).attribute(case.x[None], target=1)
    score = ALL[method](case.net, sign="score", **few).attribute(case.x[None], target=1)
    assert bool(loss.any())
    assert torch.equal(score, -loss)
    # Positive speaks for the class, as in Captum: a step along the map raises its score against the others.
    step = 1e-3 * score / score.norm()
    before, after = (case.net(x).log_softmax(1)[0, 1] for x in (case.x[None], case.x[None] + step))
    assert after > before


@pytest.mark.parametrize("method", ALL)
def test_an_empty_batch(method: str) -> None:
    net, inputs = two_inputs()
    empty, explanations = ALL[method](net).attribute(tuple(x[:0] for x in inputs), target=0, return_explanations=True)
    assert [part.shape for part in empty] == [(0, *x.shape[1:]) for x in inputs]
    assert explanations == []
    case = PIECEWISE_LINEAR[3]
    assert ALL[method](case.net).attribute(case.x[None][:0]).shape == (0, *case.x.shape)


def test_numbers_and_mixed_types_among_the_inputs() -> None:
    """A tensor of shape (N,) is one number for each example; each part goes into the network in its own type."""
    weights = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))

    def forward(x: Tensor, scale: Tensor) -> Tensor:
        assert (x.dtype, scale.dtype, scale.ndim) == (torch.float32, torch.float64, 1)
        return (x @ weights.T).relu() * scale[:, None].float()

    x, scale = torch.rand(4, 5), torch.rand(4, dtype=torch.float64) + 1
    found = CASO(forward, lambda1=0.0).attribute((x, scale), target=1)
    assert [(part.shape, part.dtype) for part in found] == [(x.shape, x.dtype), (scale.shape, scale.dtype)]
    assert all(bool(part.any()) for part in found)
    only = CAFO(lambda z: torch.stack([z, -z * z], dim=1), lambda1=0.0).attribute(scale, target=0)
    assert only.shape == scale.shape
    assert bool((only < 0).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_inputs_of_another_precision_than_the_network(dtype: torch.dtype) -> None:
    case = PIECEWISE_LINEAR[3]
    net, x = copy.deepcopy(case.net).to(dtype), case.x[None].float()
    found = CASO(net, lambda1=0.0).attribute(x, target=1)
    assert found.dtype == torch.float32
    expected = CASO(case.net, lambda1=0.0).attribute(case.x[None], target=1).float()
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.05 * float(expected.abs().max()))


def test_the_options_are_those_of_the_configs() -> None:
    for name, attribution in ALL.items():
        parameters = inspect.signature(attribution).parameters
        assert list(parameters) == ["forward_func", "sign", "seed", *METHODS[name].options()]
        assert all(parameters[option].default == default for option, default in METHODS[name].defaults().items())
        assert all(f"    {option}: " in (attribution.__doc__ or "") for option in METHODS[name].options())
    owners = "smoothgrad, smooth-cafo, smooth-caso, picture"
    with pytest.raises(ss.InputError, match=f"n must be an option of {owners}, not of caso"):
        CASO(PIECEWISE_LINEAR[0].net, n=3)
    with pytest.raises(ss.InputError, match="stdevs must be None beside sigma"):
        SmoothCASO(PIECEWISE_LINEAR[0].net, stdevs=0.1, sigma=0.1)


def test_the_strength_of_the_noise_in_units_of_the_input() -> None:
    case = PIECEWISE_LINEAR[3]
    spread = float(case.x.max() - case.x.min())
    by_share, by_units = (
        SmoothCASO(case.net, n=3, **noise).attribute(case.x[None], target=1)
        for noise in ({"sigma": 0.2}, {"stdevs": 0.2 * spread})
    )
    torch.testing.assert_close(by_share, by_units, **CLOSE)


def test_a_batch_takes_its_products_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen examples run the network no more often than `explain` of a list does."""
    case = PIECEWISE_LINEAR[3]
    batch = torch.rand(16, *case.x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    passes = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal passes
        passes += 1
        return case.net(x)

    attribution, model = CASO(counted), ss.Classifier(counted, input_shape=case.x.shape)
    attribution.attribute(batch[:2], target=1)
    ss.explain(model, list(batch[:2]), target=1)
    passes = 0
    found = attribution.attribute(batch, target=1)
    ours, passes = passes, 0
    listed = ss.explain(model, list(batch), target=1)
    # One more finds out the number of classes, for negative targets.
    assert ours <= passes + 1
    torch.testing.assert_close(found, torch.stack([e.delta for e in listed]), **CLOSE)


def test_examples_at_a_time() -> None:
    case = PIECEWISE_LINEAR[3]
    batch = torch.rand(5, *case.x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for method in (CAFO, CASO):
        whole = method(case.net).attribute(batch, target=1)
        for size in (1, 2, 7):
            found = method(case.net).attribute(batch, target=1, internal_batch_size=size)
            torch.testing.assert_close(found, whole, **CLOSE)


def test_a_classifier_as_forward_function() -> None:
    """Also under noise, which leads outside [0, 1]; c1 is relative, as in all attributions."""
    case = PIECEWISE_LINEAR[3]
    model = ss.Classifier(case.net, mean=0.5, std=0.25, size=case.x.shape[1:])
    case.net.train()
    batch = torch.stack([case.x, 1 - case.x])
    plain = CASO(lambda x: case.net.eval()((x - 0.5) / 0.25)).attribute(batch, target=1)
    case.net.train()
    torch.testing.assert_close(CASO(model).attribute(batch, target=1), plain, **CLOSE)
    assert case.net.training
    torch.manual_seed(0)
    for method in (Saliency(model), CASO(model)):
        noisy = NoiseTunnel(method).attribute(batch, nt_samples=3, stdevs=1.0, target=1)
        assert bool(noisy.any())
    case.net.eval()
    with pytest.raises(ss.InputError, match=r"pixels must be in \[0, 1\]"):
        ss.explain(model, 2 * case.x)


def test_a_map_that_is_all_zero_is_a_warning() -> None:
    net = nn.Linear(6, 3)
    nn.init.zeros_(net.weight)
    with pytest.warns(ss.SecondsightWarning, match="the map is all zero"):
        CASO(net).attribute(torch.rand(2, 6), target=0)


def test_arguments_that_captum_has_and_we_do_not() -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError, match=r"baselines must be left out: CASO.attribute takes inputs, target"):
        CASO(case.net).attribute(case.x[None], baselines=0)
    with pytest.raises(ss.InputError, match=r"lambda1 must be given to the constructor, CASO\(forward_func, lambda1="):
        CASO(case.net).attribute(case.x[None], lambda1=0.1)
    with pytest.raises(NotImplementedError, match="SmoothCAFO has no attribute_future"):
        SmoothCAFO(case.net).attribute_future(case.x[None])


def test_a_tuple_has_one_joint_objective() -> None:
    net, inputs = two_inputs()
    attributions, explanations = CASO(net, lambda1=0.002).attribute(inputs, target=1, return_explanations=True)
    assert isinstance(attributions, tuple)
    assert [a.shape for a in attributions] == [x.shape for x in inputs]
    for i, e in enumerate(explanations):
        flat = torch.cat([x[i].flatten() for x in inputs])

        def joined(z: Tensor) -> Tensor:
            return net(z[:, :9].reshape(-1, 1, 3, 3), z[:, 9:])

        exact = Quadratic(gradient(joined, flat, 1), gauss_newton(joined, flat), e.lambda1, e.lambda2)
        delta = torch.cat([a[i].flatten() for a in attributions])
        assert exact.objective(exact.optimum()) - exact.objective(delta) <= e.certificate.gap + 1e-12
        assert e.certificate.holds


def test_additional_arguments_follow_their_example() -> None:
    net, inputs = two_inputs()
    scales = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    for name, method in ALL.items():
        options = options_of(name, n=4, lambda1="20%")
        together = method(net, **options).attribute(
            inputs, additional_forward_args=scales, internal_batch_size=3, target=0
        )
        assert any(bool(part.any()) for part in together)
        for i, scale in enumerate(scales):
            one = tuple(x[i : i + 1] for x in inputs)
            alone = method(net, **options).attribute(one, additional_forward_args=(float(scale),), target=0)
            for found, expected in zip(together, alone, strict=True):
                torch.testing.assert_close(found[i], expected[0], **CLOSE)


def test_the_certificate_on_request() -> None:
    case = PIECEWISE_LINEAR[3]
    attributions, explanations = SmoothCASO(case.net, n=3).attribute(
        case.x[None], target=1, internal_batch_size=2, return_explanations=True
    )
    (e,) = explanations
    assert isinstance(e, ss.Explanation)
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    assert e.method == ss.SmoothCASO(n=3, batch_size=2, c1="0.25L")
    assert torch.equal(e.delta, attributions[0])


@pytest.mark.parametrize("method", ALL)
def test_inside_a_noise_tunnel(method: str) -> None:
    """Captum averages our maps of noisy inputs; without noise that is the map itself."""
    case = PIECEWISE_LINEAR[3]
    batch = torch.stack([case.x, 1 - case.x])
    few = options_of(method, n=2)
    tunnel = NoiseTunnel(ALL[method](case.net, **few))
    still = tunnel.attribute(batch, nt_samples=2, stdevs=0.0, target=torch.tensor([0, 1]))
    torch.testing.assert_close(still, ALL[method](case.net, **few).attribute(batch, target=[0, 1]), **CLOSE)
    torch.manual_seed(0)
    noisy = tunnel.attribute(batch, nt_samples=3, nt_samples_batch_size=2, stdevs=0.1, target=0)
    assert noisy.shape == batch.shape
    assert bool(noisy.any())


def test_captums_pictures_of_our_maps() -> None:
    case = PIECEWISE_LINEAR[3]
    mpl.use("agg")
    seen = case.x.permute(1, 2, 0).numpy()
    values = CASO(case.net).attribute(case.x[None], target=0)[0].permute(1, 2, 0).numpy()
    figure, _ = visualization.visualize_image_attr(
        values, seen, method="blended_heat_map", sign="all", use_pyplot=False
    )
    assert len(figure.axes) >= 1


def test_wrapped_networks() -> None:
    case = PIECEWISE_LINEAR[3]
    batch = torch.stack([case.x, 1 - case.x])
    expected = CASO(case.net).attribute(batch, target=1)
    for wrapped in (nn.DataParallel(case.net), lambda x: case.net(x)):
        torch.testing.assert_close(CASO(wrapped).attribute(batch, target=1), expected, **CLOSE)


@pytest.mark.filterwarnings("ignore:.torch.jit.trace. is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.trace_method. is deprecated:DeprecationWarning")
def test_a_traced_network() -> None:
    case = PIECEWISE_LINEAR[3]
    traced = torch.jit.trace(case.net, case.x[None])
    batch = torch.stack([case.x, 1 - case.x])
    for method in (CAFO, CASO):
        torch.testing.assert_close(
            method(traced).attribute(batch, target=1), method(case.net).attribute(batch, target=1), rtol=1e-6, atol=1e-9
        )


class Fails(nn.Module):
    """Raises at the fourth pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.passes = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        if self.passes == 4:
            raise ZeroDivisionError
        logits: Tensor = self.linear(x)
        return logits


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("method", ALL)
def test_nothing_is_left_behind(method: str, fails: bool) -> None:
    net = Fails().double()
    net.passes = 0 if fails else 100
    net.train()
    net.linear.bias.requires_grad_(False)
    net.linear.weight.grad = torch.ones_like(net.linear.weight)
    x = torch.rand(2, 6, dtype=torch.float64, requires_grad=True)
    state = torch.get_rng_state()
    if fails:
        with pytest.raises(ZeroDivisionError):
            ALL[method](net, **options_of(method, n=2)).attribute(x)
    else:
        ALL[method](net, **options_of(method, n=2)).attribute(x)
    assert net.training
    assert net.linear.training
    assert [p.requires_grad for p in net.parameters()] == [True, False]
    assert torch.equal(net.linear.weight.grad, torch.ones_like(net.linear.weight))
    assert not net._forward_hooks
    assert not net._backward_hooks
    assert x.requires_grad
    assert x.grad is None
    assert torch.equal(torch.get_rng_state(), state)


def test_refusals() -> None:
    case = PIECEWISE_LINEAR[0]
    batch = torch.stack([case.x, case.x])
    with pytest.raises(ss.InputError, match="target must be one class, or one for each of the 2 examples, not 3"):
        CASO(case.net).attribute(batch, target=[0, 1, 2])
    with pytest.raises(ss.InputError, match="target must be a class index from -4 to 3"):
        CASO(case.net).attribute(batch, target=4)
    with pytest.raises(ss.InputError, match="inputs must be tensors of floats"):
        CASO(case.net).attribute(batch.long(), target=0)
    with pytest.raises(ss.InputError, match="same number of examples"):
        CASO(lambda x, y: case.net(x + y)).attribute((batch, batch[:1]), target=0)
    with pytest.raises(ss.ModelError, match="logits of shape"):
        CASO(lambda x: case.net(x)[:, 0]).attribute(batch, target=0)
    with pytest.warns(ss.SecondsightWarning, match="look like probabilities"):
        CASO(lambda x: case.net(x).softmax(1)).attribute(batch, target=0)
    with pytest.raises(ss.InputError, match="number 1 does not reach its output"):
        CASO(lambda x, y: case.net(x)).attribute((batch, batch), target=0)
    with pytest.raises(ss.InputError, match="forward_func must be"):
        CASO(3)  # type: ignore[arg-type]
