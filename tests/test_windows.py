"""Sliding windows: the penalty and its proof against a twin that writes out every cut, then explain() on networks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import secondsight as ss
from cases import CURVED, PIECEWISE_LINEAR, Case, configured
from reference import WindowQuadratic, gradient, hessian
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.fista import Iterate, fista
from secondsight.optim.lambda_choice import KneeRule, LambdaRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.problem import Problem
from secondsight.optim.proof import Origin
from secondsight.optim.sliding_windows import SlidingWindows
from secondsight.results.first_order import first_order_map
from test_optim import Instance, Solved, cafo_path, fixed, instance, proven
from test_optim import solve as solve_any

AUTO = KneeRule((0.3, 1.0), points=16, smallest=0.05)
PENALISED = ("cafo", "caso", "smooth-cafo", "smooth-caso")
PICTURES = [case for case in [*PIECEWISE_LINEAR, *CURVED] if case.x.ndim == 3]


@dataclass(frozen=True)
class Windowed:
    """A random problem on a small picture. Some entries are dead: no gradient, no curvature."""

    problem: Instance
    shape: tuple[int, int, int]
    side: int

    @property
    def penalty(self) -> SlidingWindows:
        return SlidingWindows(self.shape, self.side)

    def twin(self, lambda1: float, lambda2: float, shift: float = 0.0) -> WindowQuadratic:
        return WindowQuadratic(self.problem.g, self.problem.h, self.shape, self.side, lambda1, lambda2, shift)

    def known(self, lambda2: float) -> Problem:
        problem = self.problem
        return Problem(problem.g, self.penalty, lambda2, problem.top, problem.negative, problem.negative)


def windowed(
    seed: int, channels: int, height: int, width: int, side: int, size: float, dead: float, indefinite: bool
) -> Windowed:
    d = channels * height * width
    made = instance(seed, d, min(3, d), size, indefinite)
    alive = torch.rand(d, generator=torch.Generator().manual_seed(seed + 1)) >= dead
    alive[0] = True
    problem = Instance(made.g * alive, made.h * alive * alive[:, None], made.semidefinite)
    return Windowed(problem, (channels, height, width), min(side, height, width))


windows = st.builds(
    windowed,
    seed=st.integers(0, 10**6),
    channels=st.integers(1, 2),
    height=st.integers(2, 5),
    width=st.integers(2, 5),
    side=st.integers(2, 4),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
    dead=st.sampled_from([0.0, 0.0, 0.5]),
    indefinite=st.booleans(),
)


def with_diagonal(known: Problem, picture: Windowed) -> Problem:
    """As where all of H is known: zeros are proven window by window."""
    return replace(known, diagonal=picture.problem.h.diagonal()) if picture.problem.semidefinite else known


def solve(picture: Windowed, rule: LambdaRule = AUTO, **options: Any) -> Solved:
    return solve_any(picture.problem, rule, picture.penalty, **options)


def noise(seed: int, count: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(windows, st.floats(0, 0.3), st.integers(0, 10**6))
def test_threshold_energy_and_curvature_are_those_of_the_cuts(picture: Windowed, lambda1: float, seed: int) -> None:
    exact, penalty = picture.twin(lambda1, 0.5), picture.penalty
    y = noise(seed, len(picture.problem.g))
    shrunk = penalty.shrink(y, lambda1)
    torch.testing.assert_close(shrunk.value, exact.best_map(y), rtol=1e-12, atol=1e-14)
    assert float(shrunk.energy) == pytest.approx(2 * exact.conjugate(y), rel=1e-12, abs=1e-14)
    factor = noise(seed + 1, 2 * len(y)).reshape(2, -1)
    derivative = torch.autograd.functional.jacobian(lambda v: exact.best_map(v), y)
    torch.testing.assert_close(shrunk.curvature(factor), factor @ derivative @ factor.T, rtol=1e-9, atol=1e-11)
    assert penalty.lambda1_max(y) == pytest.approx(
        max(float(y[cut == name].norm()) for cut in exact.cuts() for name in cut.unique())
        / (math.sqrt(picture.shape[0]) * picture.side)
    )


@settings(max_examples=25, deadline=None)
@given(windows, st.integers(0, 10**6))
def test_lambda1_max_is_where_the_map_vanishes(picture: Windowed, seed: int) -> None:
    y, penalty = noise(seed, len(picture.problem.g)), picture.penalty
    top = penalty.lambda1_max(y)
    assert not bool(penalty.threshold(y, top * (1 + 1e-12)).any())
    assert bool(penalty.threshold(y, top * (1 - 1e-9)).any())


@settings(max_examples=40, deadline=None)
@given(windows, st.floats(0, 0.3))
def test_certified_maps_are_optimal(picture: Windowed, lambda1: float) -> None:
    solution = solve(picture, fixed(lambda1), bound=proven(picture.problem))
    point, problem = solution.path.chosen, solution.problem
    exact = picture.twin(lambda1, problem.lambda2, problem.shift)
    best = exact.best_value()
    assert point.gap is not None
    assert point.gap.relative_gap <= 1e-8
    assert point.origin is not None
    here = exact.objective(point.delta, point.origin.y)
    assert best - here <= point.gap.gap + 1e-12 * (1 + abs(best))
    assert (point.delta - exact.optimum()).norm() <= math.sqrt(2 * point.gap.gap / problem.mu) + 1e-9
    assert point.objective.value == pytest.approx(here, rel=1e-9, abs=1e-13)


@settings(max_examples=40, deadline=None)
@given(
    windows,
    st.floats(0, 0.3),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0]),
    st.sampled_from([0.0, 1e-8, 1e-4]),
    st.integers(0, 10**6),
)
def test_the_gap_bounds_the_truth_at_any_map(
    picture: Windowed, lambda1: float, size: float, rounding: float, seed: int
) -> None:
    """Maps from any y, rounded afterwards. The twin's objective is a minimum over y, found by gradient steps."""
    known = picture.known(picture.problem.top / 2 + 10)
    exact = picture.twin(lambda1, known.lambda2, known.shift)
    best = exact.optimum()
    y = picture.problem.g + picture.problem.h @ best + known.shift * best
    y = y + size * noise(seed, len(y)) * (0.01 + y.abs().max())
    delta = exact.best_map(y)
    delta = delta * (1 + rounding * noise(seed + 1, len(y)))
    origin = Origin(y, lambda1, known.a)
    found = duality_gap(known, delta, picture.problem.h @ delta, lambda1, origin=origin)
    allowed = 1e-12 * (1 + abs(exact.best_value()))
    missing = exact.best_value() - exact.objective(delta, y)
    assert found.gap >= missing - allowed
    assert known.objective(delta, float(delta @ picture.problem.h @ delta), lambda1, origin).value <= (
        exact.objective(delta, y) + allowed
    )


