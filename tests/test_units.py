"""c1 has units: with a c1 relative to L, inputs in other units give the same map in those units."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case, configured
from reference import gauss_newton, gradient

PENALISED = ("cafo", "caso", "smooth-cafo", "smooth-caso")
SECOND_ORDER = ("caso", "smooth-caso")


class InOtherUnits(nn.Module):
    """A network whose inputs are s times those of another one."""

    def __init__(self, net: nn.Module, s: float) -> None:
        super().__init__()
        self.net, self.s = net, s

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.net(x / self.s)
        return result


@functools.cache
def explained(case: Case, s: float, method: ss.Method) -> Any:
    """The explanation of a case in units s times as small."""
    return ss.explain(ss.Classifier(InOtherUnits(case.net, s), input_shape=case.x.shape), case.x * s, method)


def apart(case: Case, s: float, method: ss.Method) -> float:
    """How far the map in other units is from s times the map, over the map's size."""
    one, other = explained(case, 1.0, method), explained(case, s, method)
    assert bool(one.delta.any())
    return float((other.delta / s - one.delta).abs().max() / one.delta.abs().max())


def assert_scales(case: Case, s: float, method: ss.Method) -> None:
    one, other = explained(case, 1.0, method), explained(case, s, method)
    assert bool(one.delta.any())
    torch.testing.assert_close(other.delta / s, one.delta, rtol=1e-6, atol=1e-6 * float(one.delta.abs().max()))
    assert torch.equal(other.delta == 0, one.delta == 0)
    assert other.sparsity == one.sparsity
    assert other.lambda1 / other.lambda1_max == pytest.approx(one.lambda1 / one.lambda1_max, rel=1e-9)
    assert other.lambda1_max * s == pytest.approx(one.lambda1_max, rel=1e-9)
    assert other.lambda2 * s**2 == pytest.approx(one.lambda2, rel=1e-6)
    assert [point.sparsity for point in other.path] == [point.sparsity for point in one.path]
    assert [p.objective for p in other.path] == pytest.approx([p.objective for p in one.path], rel=1e-6)
    assert (other.certificate.holds, other.certificate.basis) == (one.certificate.holds, one.certificate.basis)
    assert other.method == one.method
    if isinstance(method, ss.CASO):
        assert other.second_order.angle == pytest.approx(one.second_order.angle, rel=1e-6, abs=1e-6)
        assert other.top_eigenvalue * s**2 == pytest.approx(one.top_eigenvalue, rel=1e-6)
        assert other.products == one.products


@pytest.mark.parametrize("lambda1", ["auto", "10%"])
@pytest.mark.parametrize("method", PENALISED)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_other_units_give_the_same_map_in_those_units(case: Case, method: str, lambda1: str) -> None:
    config = configured(method, lambda1=lambda1, n=4)
    for s in (2.54, 1e-3, 4096.0):
        assert_scales(case, s, config)
    # The paper's c1 belongs to one unit: with it, the map in another unit is another one.
    assert apart(case, 2.54, config.with_options(c1=10.0)) > 0.5


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[4], CURVED[0], CURVED[2]]),
    st.sampled_from(PENALISED),
    st.floats(-30, 30).map(lambda exponent: 10.0**exponent),
    st.sampled_from(["0.25L", "0.01L", "3L"]),
)
def test_any_unit(case: Case, method: str, s: float, c1: str) -> None:
    assert_scales(case, s, configured(method, c1=c1, n=3))


@pytest.mark.parametrize("s", [1e-100, 1e100])
@pytest.mark.parametrize("method", PENALISED)
def test_units_of_any_size(method: str, s: float) -> None:
    for case in (PIECEWISE_LINEAR[0], CURVED[0]):
        assert apart(case, s, configured(method, n=3)) < 1e-9


@pytest.mark.parametrize("groups", ["pixel", "patch:2"])
@pytest.mark.parametrize("method", ["cafo", "caso"])
def test_groups_have_no_units(method: str, groups: str) -> None:
    assert_scales(PIECEWISE_LINEAR[3], 0.3, configured(method, groups=groups, sparsity_range=(0.2, 1.0)))


