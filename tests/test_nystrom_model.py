"""The solver's problem on a basis: sums over active entries and models of few rows change no map."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from secondsight.optim import nystrom_model
from secondsight.optim.kept_map import KeptMap
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.long_rows import PIECE, LongRows
from secondsight.optim.nystrom_model import NystromModel, dense_map
from secondsight.optim.penalties import L1
from secondsight.optim.problem import Problem
from secondsight.optim.semismooth_newton import WholeThreshold, semismooth_newton
from secondsight.optim.small_matrices import inner_products

SIZE = 301


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, SIZE])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_inner_products(rows: int, length: int) -> None:
    a, b = _normal(rows, length, seed=1), _normal(4, length, seed=2)
    torch.testing.assert_close(inner_products(a, b), a @ b.T)


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_active_entries_are_those_of_all_entries(seed: int) -> None:
    """From one lambda1 to any other, and from guesses that are far off."""
    problem, basis = _problem(seed)
    largest = float(problem.gradient.abs().max())
    guesses: dict[float, KeptMap] = {}
    for _ in range(2):
        model = NystromModel(problem, basis, guesses)
        for share in (0.9, 0.7, 0.5, 0.3, 0.6, 0.1, 0.01):
            delta = model.solve(share * largest).delta
            start = torch.zeros(len(model.factor), dtype=torch.float64)
            threshold = WholeThreshold(problem.gradient, model.factor, share * largest, L1())
            whole = semismooth_newton(threshold, model.a, start).delta
            torch.testing.assert_close(delta, whole, rtol=1e-8, atol=1e-12)
            # Far from the solution of the next round: those of other values of lambda1.
            guesses[(1.1 - share) * largest] = KeptMap.of(delta)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.49, 0.51, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_kept_map_is_the_map(share: float, dtype: torch.dtype) -> None:
    delta = _normal(1000, seed=0).to(dtype)
    delta[int(1000 * share) :] = 0
    kept = KeptMap.of(delta)
    assert torch.equal(kept.dense(), delta)
    assert kept.dense().dtype == dtype
    numbers = len(kept.values) + (0 if kept.places is None else len(kept.places))
    assert numbers <= min(1000, 2000 * share)


@pytest.mark.parametrize("size", [1.0, 1e-60, 1e60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_rows_are_a_matrix(dtype: torch.dtype, size: float) -> None:
    """More rows than there is room for at first, more entries than one piece, and sizes outside of float32's range."""
    wanted = _normal(10, PIECE + 9, seed=0)
    # As float32 keeps them.
    wanted = wanted.to(dtype).double() * size * torch.arange(10)[:, None].double()
    rows = LongRows(wanted[0], dtype)
    for row in wanted:
        rows.append(row)
    accuracy = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 0.0}
    torch.testing.assert_close(rows.tensor(), wanted, **accuracy)
    torch.testing.assert_close(torch.stack([rows[i] for i in range(10)]), rows.tensor(), rtol=0, atol=0)
    vectors, coefficients = _normal(3, PIECE + 9, seed=1), _normal(2, 10, seed=2)
    inner, combined = rows.tensor() @ vectors.T, coefficients @ rows.tensor()
    # Both are sums in float64, whatever the rows are kept in.
    torch.testing.assert_close(rows.inner(vectors), inner, rtol=1e-10, atol=1e-10 * size)
    torch.testing.assert_close(rows.combine(coefficients), combined, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize("entry", [0.0, 5e-324, math.inf, math.nan])
def test_long_rows_take_any_number(entry: float) -> None:
    row = torch.tensor([entry, 0.0], dtype=torch.float64)
    rows = LongRows(row, torch.float32)
    rows.append(row)
    torch.testing.assert_close(rows[0], row, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("is_indefinite", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_float32_factor_moves_maps_by_float32_rounding(seed: int, is_indefinite: bool) -> None:
    problem, basis = _indefinite_problem(seed) if is_indefinite else _problem(seed)
    exact, rounded = NystromModel(problem, basis), NystromModel(problem, basis, dtype=torch.float32)
    assert rounded.factor.dtype == torch.float32
    assert (rounded.middle is None) != is_indefinite
    largest = float(problem.gradient.abs().max())
    assert not rounded.solve(largest).delta.any()
    for share in (0.9, 0.5, 0.2, 0.01):
        wanted, found = exact.solve(share * largest), rounded.solve(share * largest)
        size = float(wanted.delta.abs().max())
        torch.testing.assert_close(found.delta.double(), wanted.delta, rtol=0, atol=1e-5 * size)
        assert found.quadratic == pytest.approx(wanted.quadratic, rel=1e-5)


@pytest.mark.parametrize("is_indefinite", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_map_without_penalty_in_coordinates(seed: int, is_indefinite: bool) -> None:
    problem, basis = _indefinite_problem(seed) if is_indefinite else _problem(seed)
    found, g = dense_map(problem, basis)
    rows, model = basis.interpolant()[0], NystromModel(problem, basis)
    torch.testing.assert_close(g @ rows, problem.gradient)
    torch.testing.assert_close(found @ rows / model.a, model.solve(0.0).delta, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_interpolant_of_a_krylov_space_has_few_rows_outside(seed: int) -> None:
    """Residuals of Ritz vectors leave two parts outside, however much the products are rounded."""
    h, g = _indefinite(seed), _normal(SIZE, seed=seed)
    basis = KrylovBasis(g, torch.float32)
    rows = basis.new_directions(torch.stack([g, _normal(SIZE, seed=500 + seed)]))
    for _ in range(8):
        products = rows @ h
        noise = _normal(*products.shape, seed=600 + len(basis)) / SIZE**0.5
        basis.extend(rows, products + 0.1 * basis.rounding * products.norm() * noise)
        rows = basis.new_directions(basis.products.tensor() if len(basis) == 2 else basis.residual(bottom=False)[None])
    assert len(basis.interpolant()[0]) == len(basis) + 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [1, 4, 12])
def test_interpolant_is_the_hessian_less_what_products_have_not_shown(seed: int, count: int) -> None:
    """H - PHP by its definition, from orthonormal rows that begin with the basis."""
    h, basis = _indefinite(seed), KrylovBasis(_normal(SIZE, seed=seed))
    rows = _normal(count, SIZE, seed=200 + seed)
    basis.append(rows, rows @ h)
    aside = torch.eye(SIZE, dtype=torch.float64) - basis.vectors.tensor().T @ basis.vectors.tensor()
    rows, middle = basis.interpolant()
    torch.testing.assert_close(rows.T @ middle @ rows, h - aside @ h @ aside, rtol=0, atol=1e-9)
    torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows), dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.equal(rows[: len(basis)], basis.vectors.tensor())


@pytest.mark.parametrize("seed", range(8))
def test_maps_of_an_indefinite_model_are_optimal(seed: int) -> None:
    """D is optimal for H - PHP where its subgradient says so, and D'HD is not below its bound."""
    problem, basis = _indefinite_problem(seed)
    h, g = _indefinite(seed), problem.gradient
    model = NystromModel(problem, basis)
    assert model.middle is not None
    assert model.a == 2 * problem.lambda2
    low_rank = model.factor.T @ model.middle @ model.factor
    largest = float(g.abs().max())
    for share in (0.9, 0.5, 0.2, 0.01):
        found = model.solve(share * largest)
        slope = g + low_rank @ found.delta - model.a * found.delta
        active = found.delta != 0
        assert bool(active.any())
        torch.testing.assert_close(
            slope[active], share * largest * found.delta[active].sign(), rtol=0, atol=1e-9 * largest
        )
        assert float(slope.abs().max()) <= share * largest * (1 + 1e-9)
        truth = float(found.delta @ h @ found.delta)
        assert found.quadratic_bound <= truth + 1e-9 * abs(truth)
        assert found.quadratic == pytest.approx(float(found.delta @ low_rank @ found.delta), rel=1e-9)


def test_model_that_is_not_concave_is_shifted() -> None:
    """H - PHP has larger eigenvalues than H here: the shift, which never has, takes its place."""
    h = torch.zeros(SIZE, SIZE, dtype=torch.float64)
    h[0, 1] = h[1, 0] = 1.0
    h[1, 1] = -10.0
    g = torch.zeros(SIZE, dtype=torch.float64)
    g[0], g[1] = 1.0, 0.5
    basis = KrylovBasis(g)
    basis.append(torch.eye(SIZE, dtype=torch.float64)[:1], h[:1])
    top, bottom = float(torch.linalg.eigvalsh(h)[-1]), float(torch.linalg.eigvalsh(h)[0])
    problem = Problem(g, L1(), 0.6 * top, top, -bottom)
    model = NystromModel(problem, basis)
    assert model.middle is None
    assert model.a == problem.a


def test_search_that_fails_is_left_to_the_shifted_model(monkeypatch: pytest.MonkeyPatch) -> None:
    h, g = _indefinite(0), _normal(SIZE, seed=0)
    ends = torch.linalg.eigvalsh(h)
    basis = KrylovBasis(g)
    basis.append(g[None], (h @ g)[None])
    problem = Problem(g, L1(), 0.6 * float(ends[-1]), float(ends[-1]), -float(ends[0]))
    lambda1 = 0.3 * float(g.abs().max())
    monkeypatch.setattr(nystrom_model, "saddle_newton", lambda *_: None)
    found = NystromModel(problem, basis).solve(lambda1).delta
    torch.testing.assert_close(found, NystromModel(problem, basis, shifted=True).solve(lambda1).delta)


def _indefinite(seed: int) -> Tensor:
    root = _normal(SIZE, SIZE, seed=400 + seed)
    return (root + root.T) / 2


def _indefinite_problem(seed: int) -> tuple[Problem, KrylovBasis]:
    h, g = _indefinite(seed), _normal(SIZE, seed=seed)
    ends = torch.linalg.eigvalsh(h)
    basis = KrylovBasis(g)
    rows = basis.new_directions(torch.cat([g[None], _normal(6, SIZE, seed=300 + seed)]))
    basis.append(rows, rows @ h)
    return Problem(g, L1(), 0.6 * float(ends[-1]), float(ends[-1]), -float(ends[0])), basis


def _problem(seed: int) -> tuple[Problem, KrylovBasis]:
    """Make a problem whose curvature moves many entries across the threshold."""
    g, root = _normal(SIZE, seed=seed), _normal(4, SIZE, seed=100 + seed)
    top = float(torch.linalg.eigvalsh(root @ root.T)[-1])
    basis = KrylovBasis(g)
    rows = torch.cat([g[None], root])
    basis.append(rows, rows @ root.T @ root)
    return Problem(g, L1(), 0.55 * top, top), basis


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
