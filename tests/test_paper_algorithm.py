"""The historical baseline does what the paper says: it nears the optimum, and more iterations bring it there."""

from __future__ import annotations

import pytest
import torch

from reference import Quadratic
from secondsight.paper.algorithm import backtracking_fista, power_iterations
from test_optim import instance


@pytest.mark.parametrize("lambda1", [0.0, 0.02, 0.3])
def test_fista_with_backtracking_converges_to_the_exact_optimum(lambda1: float) -> None:
    problem = instance(0, d=40, size=50.0)
    lambda2 = problem.top / 2 + 10
    exact = Quadratic(problem.g, problem.h, lambda1, lambda2)
    best = exact.objective(exact.optimum())
    missing = []
    for iterations in (10, 100, 400):
        delta = backtracking_fista(problem.g, lambda v: problem.h @ v, lambda1, lambda2, iterations)
        missing.append(best - exact.objective(delta))
    assert 0 <= missing[0] < 0.2 * best
    assert missing[2] <= 1e-8 * best


def test_power_iterations_estimate_from_below() -> None:
    for seed in range(10):
        problem = instance(seed, d=100, rank=20)
        estimate = power_iterations(lambda v, h=problem.h: h @ v, 100)
        assert 0.5 * problem.top < estimate <= problem.top * (1 + 1e-12)


def test_power_iterations_of_a_zero_hessian() -> None:
    assert power_iterations(torch.zeros_like, 10) == 0
