"""What a certificate rests on: bounds of the largest eigenvalue, rounding, and when nothing can be said."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import secondsight as ss
from cases import PIECEWISE_LINEAR, lively
from reference import DenseOperator, gauss_newton
from secondsight.optim.caso import CasoSolver
from secondsight.optim.eigenvalue_bounds import Estimated, Probable
from secondsight.optim.extreme_eigenvalues import Search, explore
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.penalties import L1
from secondsight.optim.problem import C1
from test_optim import FREE, fixed, instance


def spectrum(values: Tensor, seed: int, hidden: int = 0) -> tuple[Tensor, Tensor]:
    """g and H with these eigenvalues; g is orthogonal to the first `hidden` eigenvectors."""
    generator = torch.Generator().manual_seed(seed)
    d = len(values)
    vectors, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    weights = torch.randn(d, generator=generator, dtype=torch.float64)
    weights[:hidden] = 0
    return vectors @ weights, vectors * values @ vectors.T


def decaying(d: int, top: float, decay: float) -> Tensor:
    return top * decay ** torch.arange(d, dtype=torch.float64)


def margin(top: float) -> float:
    return 20.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.3, 0.99), st.integers(0, 3), st.booleans())
def test_a_probable_bound_is_above_the_largest_eigenvalue(
    seed: int, decay: float, hidden: int, indefinite: bool
) -> None:
    values = decaying(60, 100.0, decay)
    if indefinite:
        values[1::2] *= -1
    g, h = spectrum(values, seed, hidden)
    bound, basis = Probable(1e-6), KrylovBasis(g)
    bound.explore(DenseOperator(h, psd=not indefinite), g, basis, Search(margin, seed))
    found = bound.at(basis, not indefinite, lambda2=60.0)
    assert found.top >= 100 * (1 - 1e-12)
    if math.isfinite(found.top):
        assert found.negative >= max(0.0, -float(values.min())) * (1 - 1e-12)


def test_a_probable_bound_is_tight_where_one_eigenvalue_stands_out() -> None:
    g, h = spectrum(decaying(400, 100.0, 0.5), seed=0)
    bound, basis = Probable(0.01), KrylovBasis(g)
    bound.explore(DenseOperator(h, psd=True), g, basis, Search(margin, seed=0))
    assert 100 <= bound.at(basis, True, 60.0).top <= 105
    assert len(basis) <= 12


def test_a_probable_bound_fails_no_more_often_than_it_says() -> None:
    """A flat spectrum with one eigenvalue above it that g does not see: the hardest for a random start."""
    values = torch.linspace(1.0, 0.9, 300, dtype=torch.float64)
    values[0] = 1.1
    wrong = 0
    for seed in range(200):
        g, h = spectrum(values, seed, hidden=1)
        bound, basis = Probable(0.2), KrylovBasis(g)
        bound.explore(DenseOperator(h, psd=True), g, basis, Search(lambda top: 1.0, seed))
        wrong += bound.at(basis, True, 1.0).top < 1.1 * (1 - 1e-12)
    assert wrong <= 0.2 * 200


def test_the_random_start_does_not_depend_on_the_probe() -> None:
    """torch's generators look at 32 bits of a seed."""
    g, h = spectrum(decaying(60, 1.0, 0.9), seed=1)
    basis, bound = KrylovBasis(g), Probable(0.5)
    bound.explore(DenseOperator(h, psd=True), g, basis, Search(lambda top: 0.0, seed=3))
    first = KrylovBasis(g)
    explore(DenseOperator(h, psd=True), g, first, Search(lambda top: 0.0, seed=3))
    start = basis.vectors[len(first)]
    assert len(basis) > len(first)
    assert abs(float(start @ torch.randn(60, generator=torch.Generator().manual_seed(3)).double())) < 5.0


def test_an_estimate_has_a_margin_of_half_of_what_is_left() -> None:
    g, h = spectrum(decaying(80, 100.0, 0.4), seed=2)
    basis = KrylovBasis(g)
    found = explore(DenseOperator(h, psd=True), g, basis, Search(margin, seed=0))
    bounds = Estimated().at(basis, True, lambda2=60.0)
    assert bounds.top == pytest.approx((found.top_bound + 120) / 2)


def test_where_eigenvalues_crowd_the_top_nothing_is_certified() -> None:
    values = torch.zeros(300, dtype=torch.float64)
    values[:100] = torch.linspace(100, 70, 100, dtype=torch.float64)
    g, h = spectrum(values, seed=0)
    metered = MeteredOperator(DenseOperator(h, psd=True), 100)
    solver = CasoSolver(g, metered, L1(), lambda delta: 0.5, **({"c1": C1(1.0)} | FREE | {"tolerance": 1e-4}))
    solver.fix_lambda2()
    path = solver.choose(fixed(0.01))
    assert path.chosen.gap is not None
    assert path.chosen.gap.gap == math.inf
    (note,) = solver.shortfall([path.chosen])
    assert "L, the Hessian's largest eigenvalue, could not be bounded" in note


def test_rounding_does_not_grow_from_step_to_step() -> None:
    """Products are taken at unit vectors, not at vectors that are nearly in the basis and divided by what is new."""
    values = torch.zeros(200, dtype=torch.float64)
    values[:40] = torch.linspace(700, 695, 40, dtype=torch.float64)
    g, h = spectrum(values, seed=0)
    basis = KrylovBasis(g)
    explore(DenseOperator(h, psd=True), g, basis, Search(lambda top: 1e-9, seed=0))
    assert len(basis) >= 4
    assert float((basis.vectors.tensor() @ h - basis.products.tensor()).abs().max()) <= 1e-9
    factor = basis.factor()
    assert float(torch.linalg.eigvalsh(h - factor.T @ factor)[0]) >= -1e-8


