"""Our methods under Captum's own conventions."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pytest
import torch
from captum.attr import Attribution, NoiseTunnel, visualization
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, PIECEWISE_LINEAR, Case, lively
from reference import Quadratic, gauss_newton, gradient
from secondsight.captum import CAFO, CASO, SmoothCAFO, SmoothCASO

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


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_is_explained_example_by_example(case: Case, method: str) -> None:
    batch = torch.stack([case.x, case.x * 0.5, 1 - case.x])
    attribution = ALL[method](case.net)
    assert isinstance(attribution, Attribution)
    together = attribution.attribute(batch, target=[0, 1, 0], n=3)
    assert together.shape == batch.shape
    assert together.dtype == batch.dtype
    for x, target, found in zip(batch, (0, 1, 0), together, strict=True):
        alone = ALL[method](case.net).attribute(x[None], target=target, n=3)[0]
        torch.testing.assert_close(found, alone, **CLOSE)
        ours = ss.explain(case.classifier(), x, method, target=target, n=3).delta
        torch.testing.assert_close(found, ours, **CLOSE)


def test_targets_of_every_kind() -> None:
    case = PIECEWISE_LINEAR[0]
    batch = torch.stack([case.x, 1 - case.x])
    method = CASO(case.net)
    one = method.attribute(batch, target=2)
    for target in (torch.tensor(2), torch.tensor([2]), [2, 2], (2, 2), torch.tensor([2, 2])):
        assert torch.equal(method.attribute(batch, target=target), one)
    mixed = method.attribute(batch, target=torch.tensor([0, 2]))
    assert torch.equal(mixed[1], one[1])
    predicted = case.net(batch).argmax(1)
    assert torch.equal(method.attribute(batch), method.attribute(batch, target=predicted))


def test_a_tuple_has_one_joint_objective() -> None:
    net, inputs = two_inputs()
    attributions, explanations = CASO(net).attribute(inputs, target=1, lambda1=0.002, return_certificate=True)
    assert isinstance(attributions, tuple)
    assert [a.shape for a in attributions] == [x.shape for x in inputs]
    for i, e in enumerate(explanations):
        flat = torch.cat([x[i].flatten() for x in inputs])

        def joined(z: Tensor) -> Tensor:
            return net(z[:, :9].reshape(-1, 1, 3, 3), z[:, 9:])

        exact = Quadratic(gradient(joined, flat, 1), gauss_newton(joined, flat), e.lambda1, e.lambda2)
        delta = torch.cat([a[i].flatten() for a in attributions])
        assert exact.objective(exact.optimum()) - exact.objective(delta) <= e.gap + 1e-12
        assert e.certified


def test_additional_arguments_follow_their_example() -> None:
    net, inputs = two_inputs()
    scales = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    options: dict[str, Any] = {"target": 0, "n": 4, "lambda1": 0.3}
    for method in ALL.values():
        together = method(net).attribute(inputs, additional_forward_args=scales, internal_batch_size=3, **options)
        for i, scale in enumerate(scales):
            one = tuple(x[i : i + 1] for x in inputs)
            alone = method(net).attribute(one, additional_forward_args=(float(scale),), **options)
            for found, expected in zip(together, alone, strict=True):
                torch.testing.assert_close(found[i], expected[0], **CLOSE)


def test_the_certificate_on_request() -> None:
    case = PIECEWISE_LINEAR[3]
    attributions, explanations = SmoothCASO(case.net).attribute(
        case.x[None], target=1, n=3, internal_batch_size=2, return_certificate=True
    )
    (e,) = explanations
    assert isinstance(e, ss.Explanation)
    assert e.certified == "estimated"
    assert e.settings["batch_size"] == 2
    assert torch.equal(e.delta, attributions[0])


@pytest.mark.parametrize("method", ALL)
def test_inside_a_noise_tunnel(method: str) -> None:
    """Captum averages our maps of noisy inputs; without noise that is the map itself."""
    case = PIECEWISE_LINEAR[3]
    batch = torch.stack([case.x, 1 - case.x])
    tunnel = NoiseTunnel(ALL[method](case.net))
    still = tunnel.attribute(batch, nt_samples=2, stdevs=0.0, target=torch.tensor([0, 1]), n=2)
    torch.testing.assert_close(still, ALL[method](case.net).attribute(batch, target=[0, 1], n=2), **CLOSE)
    torch.manual_seed(0)
    noisy = tunnel.attribute(batch, nt_samples=3, nt_samples_batch_size=2, stdevs=0.1, target=0, n=2)
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
            ALL[method](net).attribute(x, n=2)
    else:
        ALL[method](net).attribute(x, n=2)
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
    with pytest.raises(ss.InputError, match="target must be a class index from 0 to 3"):
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
