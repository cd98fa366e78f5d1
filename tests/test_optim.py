"""The solver on random matrices: optimality, the certificate's truth, and the choice of lambda1. No network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reference import DenseOperator, Quadratic
from secondsight.errors import InputError
from secondsight.optim.cafo import cafo_solver
from secondsight.optim.caso import CasoSolver
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.eigenvalue_bounds import Bounds, Proven
from secondsight.optim.extreme_eigenvalues import Search, explore
from secondsight.optim.fista import Iterate, fista
from secondsight.optim.krylov_basis import KrylovBasis
from secondsight.optim.lambda_choice import PAPER_START, FixedRule, KneeRule, LambdaRule, PaperRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.path import Path
from secondsight.optim.penalties import L1, Penalty
from secondsight.optim.problem import C1, Problem
from secondsight.optim.second_order_angle import angle_without_penalty
from secondsight.optim.semismooth_newton import WholeThreshold, semismooth_newton

AUTO = KneeRule((0.75, 1.0), points=16, smallest=0.01)
PAPER = PaperRule((0.75, 1.0), PAPER_START)
FREE: dict[str, Any] = {"lambda2": None, "tolerance": 1e-8, "seed": 0, "dtype": torch.float64}


@dataclass(frozen=True)
class Instance:
    """A random g and H = sum_i lambda_i q_i q_i', positive eigenvalues first."""

    g: Tensor
    h: Tensor
    semidefinite: bool

    @property
    def operator(self) -> DenseOperator:
        return DenseOperator(self.h, self.semidefinite)

    @property
    def top(self) -> float:
        return max(0.0, float(torch.linalg.eigvalsh(self.h)[-1]))

    @property
    def negative(self) -> float:
        return max(0.0, -float(torch.linalg.eigvalsh(self.h)[0]))


def instance(seed: int, d: int = 24, rank: int = 6, size: float = 30.0, indefinite: bool = False) -> Instance:
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(d, rank, generator=generator, dtype=torch.float64))
    values = size * torch.rand(rank, generator=generator, dtype=torch.float64) ** 2
    if indefinite:
        values[rank // 2 :] *= -1
    g = torch.randn(d, generator=generator, dtype=torch.float64) ** 3
    return Instance(g / g.abs().max(), q * values @ q.T, not indefinite)


instances = st.builds(
    instance,
    seed=st.integers(0, 10**6),
    d=st.integers(2, 30),
    rank=st.integers(1, 2),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3]),
    indefinite=st.booleans(),
)


def zero_share(delta: Tensor) -> float:
    return float((delta == 0).double().mean())


@dataclass(frozen=True)
class Solved:
    """What the stages of the solver leave behind."""

    path: Path
    solver: CasoSolver
    notes: list[str]

    @property
    def problem(self) -> Problem:
        return self.solver.problem

    @property
    def products(self) -> int:
        return self.solver.H.taken

    @property
    def angle(self) -> tuple[float, float]:
        return angle_without_penalty(self.problem, self.solver.basis)


def solve(
    problem: Instance,
    rule: LambdaRule = AUTO,
    penalty: Penalty | None = None,
    sparsity: Callable[[Tensor], float] = zero_share,
    max_products: int = 1000,
    certify: str = "chosen",
    **options: Any,
) -> Solved:
    """Every stage, as the pipeline calls them."""
    defaults = {"c1": C1(10.0)} | FREE
    metered = MeteredOperator(problem.operator, max_products)
    solver = CasoSolver(problem.g, metered, penalty or L1(), sparsity, **(defaults | options))
    solver.fix_lambda2()
    path = solver.choose(rule)
    if certify == "path":
        path = solver.certify_path(path)
    return Solved(path, solver, solver.notes + solver.shortfall(path.points if certify == "path" else (path.chosen,)))


def cafo_path(
    g: Tensor, penalty: Penalty, lambda2: float, rule: LambdaRule, sparsity: Callable[[Tensor], float]
) -> Path:
    return rule.choose(cafo_solver(g, penalty, lambda2, sparsity, torch.float64), penalty.lambda1_max(g))


def twin(problem: Instance, solution: Solved, lambda1: float) -> Quadratic:
    return Quadratic(problem.g, problem.h, lambda1, solution.problem.lambda2)