class Rounded(DenseOperator):
    """A matrix whose products are off by a share of their size, at random."""

    def __init__(self, matrix: Tensor, share: float) -> None:
        super().__init__(matrix, psd=True)
        self.share, self.generator = share, torch.Generator().manual_seed(5)

    def times_rows(self, rows: Tensor) -> Tensor:
        exact = super().times_rows(rows)
        noise = torch.randn(exact.shape, generator=self.generator, dtype=torch.float64)
        return exact + self.share * noise * exact.norm(dim=1, keepdim=True) / exact.shape[1] ** 0.5


@pytest.mark.parametrize("share", [1e-8, 1e-5, 1e-3])
def test_the_rounding_of_products_is_measured(share: float) -> None:
    for seed in range(10):
        g, h = spectrum(decaying(200, 50.0, 0.7), seed)
        basis = KrylovBasis(g)
        explore(Rounded(h, share), g, basis, Search(margin, seed))
        assert 0.3 * share <= basis.measured_rounding() <= 50 * share


def test_where_rounding_dominates_the_result_says_so() -> None:
    problem = instance(5, d=200, rank=5, size=50.0)
    metered = MeteredOperator(Rounded(problem.h, 1e-3), 100)
    solver = CasoSolver(problem.g, metered, L1(), lambda delta: 0.5, **({"c1": C1(1.0)} | FREE | {"tolerance": 1e-8}))
    solver.fix_lambda2()
    path = solver.choose(fixed(0.01))
    (note,) = solver.shortfall([path.chosen])
    assert "the network's own rounding" in note
    assert metered.taken < 20


def test_no_relative_gap_is_below_what_float32_can_know() -> None:
    net = lively(nn.Sequential(nn.Linear(80, 40), nn.ReLU(), nn.Linear(40, 20)), 0)
    x = torch.rand(80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gaps = {}
    for dtype in (torch.float32, torch.float64):
        model = ss.Classifier(copy.deepcopy(net).to(dtype), input_shape=(80,))
        gaps[dtype] = ss.explain(model, x.to(dtype), ss.CASO(lambda1="10%", tolerance=1e-9)).certificate.relative_gap
    assert gaps[torch.float32] > 1e-13
    assert gaps[torch.float64] < 1e-15 or gaps[torch.float64] < gaps[torch.float32]


@pytest.mark.parametrize("case", PIECEWISE_LINEAR, ids=str)
def test_where_the_whole_hessian_costs_little_the_bound_is_proven(case: Any) -> None:
    e = ss.explain(case.classifier(), case.x, ss.CASO(c1=1e3))
    top = float(torch.linalg.eigvalsh(gauss_newton(case.net, case.x))[-1])
    assert e.certificate.basis == "proven"
    # Not 2 lambda2 - mu, which would have lost a small L beside c1.
    assert e.certificate.top_eigenvalue_bound == pytest.approx(top, rel=1e-9)
    assert e.certificate.top_eigenvalue_bound >= top * (1 - 1e-14)


def test_a_probable_bound_can_be_asked_for() -> None:
    case = PIECEWISE_LINEAR[0]
    e = ss.explain(case.classifier(), case.x, ss.CASO(bound="probable", failure=1e-3))
    top = float(torch.linalg.eigvalsh(gauss_newton(case.net, case.x))[-1])
    assert e.certificate.basis == "probable"
    assert e.certificate.holds
    assert e.certificate.top_eigenvalue_bound >= top * (1 - 1e-12)


def test_the_hessian_keeps_its_digits_where_another_class_is_certain() -> None:
    """(diag p - pp') t was computed around the target, whose probability may be next to nothing."""
    net = nn.Linear(6, 4).double()
    net.bias.data = torch.tensor([0.0, 40.0, 1.0, 2.0], dtype=torch.float64)
    x = torch.rand(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w, p = net.weight.detach(), net(x[None])[0].detach().softmax(0)
    m = w - w[1]
    mean = p @ m
    exact = (m.T * p) @ m - torch.outer(mean, mean)
    found = ss.input_hessian(ss.Classifier(net, input_shape=(6,)), x, target=0) @ torch.eye(6).double()
    assert float((found - exact).abs().max()) <= 1e-12 * float(exact.abs().max())


def test_guided_backpropagation_is_not_certified() -> None:
    net = nn.Sequential(nn.Linear(80, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 20)).double()
    net = lively(net, 0)
    for layer in net:
        if isinstance(layer, nn.ReLU):
            layer.register_full_backward_hook(lambda module, inward, outward: (inward[0].clamp(min=0),))
    x = torch.rand(80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for bound in ("estimated", "probable", "proven"):
        e = ss.explain(ss.Classifier(net, input_shape=(80,)), x, ss.CASO(bound=bound))
        assert not e.certificate.holds
        assert not bool(e.certificate.support.zero.any())
        assert not bool(e.certificate.support.nonzero.any())
        assert any("not certified" in note for note in e.notes)


class Dropout(nn.Module):
    """Dropout that ignores eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.3, training=True)


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_random_networks_are_refused_however_small_their_logits(size: float) -> None:
    last = nn.Linear(16, 5)
    last.weight.data *= size
    last.bias.data *= size
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Dropout(), last)
    with pytest.raises(ss.ModelError, match="random numbers"):
        ss.explain(ss.Classifier(net, input_shape=(8,)), torch.rand(8))


def test_errors_reach_other_processes() -> None:
    with pytest.raises(ss.InputError) as raised:
        ss.CASO(failure=2.0)
    for twin in (pickle.loads(pickle.dumps(raised.value)), copy.copy(raised.value)):
        assert (type(twin), str(twin), twin.argument) == (ss.InputError, str(raised.value), "failure")