@settings(max_examples=25, deadline=None)
@given(windows, st.floats(0.01, 0.3), st.sampled_from([1e-6, 1e-3, 0.1]), st.integers(0, 10**6))
def test_the_gap_includes_the_rounding_of_products(picture: Windowed, lambda1: float, size: float, seed: int) -> None:
    """With a product that is off by an error of known length, the gap still bounds the truth."""
    known = picture.known(picture.problem.top / 2 + 10)
    exact = picture.twin(lambda1, known.lambda2, known.shift)
    best = exact.optimum()
    error = size * noise(seed, len(best)) * (0.01 + picture.problem.g.abs().max())
    y = picture.problem.g + picture.problem.h @ best + known.shift * best + error
    delta = exact.best_map(y)
    wrong = picture.problem.h @ delta + error
    gap = duality_gap(known, delta, wrong, lambda1, float(error.norm()), Origin(y, lambda1, known.a))
    missing = exact.best_value() - exact.objective(delta, y)
    assert gap.gap >= missing - 1e-12 * (1 + abs(exact.best_value()))
    assert not bool((gap.support.nonzero & (best == 0)).any())
    assert not bool((gap.support.zero & (best != 0)).any())


@settings(max_examples=60, deadline=None)
@given(windows, st.floats(0.01, 0.3), st.sampled_from([0.0, 1e-6, 1e-3, 0.1]), st.integers(0, 10**6))
def test_support_claims_are_never_wrong(picture: Windowed, lambda1: float, size: float, seed: int) -> None:
    """Nor for dead inputs, which are zero inside of kept windows."""
    known = picture.known(picture.problem.top / 2 + 10)
    exact = picture.twin(lambda1, known.lambda2, known.shift)
    best = exact.optimum()
    y = picture.problem.g + picture.problem.h @ best + known.shift * best
    y = y * (1 + size * noise(seed, len(y)))
    delta = exact.best_map(y)
    origin = Origin(y, lambda1, known.a)
    crude, fine = (
        duality_gap(problem, delta, picture.problem.h @ delta, lambda1, origin=origin).support
        for problem in (known, with_diagonal(known, picture))
    )
    for support in (crude, fine):
        assert not bool((support.nonzero & (best == 0)).any())
        assert not bool((support.zero & (best != 0)).any())
    # All of H decides more.
    assert not bool((crude.nonzero & ~fine.nonzero).any())
    assert not bool((crude.zero & ~fine.zero).any())


