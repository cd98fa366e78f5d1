"""The solver's problem on a basis: leaving out entries that must be zero changes no map."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from secondsight.optim import nystrom_model
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.nystrom_model import NystromModel
from secondsight.optim.penalties import L1
from secondsight.optim.problem import Problem
from secondsight.optim.semismooth_newton import semismooth_newton
from secondsight.optim.small_matrices import inner_products

SIZE = 301


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, SIZE])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_inner_products(rows: int, length: int) -> None:
    a, b = _normal(rows, length, seed=1), _normal(4, length, seed=2)
    torch.testing.assert_close(inner_products(a, b), a @ b.T)


@pytest.mark.parametrize("error", [0.0, 1e-6, 0.7])
@pytest.mark.parametrize("seed", range(8))
def test_entries_that_are_left_out_are_zero(seed: int, error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little the start is trusted to move: a guess that fails is made again, larger."""
    monkeypatch.setattr(nystrom_model, "START_ERROR", error)
    monkeypatch.setattr(nystrom_model, "GUESS_ERROR", error)
    problem, basis = _problem(seed)
    largest = float(problem.gradient.abs().max())
    guesses: dict[float, Tensor] = {}
    for _ in range(2):
        model = NystromModel(problem, basis, guesses)
        for share in (0.9, 0.7, 0.5, 0.3, 0.6, 0.1, 0.01):
            delta, _origin = model.solve(share * largest)
            start = torch.zeros(len(model.factor), dtype=torch.float64)
            whole = semismooth_newton(problem.gradient, model.factor, model.a, share * largest, start, L1())[1]
            torch.testing.assert_close(delta, whole, rtol=1e-8, atol=1e-12)
            # Far from the solution of the next round: those of other values of lambda1.
            guesses[(1.1 - share) * largest] = delta


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