@pytest.mark.parametrize("method", PENALISED)
def test_pictures_have_the_units_of_the_paper_and_other_inputs_their_own(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    of_pictures = ss.explain(ss.Classifier(case.net, channels=3), case.x, configured(method, n=3))
    of_others = ss.explain(case.classifier(), case.x, configured(method, n=3))
    assert of_pictures.method == configured(method, n=3, c1=10.0)
    assert of_others.method == configured(method, n=3, c1="0.25L")
    for c1 in (3.0, "0.5L", 10.0):
        for model in (ss.Classifier(case.net, channels=3), case.classifier()):
            assert ss.explain(model, case.x, configured(method, n=3, c1=c1)).method.c1 == c1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_c1_is_relative_to(case: Case) -> None:
    """L for CASO, |g|^2 for CAFO."""
    caso = ss.explain(case.classifier(), case.x, ss.CASO(c1="0.5L", bound="proven"))
    assert caso.top_eigenvalue > 0
    assert caso.lambda2 == pytest.approx(caso.top_eigenvalue * (0.5 + 0.5), rel=1e-9)
    if case.piecewise_linear:
        top = float(torch.linalg.eigvalsh(gauss_newton(case.net, case.x))[-1])
        assert caso.lambda2 == pytest.approx(top, rel=1e-5)
    cafo = ss.explain(case.classifier(), case.x, ss.CAFO(c1="0.5L"))
    g = gradient(case.net, case.x, cafo.target)
    assert cafo.lambda2 == pytest.approx(0.5 * float(g @ g), rel=1e-9)


@pytest.mark.parametrize("share", [0, 0.1, 10, 33.3, 99.9, 100])
@pytest.mark.parametrize("method", PENALISED)
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], CURVED[0]], ids=str)
def test_a_share_of_lambda1_max_is_exactly_that(case: Case, method: str, share: float) -> None:
    e = ss.explain(case.classifier(), case.x, configured(method, lambda1=f"{share}%", n=3))
    assert e.lambda1 == share / 100 * e.lambda1_max
    assert bool(e.delta.any()) == (share < 100)
    number = ss.explain(case.classifier(), case.x, configured(method, lambda1=e.lambda1, n=3))
    assert torch.equal(number.delta, e.delta)


def linear(margin: float, dtype: torch.dtype = torch.float64, wrong: bool = False) -> tuple[ss.Classifier, Tensor]:
    """A network whose first class (or second, if `wrong`) is ahead of all others by about this much."""
    torch.manual_seed(0)
    net = nn.Linear(40, 5).to(dtype)
    with torch.no_grad():
        net.bias.zero_()
        net.bias[1 if wrong else 0] = margin
    return ss.Classifier(net, input_shape=(40,)), torch.full((40,), 0.5, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", PENALISED)
def test_without_curvature_c1_is_relative_to_the_gradient(method: str, dtype: torch.dtype) -> None:
    """All probability lies on a class that is not the target: H is zero there, and g is not."""
    model, x = linear(2000.0, dtype, wrong=True)
    e: Any = ss.explain(model, x, configured(method, n=3), target=0)
    square = float(e.gradient.double() @ e.gradient.double())
    assert square > 0
    assert e.lambda2 == pytest.approx(0.25 * square, rel=1e-5)
    expected = nn.functional.softshrink(e.gradient, e.lambda1) / (2 * e.lambda2)
    torch.testing.assert_close(e.delta, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))
    assert bool(e.delta.any())
    assert e.certificate.holds
    if method in SECOND_ORDER:
        assert e.top_eigenvalue == 0
        assert e.second_order.angle == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("margin", "size"), [(69.0, 1e-30), (391.0, 1e-170), (700.0, 1e-304)])
@pytest.mark.parametrize("method", PENALISED)
def test_a_gradient_next_to_nothing(method: str, margin: float, size: float, dtype: torch.dtype) -> None:
    (model, x), (usual, _) = linear(margin, dtype), linear(20.0, dtype)
    # Noise that leaves all copies alike.
    config = configured(method, n=3, stdevs=1e-3) if method.startswith("smooth") else configured(method)
    e: Any = ss.explain(model, x, config)
    reference: Any = ss.explain(usual, x, config)
    assert size / 10 < float(e.gradient.abs().max()) < size * 10
    assert bool(torch.isfinite(e.delta).all())
    assert e.certificate.holds
    assert 0 < e.sparsity < 1
    assert e.lambda2 > 0
    shape, expected = (d.delta.double() / d.delta.double().abs().max() for d in (e, reference))
    torch.testing.assert_close(shape, expected, rtol=1e-3, atol=1e-3)
    if method in SECOND_ORDER:
        # As a prediction gets certain, g and H shrink alike: the map stays.
        torch.testing.assert_close(e.delta.double(), reference.delta.double(), rtol=1e-3, atol=1e-4)
        assert e.second_order.angle == pytest.approx(reference.second_order.angle, rel=1e-2)
        assert e.certificate.relative_gap <= e.certificate.tolerance


@pytest.mark.parametrize("c1", ["0.25L", 10.0])
@pytest.mark.parametrize("method", PENALISED)
def test_no_gradient_gives_zeros(method: str, c1: float | str) -> None:
    model, x = linear(2000.0)
    e = ss.explain(model, x, configured(method, n=3, c1=c1))
    assert not bool(e.gradient.any())
    assert not bool(e.delta.any())
    assert e.sparsity == 1
    assert e.certificate.holds
    assert e.lambda1_max == 0
    # Neither L nor |g|^2 is there to be relative to: c1 is a plain number.
    assert e.lambda2 == (10.0 if c1 == 10.0 else 0.25)