@pytest.mark.parametrize("diagonal", [False, True])
def test_support_claims_at_the_edge(diagonal: bool) -> None:
    """Windows nearly on the edge, strong curvature, and maps that are far off: without the radius, claims are wrong."""
    for seed in range(60):
        picture = windowed(seed, 1, 4, 4, 2, 300.0, 0.0, False)
        known = picture.known(picture.problem.top / 2 + 1)
        known = with_diagonal(known, picture) if diagonal else known
        norms = picture.penalty.group_norms(picture.problem.g) / picture.penalty.weight
        lambda1 = float(norms.quantile(0.6))
        exact = picture.twin(lambda1, known.lambda2)
        best = exact.optimum()
        y = (picture.problem.g + picture.problem.h @ best) * (1 + 0.02 * noise(seed, len(best)))
        delta = exact.best_map(y)
        origin = Origin(y, lambda1, known.a)
        support = duality_gap(known, delta, picture.problem.h @ delta, lambda1, origin=origin).support
        assert not bool((support.nonzero & (best == 0)).any())
        assert not bool((support.zero & (best != 0)).any())


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("lambda1", [0.0, 0.02, 0.1])
def test_fista(lambda1: float, indefinite: bool) -> None:
    picture = windowed(5, 2, 5, 4, 2, 30.0, 0.2, indefinite)
    known = picture.known(picture.problem.top / 2 + 10)
    exact = picture.twin(lambda1, known.lambda2, known.shift)
    zero = torch.zeros_like(picture.problem.g)
    origin = Origin(zero, lambda1, known.a)
    start = Iterate(zero, zero, duality_gap(known, zero, zero, lambda1, origin=origin).relative_gap, origin)
    best = fista(known, MeteredOperator(picture.problem.operator, 1000), start, lambda1, 1e-9, torch.float64)
    assert best.relative_gap <= 1e-9
    torch.testing.assert_close(best.delta, exact.optimum(), rtol=1e-3, atol=1e-5)


def test_every_map_of_a_path_is_certified() -> None:
    picture = windowed(3, 2, 5, 5, 3, 30.0, 0.0, False)
    solution = solve(picture, certify="path")
    assert solution.path.points[-1].sparsity < solution.path.points[0].sparsity <= 1
    for point in solution.path.points:
        assert point.gap is not None
        assert point.gap.relative_gap <= 1e-8
        exact = picture.twin(point.lambda1, solution.problem.lambda2, solution.problem.shift)
        torch.testing.assert_close(point.delta, exact.optimum(), rtol=1e-3, atol=1e-5)


def test_first_order_is_the_mean_of_the_patch_maps() -> None:
    """CAFO by windows is the mean of the N^2 maps by patches, each of which has a shifted grid."""
    picture = windowed(4, 1, 4, 4, 2, 0.0, 0.0, False)
    path = cafo_path(picture.problem.g, picture.penalty, 10.0, AUTO, lambda delta: 0.0)
    for point in path.points:
        exact = picture.twin(point.lambda1, 10.0)
        torch.testing.assert_close(point.delta, exact.best_map(picture.problem.g), rtol=1e-12, atol=1e-15)
        kept = 1 - point.sparsity
        norms = picture.penalty.sums(picture.problem.g**2).sqrt()
        assert kept == pytest.approx(float((norms > 2 * point.lambda1).double().mean()))


def dense(case: Case, e: ss.SparseExplanation) -> WindowQuadratic:
    g, h = gradient(case.net, case.x, e.target), hessian(case.net, case.x, e.target)
    shift = 0.0 if case.piecewise_linear else max(0.0, -float(torch.linalg.eigvalsh(h)[0])) + 1.0
    return WindowQuadratic(g, h, tuple(case.x.shape), 2, e.lambda1, e.lambda2, shift)


