"""Gradients, products, eigenpairs and traces against dense float64 matrices."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case
from reference import gauss_newton, gradient, hessian, probabilities
from secondsight.model.network_facts import JvpWay
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.hessian_choice import hessian_at
from secondsight.operators.linearisation import linearise
from secondsight.operators.tape_jacobian import TapeJacobian

TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def eye(case: Case) -> Tensor:
    return torch.eye(case.x.numel(), dtype=torch.float64)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_is_jacobian_times_p_minus_y(case: Case) -> None:
    for target in range(2):
        h = ss.input_hessian(case.classifier(), case.x, target=target)
        torch.testing.assert_close(h.gradient, gradient(case.net, case.x, target), **TIGHT)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_auto_is_the_true_hessian(case: Case) -> None:
    h = ss.input_hessian(case.classifier(), case.x, target=1)
    torch.testing.assert_close(h.matmul(eye(case)), hessian(case.net, case.x, 1), **TIGHT)
    assert h.kind == ("gauss-newton" if case.piecewise_linear else "exact")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gauss_newton_products(case: Case) -> None:
    h = ss.input_hessian(case.classifier(), case.x, curvature="gauss-newton")
    torch.testing.assert_close(h.matmul(eye(case)), gauss_newton(case.net, case.x), **TIGHT)


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_gauss_newton_is_not_the_hessian_of_curved_networks(case: Case) -> None:
    dense = hessian(case.net, case.x, 0)
    assert (dense - gauss_newton(case.net, case.x)).norm() > 1e-3 * dense.norm()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_piecewise_linearity_is_found(case: Case) -> None:
    h = ss.input_hessian(case.classifier(), case.x)
    assert (h.kind == "gauss-newton") is case.piecewise_linear


@pytest.mark.parametrize("case", CASES, ids=str)
def test_factor_and_trace(case: Case) -> None:
    h = ss.input_hessian(case.classifier(), case.x, curvature="gauss-newton")
    dense, factor = gauss_newton(case.net, case.x), h.factor()
    assert factor.shape == (case.x.numel(), len(probabilities(case.net, case.x)))
    torch.testing.assert_close(factor @ factor.T, dense, **TIGHT)
    assert h.trace() == pytest.approx(float(dense.trace()), rel=1e-9)


def test_trace_by_random_signs() -> None:
    case = CURVED[0]
    dense = hessian(case.net, case.x, int(probabilities(case.net, case.x).argmax()))
    off_diagonal = dense - torch.diag(dense.diagonal())
    # The estimate's standard deviation is sqrt(2) |off-diagonal part| / sqrt(samples).
    error = 2**0.5 * float(off_diagonal.norm()) / 400**0.5
    estimate = ss.input_hessian(case.classifier(), case.x).trace(samples=400)
    assert estimate == pytest.approx(float(dense.trace()), abs=4 * error)
    with pytest.raises(ss.InputError, match="samples"):
        ss.input_hessian(case.classifier(), case.x).trace()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_eigenpairs(case: Case) -> None:
    h = ss.input_hessian(case.classifier(), case.x)
    dense = hessian(case.net, case.x, int(probabilities(case.net, case.x).argmax()))
    expected = torch.linalg.eigvalsh(dense).flip(0)
    values, vectors = h.eigh(3, tolerance=1e-8)
    torch.testing.assert_close(values, expected[:3], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(3, dtype=torch.float64), **TIGHT)
    residual = (dense @ vectors - vectors * values).norm(dim=0)
    assert float(residual.max()) <= 1e-7 * float(expected.abs().max())


@pytest.mark.parametrize("case", PIECEWISE_LINEAR, ids=str)
def test_eigendecomposition_without_the_large_matrix(case: Case) -> None:
    values, vectors = ss.input_hessian(case.classifier(), case.x).eigh()
    torch.testing.assert_close(vectors * values @ vectors.T, gauss_newton(case.net, case.x), rtol=1e-7, atol=1e-9)
    assert (values[:-1] >= values[1:]).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_four_ways_to_a_jacobian_vector_product(case: Case) -> None:
    model = case.classifier()
    v = torch.randn(case.x.numel(), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    with model.ready():
        jacobian = linearise(model, case.x[None], record=True).jacobian
        assert isinstance(jacobian, TapeJacobian)
        assert jacobian.piecewise_linear is case.piecewise_linear
        results = [jacobian.jvp(v[None, None])]
        for way in get_args(JvpWay):
            model.facts.jvp_way = way
            results.append(linearise(model, case.x[None]).jacobian.jvp(v[None, None]))
            assert model.facts.jvp_way == way
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], **TIGHT)


class OnceOnly(torch.autograd.Function):
    """tanh that torch can differentiate once, backwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class Once(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(OnceOnly.apply(self.first(x)))


def test_where_torch_differentiates_only_once() -> None:
    torch.manual_seed(0)
    net, x = Once().double(), torch.rand(6, dtype=torch.float64)
    twin = nn.Sequential(net.first, nn.Tanh(), net.last)
    h = ss.input_hessian(ss.Classifier(net, input_shape=(6,)), x)
    assert h.kind == "gauss-newton"
    assert any("cannot differentiate" in note for note in h.notes)
    torch.testing.assert_close(h.matmul(torch.eye(6)), gauss_newton(twin, x), **TIGHT)
    e = ss.explain(ss.Classifier(net, input_shape=(6,)), x)
    assert e.certificate.holds
    assert any("cannot differentiate" in note for note in e.notes)
    assert any("Jacobian" in note for note in e.notes)
    with pytest.raises(ss.InputError, match="gauss-newton"):
        ss.input_hessian(ss.Classifier(net, input_shape=(6,)), x, curvature="exact")


@pytest.mark.parametrize("margin", [1.0, 20.0, 60.0, 300.0])
def test_digits_survive_a_certain_prediction(margin: float) -> None:
    """float32 logits whose p_y rounds to 1: gradient and products keep six digits of the float64 twin's."""
    torch.manual_seed(0)
    net = nn.Linear(12, 5, bias=True)
    with torch.no_grad():
        net.bias.copy_(torch.tensor([margin, 0.0, 0.1, -0.2, 0.3]))
    x = torch.rand(12)
    h = ss.input_hessian(ss.Classifier(net, input_shape=(12,)), x)
    w = net.weight.detach().double().T
    logits = net(x[None])[0].detach().double()
    q = logits.softmax(0)
    q[0] = 0
    q[0] = -q.sum()
    torch.testing.assert_close(h.gradient, w @ q, rtol=1e-5, atol=0)
    rest, away = w[:, 1:] - w[:, :1], q[1:]
    covariance = torch.diag(away) - torch.outer(away, away)
    v = torch.randn(12, dtype=torch.float64)
    product = h.matmul(v)
    expected = rest @ (covariance @ (rest.T @ v))
    assert (product - expected).norm() < 1e-5 * expected.norm()
    assert expected.norm() > 0


def test_no_eigenvalue_of_the_whole_hessian_is_zero() -> None:
    """Also where there are fewer inputs than classes."""
    net = nn.Linear(3, 6).double()
    with torch.no_grad():
        net.weight[:, 2] = net.weight[:, 1]
    values, vectors = ss.input_hessian(ss.Classifier(net, input_shape=(3,)), torch.ones(3).double()).eigh()
    assert len(values) == vectors.shape[1] == 2
    assert float(values.min()) > 1e-9


def test_bad_requests() -> None:
    case = CURVED[0]
    h = ss.input_hessian(case.classifier(), case.x)
    with pytest.raises(ss.InputError, match="shape"):
        h.matmul(torch.zeros(3))
    with pytest.raises(ss.InputError, match="k must be a whole number of at least 1 and at most 10"):
        h.eigh(11)
    with pytest.raises(ss.InputError, match="gauss-newton"):
        h.factor()
    with pytest.raises(ss.InputError, match="one of auto"):
        ss.input_hessian(case.classifier(), case.x, curvature="diagonal")


def test_exact_is_gauss_newton_where_they_agree() -> None:
    case = PIECEWISE_LINEAR[0]
    model = case.classifier()
    with model.ready():
        curvature, notes = hessian_at(model, case.x, choice="exact")
    assert isinstance(curvature, GaussNewton)
    assert "piecewise linear" in notes[0]