def proven(problem: Instance) -> Proven:
    return Proven(Bounds(problem.top, problem.negative))


def fixed(lambda1: float) -> FixedRule:
    return FixedRule(AUTO.sparsity, AUTO.points, AUTO.smallest, lambda1)


@settings(max_examples=60, deadline=None)
@given(instances, st.floats(0, 1.2))
def test_certified_maps_are_optimal(problem: Instance, lambda1: float) -> None:
    solution = solve(problem, fixed(lambda1), bound=proven(problem))
    point = solution.path.chosen
    exact = twin(problem, solution, lambda1)
    best = exact.optimum()
    missing = exact.objective(best) - exact.objective(point.delta)
    assert point.gap is not None
    gap = point.gap.gap
    assert missing <= gap + 1e-13 * (1 + abs(exact.objective(best)))
    assert point.gap.relative_gap <= 1e-8
    assert (point.delta - best).norm() <= math.sqrt(2 * gap / solution.problem.mu) + 1e-9


@settings(max_examples=100, deadline=None)
@given(instances, st.floats(0, 1.2), st.floats(0, 2), st.integers(0, 10**6))
def test_certificate_bounds_the_truth_at_any_map(problem: Instance, lambda1: float, noise: float, seed: int) -> None:
    """At maps far from and near the optimum: never below the true distance, never negative, and not vacuous."""
    lambda2 = problem.top / 2 + 10
    exact = Quadratic(problem.g, problem.h, lambda1, lambda2)
    best = exact.optimum()
    shake = torch.randn(len(best), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    delta = best + noise * shake * (0.01 + best.abs().max())
    a, mu = 2 * lambda2, 2 * lambda2 - problem.top
    known = Problem(problem.g, L1(), lambda2, problem.top, problem.negative)
    found = duality_gap(known, delta, problem.operator @ delta, lambda1)
    missing = exact.objective(best) - exact.objective(delta)
    rounding = 1e-12 * (1 + abs(exact.objective(best)))
    assert found.gap >= 0
    assert found.gap >= missing - rounding
    assert found.gap <= 4 * ((a + problem.negative) / mu) ** 2 * missing + rounding


@settings(max_examples=100, deadline=None)
@given(instances, st.floats(0.01, 1.0), st.floats(0, 0.1), st.integers(0, 10**6))
def test_support_certificate_is_never_wrong(problem: Instance, lambda1: float, noise: float, seed: int) -> None:
    lambda2 = problem.top / 2 + 10
    best = Quadratic(problem.g, problem.h, lambda1, lambda2).optimum()
    shake = torch.randn(len(best), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    delta = best * (1 + noise * shake)
    known = Problem(problem.g, L1(), lambda2, problem.top, problem.negative)
    support = duality_gap(known, delta, problem.operator @ delta, lambda1).support
    assert not bool((support.nonzero & (best == 0)).any())
    assert not bool((support.zero & (best != 0)).any())


def test_support_is_decided_where_the_gap_is_small() -> None:
    solution = solve(instance(3, d=200), fixed(0.1), tolerance=1e-12)
    found = solution.path.chosen.gap
    assert found is not None
    assert float(found.support.undecided.double().mean()) < 0.02


@settings(max_examples=40, deadline=None)
@given(instances)
def test_zero_exactly_from_lambda1_max_on(problem: Instance) -> None:
    lambda1_max = float(problem.g.abs().max())
    at = solve(problem, fixed(lambda1_max)).path.chosen
    assert not bool(at.delta.any())
    assert at.gap is not None
    assert at.gap.relative_gap == 0
    assert at.gap.gap <= 1e-25
    assert bool(solve(problem, fixed(lambda1_max * 0.999)).path.chosen.delta.any())


@settings(max_examples=40, deadline=None)
@given(instances)
def test_without_penalty_the_closed_form(problem: Instance) -> None:
    solution = solve(problem, fixed(0.0), tolerance=1e-12)
    q = 2 * solution.problem.lambda2 * torch.eye(len(problem.g), dtype=torch.float64) - problem.h
    torch.testing.assert_close(solution.path.chosen.delta, torch.linalg.solve(q, problem.g), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("indefinite", [False, True])
def test_every_point_of_the_path(indefinite: bool) -> None:
    problem = instance(5, d=60, indefinite=indefinite)
    solution = solve(problem, certify="path", tolerance=1e-6)
    assert len(solution.path.points) >= 12
    lambdas = [point.lambda1 for point in solution.path.points]
    assert lambdas == sorted(lambdas, reverse=True)
    for point in solution.path.points:
        assert point.gap is not None
        assert point.gap.relative_gap <= 1e-6
        exact = twin(problem, solution, point.lambda1)
        assert point.objective.value == pytest.approx(exact.objective(point.delta), rel=1e-9)
        assert exact.objective(exact.optimum()) <= point.objective.value * (1 + 1.1e-6)


def test_uncertified_points_understate_the_objective() -> None:
    problem = instance(6, d=60)
    solution = solve(problem, tolerance=1e-3)
    for point in solution.path.points:
        exact = twin(problem, solution, point.lambda1)
        assert point.objective.value <= exact.objective(point.delta) + 1e-12
        assert point.objective.value >= 0.9 * exact.objective(exact.optimum())


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_relative_c1_is_a_share_of_the_top_eigenvalue(size: float, indefinite: bool) -> None:
    problem = instance(8, size=size, indefinite=indefinite)
    solution = solve(problem, c1=C1(0.25, unit=3.0), bound=proven(problem))
    assert solution.problem.lambda2 == pytest.approx(0.75 * problem.top, rel=1e-9)
    best = twin(problem, solution, solution.path.chosen.lambda1).optimum()
    torch.testing.assert_close(solution.path.chosen.delta, best, rtol=1e-3, atol=1e-4 * float(best.abs().max()))


def test_a_relative_c1_without_curvature_is_a_share_of_its_unit() -> None:
    solution = solve(instance(8, size=0.0), c1=C1(0.25, unit=3.0))
    assert solution.solver.top == 0
    assert solution.problem.lambda2 == 0.75
    assert solution.path.chosen.certified_to(1e-8)


@pytest.mark.parametrize("unit", [2.0**-70, 2.0**9])
def test_dividing_the_curvature_by_a_power_of_two_only_scales(unit: float) -> None:
    """What keeps the squares of maps in range. Nothing but the map's scale may change."""
    problem = instance(9)
    plain = CasoSolver(problem.g, MeteredOperator(problem.operator, 100), L1(), zero_share, C1(0.25, 1.0), **FREE)
    divided = MeteredOperator(problem.operator, 100, unit=unit)
    scaled = CasoSolver(problem.g, divided, L1(), zero_share, C1(0.25, 1.0), **FREE)
    for solver in (plain, scaled):
        solver.fix_lambda2()
    first, second = plain.choose(AUTO).chosen, scaled.choose(AUTO).chosen
    assert bool(first.delta.any())
    assert first.lambda1 == second.lambda1
    torch.testing.assert_close(first.delta, second.delta / unit, rtol=1e-12, atol=0.0)
    assert scaled.problem.lambda2 * unit == pytest.approx(plain.problem.lambda2, rel=1e-12)
    assert scaled.problem.mu * unit == pytest.approx(plain.problem.mu, rel=1e-9)
    assert first.certified_to(1e-8)
    assert second.certified_to(1e-8)


@pytest.mark.parametrize("indefinite", [False, True])
def test_lambda2_depends_on_nothing_but_c1_and_the_seed(indefinite: bool) -> None:
    problem = instance(7, d=300, rank=40, size=100.0, indefinite=indefinite)
    reference = solve(problem).problem.lambda2
    variants: list[dict[str, object]] = [
        {"rule": fixed(0.3)},
        {"tolerance": 1e-2},
        {"max_products": 1},
        {"certify": "path"},
        {"rule": PAPER},
    ]
    for variant in variants:
        assert solve(problem, **variant).problem.lambda2 == reference  # type: ignore[arg-type]
    assert solve(problem, c1=C1(20.0)).problem.lambda2 == pytest.approx(reference + 10, rel=0.02)


def test_explored_top_eigenvalue() -> None:
    for seed in range(20):
        problem = instance(seed, d=400, rank=20, size=200.0)
        solution = solve(problem)
        assert solution.solver.top <= problem.top * (1 + 1e-9)
        assert problem.top - solution.solver.top <= 5.0
        assert solution.problem.top_bound >= problem.top


def test_random_probe_finds_an_eigenvector_orthogonal_to_the_gradient() -> None:
    d = 2000
    g, u = torch.zeros(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    g[:10], u[10:20] = 1.0, 1 / math.sqrt(10)
    h = 5 * torch.outer(g, g) / 10 + 50 * torch.outer(u, u)
    spectrum = explore(DenseOperator(h, psd=True), g, KrylovBasis(g), Search(lambda _: 20.0, seed=0))
    assert spectrum.top == pytest.approx(50, rel=1e-3)


def test_refused_lambda2_names_one_that_works() -> None:
    problem = instance(8)
    with pytest.raises(InputError, match="lambda2 must be at least") as refusal:
        solve(problem, lambda2=problem.top / 2 - 1)
    smallest = float(str(refusal.value).split("at least ")[1].split(",")[0])
    assert solve(problem, lambda2=smallest).problem.mu > 0


def test_out_of_products() -> None:
    problem = instance(9, d=200, rank=60)
    short = solve(problem, max_products=4, tolerance=1e-14)
    assert short.products <= 8
    assert any("max_products = 4 was reached" in note for note in short.notes)
    unbounded = solve(problem, tolerance=1e-12)
    found = unbounded.path.chosen.gap
    assert found is not None
    assert found.relative_gap <= 1e-12
    assert not unbounded.notes


@pytest.mark.parametrize(("indefinite", "usual", "most"), [(False, 8, 12), (True, 14, 24)])
def test_few_products_suffice(indefinite: bool, usual: int, most: int) -> None:
    """Counts, not times: a path of sixteen values and a certified map for the price of a few power iterations."""
    problems = [instance(seed, d=500, rank=10, size=50.0, indefinite=indefinite) for seed in range(20)]
    counts = sorted(solve(problem, tolerance=1e-4).products for problem in problems)
    assert counts[10] <= usual
    assert counts[-1] <= most


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(1e-3, 1))
def test_newton_is_exact_also_at_the_edge_of_concavity(seed: int, lambda1: float, edge: float) -> None:
    problem = instance(seed, d=60)
    values, vectors = torch.linalg.eigh(problem.h)
    factor = (vectors * values.clamp(min=0).sqrt()).T
    a = problem.top * (1 + edge)
    z, delta, _ = semismooth_newton(
        WholeThreshold(problem.g, factor, lambda1, L1()), a, torch.zeros(60, dtype=torch.float64)
    )
    assert (z - factor @ delta).norm() <= 1e-6 * (1 + z.norm())
    w = problem.g - a * delta + problem.h @ delta
    active = delta != 0
    torch.testing.assert_close(w[active], lambda1 * delta[active].sign(), rtol=1e-5, atol=1e-6)
    assert bool((w[~active].abs() <= lambda1 + 1e-6).all())


def test_broken_derivatives_are_noticed() -> None:
    problem = instance(10, d=50)
    skewed = problem.h + 20 * torch.randn(50, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = solve(replace(problem, h=skewed), max_products=20)
    assert any("not symmetric" in note for note in solution.notes)


def test_rounded_maps_are_the_ones_certified() -> None:
    problem = instance(11, d=100)
    solution = solve(problem, dtype=torch.float32, tolerance=1e-6)
    point = solution.path.chosen
    assert point.delta.dtype == torch.float32
    delta = point.delta.double()
    again = duality_gap(solution.problem, delta, problem.operator @ delta, point.lambda1)
    assert point.gap is not None
    assert again.gap == pytest.approx(point.gap.gap)


@pytest.mark.parametrize("share", [2e-5, 5e-4, 2e-3, 5e-2])
def test_maps_that_hardly_differ_teach_the_basis_no_noise(share: float) -> None:
    """Of the second map's product, what is new is then rounding alone, magnified; it must not pass for curvature."""
    top, new, noise = torch.eye(100, dtype=torch.float64)[:3]
    first, second = top, top + share * new
    rounding = 20 * torch.finfo(torch.float32).eps * (noise + 1e-3 * new)
    basis = KrylovBasis(first, torch.float32)
    basis.append(torch.stack([first, second]), torch.stack([20 * top, 20 * top + rounding]))
    assert basis.top()[0] == pytest.approx(20, rel=0.05)


def test_rounding_divided_by_nearly_nothing_is_no_curvature() -> None:
    """The second vector has hardly anything new, and in that part rounding has all but cancelled its curvature."""
    top, tilt, new = 600.0, 0.01, 1.5e-3
    u, e = torch.eye(5, dtype=torch.float64)[:2]
    first = math.cos(tilt) * u + math.sin(tilt) * e
    other = math.cos(tilt) * e - math.sin(tilt) * u
    second = first + new * other
    rounding = new * (top * math.sin(tilt) ** 2 - 1e-4) * other
    assert rounding.norm() < torch.finfo(torch.float32).eps * top * 2
    basis = KrylovBasis(first, torch.float32)
    basis.append(torch.stack([first, second]), torch.stack([top * u * (u @ first), top * u * (u @ second) - rounding]))
    assert len(basis) == 2
    assert basis.top()[0] == pytest.approx(top, rel=1e-3)


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("lambda1", [0.0, 0.02, 0.3])
def test_fista(lambda1: float, indefinite: bool) -> None:
    problem = instance(12, d=80, rank=30, size=100.0, indefinite=indefinite)
    lambda2 = problem.top / 2 + 10
    known = Problem(problem.g, L1(), lambda2, problem.top, problem.negative)
    zero = torch.zeros_like(problem.g)
    start = Iterate(zero, zero, duality_gap(known, zero, zero, lambda1).relative_gap)
    best = fista(known, MeteredOperator(problem.operator, 1000), start, lambda1, 1e-9, torch.float64)
    exact = Quadratic(problem.g, problem.h, lambda1, lambda2)
    assert best.relative_gap <= 1e-9
    assert exact.objective(exact.optimum()) - exact.objective(best.delta) <= 1e-8 * abs(exact.objective(best.delta))


def test_fista_goes_on_where_the_basis_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secondsight.optim.caso.LARGEST_BASIS", 5)
    problem = instance(13, d=200, rank=100, size=100.0)
    solution = solve(problem, fixed(0.02), tolerance=1e-7, bound=proven(problem))
    found = solution.path.chosen.gap
    assert found is not None
    assert found.relative_gap <= 1e-7


def test_the_budget_holds_whoever_spends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secondsight.optim.caso.LARGEST_BASIS", 12)
    problem = instance(17, d=300, rank=200, size=100.0, indefinite=True)
    for budget in (20, 30, 50):
        solution = solve(problem, certify="path", tolerance=1e-12, max_products=budget, bound=proven(problem))
        assert solution.products == budget
        assert any("max_products" in note for note in solution.notes)


def test_nystrom_factor_is_a_lower_bound_and_exact_on_the_basis() -> None:
    problem = instance(14, d=40, rank=20)
    rows = torch.randn(5, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    basis = KrylovBasis(problem.g)
    basis.append(rows, problem.operator.times_rows(rows))
    factor = basis.factor()
    approximation = factor.T @ factor
    assert float(torch.linalg.eigvalsh(problem.h - approximation)[0]) > -1e-9
    torch.testing.assert_close(rows @ approximation, problem.operator.times_rows(rows), rtol=1e-8, atol=1e-8)
    assert basis.top()[0] >= basis.ritz()[1].value


def test_paper_rule_to_the_letter() -> None:
    """The literal loop of section 4.1 on CAFO's closed form, beside ours."""
    for seed in range(30):
        generator = torch.Generator().manual_seed(seed)
        scale = 10.0 ** float(torch.randint(-7, 2, (1,), generator=generator))
        noise = torch.randn(500, generator=generator, dtype=torch.float64)
        # Entries over many decades leave several candidates, others one or none.
        g = scale * (noise**3 if seed % 2 else torch.exp(3 * noise))

        def sparsity(lambda1: float, g: Tensor = g) -> float:
            return float((g.abs() <= lambda1).double().mean())

        tried = [1e-5]
        while sparsity(tried[-1]) < 1:
            tried.append(tried[-1] * 10)
        halved = tried[-1]
        while not any(0.75 <= sparsity(value) < 1 for value in tried):
            halved /= 2
            tried.append(halved)
        # The loss falls with lambda1, so the highest is that of the smallest.
        expected = min(value for value in tried if 0.75 <= sparsity(value) < 1)
        choice = cafo_path(g, L1(), 10.0, PAPER, zero_share)
        assert choice.chosen.lambda1 == pytest.approx(expected)


def test_paper_rule_bisects_and_else_says_so() -> None:
    # Halving jumps from all zero over [0.75, 1): only values between 7e-4 and 9e-4 leave one entry in ten.
    g = torch.full((10,), 7e-4, dtype=torch.float64)
    g[0] = 9e-4
    choice = cafo_path(g, L1(), 10.0, PAPER, zero_share)
    assert choice.chosen.sparsity == pytest.approx(0.9)
    even = torch.full((10,), 7e-4, dtype=torch.float64)
    choice = cafo_path(even, L1(), 10.0, PAPER, zero_share)
    assert choice.note is not None
    assert "no map had a sparsity" in choice.note


def test_auto_rule_takes_the_knee() -> None:
    """Fifty strong entries of different size among weak ones: all of them, and none of the weak."""
    generator = torch.Generator().manual_seed(0)
    g = 0.02 * torch.rand(1000, generator=generator, dtype=torch.float64)
    g[:50] = 0.3 + 0.7 * torch.rand(50, generator=generator, dtype=torch.float64)
    choice = cafo_path(g, L1(), 10.0, AUTO, zero_share)
    assert choice.note is None
    assert bool((choice.chosen.delta[:50] != 0).all())
    assert choice.chosen.sparsity == 0.95


def test_rounding_does_not_choose_among_equal_maps() -> None:
    """One strong entry: maps at many values of lambda1 point the same way, and the first is returned."""
    for seed in range(20):
        g = 0.001 * torch.rand(100, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        g[seed] = 1.0
        for disturbed in (g, g * (1 + 1e-15)):
            choice = cafo_path(disturbed, L1(), 10.0, AUTO, zero_share)
            assert choice.index == 0


def test_auto_rule_without_a_candidate() -> None:
    g = torch.ones(100, dtype=torch.float64)
    choice = cafo_path(g, L1(), 10.0, AUTO, zero_share)
    assert choice.note is not None
    assert choice.chosen.sparsity == 0


def test_sparsity_range_is_obeyed() -> None:
    problem = instance(15, d=1000)
    for low, high in ((0.2, 0.5), (0.9, 0.99)):
        point = solve(problem, replace(AUTO, sparsity=(low, high), points=40, smallest=1e-4)).path.chosen
        assert low <= point.sparsity < high


def test_zero_gradient() -> None:
    problem = replace(instance(16), g=torch.zeros(24, dtype=torch.float64))
    solution = solve(problem)
    assert not bool(solution.path.chosen.delta.any())
    assert solution.angle == (0, 0)
    assert solution.problem.mu > 0


@pytest.mark.parametrize("indefinite", [False, True])
def test_angle_without_penalty_and_its_error(indefinite: bool) -> None:
    for seed in range(10):
        problem = instance(seed, d=200, rank=20, size=60.0, indefinite=indefinite)
        solution = solve(problem, tolerance=1e-3)
        q = 2 * solution.problem.lambda2 * torch.eye(200, dtype=torch.float64) - problem.h
        caso = torch.linalg.solve(q, problem.g)
        cosine = float(caso @ problem.g / caso.norm() / problem.g.norm())
        true = math.degrees(math.acos(min(1.0, cosine)))
        angle, error = solution.angle
        assert abs(angle - true) <= error + 1e-5


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("lambda2", [1e150, 1e163, 1e300])
def test_angle_where_lambda2_dwarfs_the_hessian(lambda2: float, indefinite: bool) -> None:
    """The squares of these maps underflow."""
    solution = solve(instance(3, indefinite=indefinite))
    problem = replace(solution.problem, lambda2=lambda2)
    assert max(angle_without_penalty(problem, solution.solver.basis)) < 1e-6