@pytest.mark.parametrize("case", [case for case in PICTURES if case.piecewise_linear], ids=str)
def test_explain_finds_the_optimum(case: Case) -> None:
    method = ss.CASO(groups="window:2", c1=10.0, tolerance=1e-8, sparsity_range=(0.3, 1.0))
    e = ss.explain(case.classifier(), case.x, method)
    exact = dense(case, e)
    best = exact.optimum()
    assert e.certificate.holds
    torch.testing.assert_close(e.delta.flatten(), best, rtol=1e-3, atol=1e-4 * float(best.abs().max()))
    assert not bool((e.certificate.support.nonzero.flatten() & (best == 0)).any())
    assert not bool((e.certificate.support.zero.flatten() & (best != 0)).any())
    height, width = case.x.shape[1:]
    assert e.summary()["groups"] == (height + 1) * (width + 1)
    assert e.groups is None
    assert 0.3 <= e.sparsity < 1
    assert e.zero_pixels == pytest.approx(float((e.delta.abs().amax(0) == 0).double().mean()))


@pytest.mark.parametrize("case", [case for case in PICTURES if not case.piecewise_linear], ids=str)
def test_indefinite_hessians_are_certified(case: Case) -> None:
    for curvature in ("exact", "gauss-newton"):
        method = ss.CASO(groups="window:2", curvature=curvature, tolerance=1e-6, sparsity_range=(0.3, 1.0))
        e = ss.explain(case.classifier(), case.x, method)
        assert e.certificate.holds
        assert bool(e.delta.any())


@pytest.mark.parametrize("method", PENALISED)
def test_a_batch_gives_what_its_items_give(method: str) -> None:
    case = PIECEWISE_LINEAR[4]
    batch = torch.stack([case.x, 1 - case.x])
    together = ss.explain(case.classifier(), list(batch), configured(method, groups="window:2", n=4))
    for x, e in zip(batch, together, strict=True):
        alone = ss.explain(case.classifier(), x, configured(method, groups="window:2", n=4))
        torch.testing.assert_close(e.delta, alone.delta, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(e.window_norms, alone.window_norms, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", PENALISED)
def test_window_norms_say_where_the_map_is(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, configured(method, groups="window:2", n=4, sparsity_range=(0.3, 1.0)))
    assert e.window_norms.shape == case.x.shape[1:]
    assert bool((e.delta.abs().amax(0)[e.window_norms == 0] == 0).all())
    assert bool((e.window_norms[e.delta.abs().amax(0) > 0] > 0).all())
    for point in e.path:
        assert point.window_norms.shape == case.x.shape[1:]
    if "cafo" in method:
        torch.testing.assert_close(first_order_map(e), e.delta)


def test_the_path_ends_where_first_order_keeps_three_of_four() -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, ss.CAFO(groups="window:2"))
    assert e.path[-1].sparsity == pytest.approx(0.25, abs=0.05)


def test_windows_of_one_pixel_are_pixels() -> None:
    case = PIECEWISE_LINEAR[3]
    one, pixel = (ss.explain(case.classifier(), case.x, ss.CASO(groups=groups)) for groups in ("window:1", "pixel"))
    assert torch.equal(one.delta, pixel.delta)
    assert one.certificate.relative_gap == pixel.certificate.relative_gap
    assert torch.equal(one.groups, pixel.groups)


def test_window_maps_are_saved(tmp_path: Path) -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, ss.CASO(groups="window:2"))
    e.save(tmp_path / "e.npz")
    loaded = ss.Explanation.load(tmp_path / "e.npz")
    assert isinstance(loaded, ss.SecondOrderExplanation)
    assert torch.equal(loaded.window_norms, e.window_norms)
    for point, again in zip(e.path, loaded.path, strict=True):
        assert torch.equal(point.window_norms, again.window_norms)
    assert (loaded.map() == e.map()).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("window", "not 'window'"),
        ("window:0", "not 'window:0'"),
        ("window:-1", "not 'window:-1'"),
        ("window:x", "not 'window:x'"),
        ("window:2.5", "not 'window:2.5'"),
        ("window:5", r"a window of at most 4 pixels for an input of 4 x 6, not 'window:5'"),
    ],
)
def test_bad_windows(groups: str, message: str) -> None:
    case = PIECEWISE_LINEAR[3]
    with pytest.raises(ss.InputError, match=message) as refusal:
        ss.explain(case.classifier(), case.x, ss.CASO(groups=groups))
    assert refusal.value.argument == "groups"
    assert "\n" not in str(refusal.value)


def test_windows_are_for_pictures() -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError, match="no pictures"):
        ss.explain(case.classifier(), case.x, ss.CASO(groups="window:2"))
