"""Groups of entries that stand or fall together: the penalty on random matrices, then explain() on networks."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case, configured
from reference import GroupQuadratic, Quadratic, gradient, hessian
from secondsight.config import CAFO, METHODS, method_of
from secondsight.groups import zero_share
from secondsight.optim.duality_gap import duality_gap
from secondsight.optim.fista import Iterate, fista
from secondsight.optim.lambda_choice import LambdaRule
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.penalties import L1, GroupLasso, Penalty
from secondsight.optim.problem import Problem
from secondsight.optim.semismooth_newton import WholeThreshold, semismooth_newton
from secondsight.results.first_order import first_order_map
from test_optim import AUTO, Instance, Solved, cafo_path, fixed, instance, proven
from test_optim import solve as solve_any

PENALISED = [name for name, method in METHODS.items() if issubclass(method, CAFO)]
PICTURES = [case for case in CASES if case.x.ndim == 3]


@dataclass(frozen=True)
class Grouped:
    """A random problem and a random partition of its entries."""

    problem: Instance
    labels: Tensor

    @property
    def penalty(self) -> GroupLasso:
        return GroupLasso(self.labels)

    def twin(self, lambda1: float, lambda2: float) -> GroupQuadratic:
        return GroupQuadratic(self.problem.g, self.problem.h, self.labels, lambda1, lambda2)

    def known(self, lambda2: float) -> Problem:
        problem = self.problem
        return Problem(problem.g, self.penalty, lambda2, problem.top, problem.negative)

    def whole(self, mask: Tensor) -> bool:
        """Whether the mask is all or nothing in each group."""
        return all(len(mask[self.labels == name].unique()) == 1 for name in self.labels.unique())


def partition(seed: int, d: int, most: int) -> Tensor:
    """Up to `most` groups, a few of them much larger than others, their entries scattered."""
    draws = torch.rand(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (draws**2 * most).long().unique(return_inverse=True)[1]


def grouped(seed: int, d: int, most: int, rank: int, size: float, indefinite: bool) -> Grouped:
    return Grouped(instance(seed, d, min(rank, d), size, indefinite), partition(seed + 1, d, most))


groupings = st.builds(
    grouped,
    seed=st.integers(0, 10**6),
    d=st.integers(2, 20),
    most=st.integers(1, 8),
    rank=st.integers(1, 3),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 300.0]),
    indefinite=st.booleans(),
)


def solve(grouping: Grouped, rule: LambdaRule = AUTO, penalty: Penalty | None = None, **options: Any) -> Solved:
    labels = grouping.labels
    return solve_any(
        grouping.problem, rule, penalty or grouping.penalty, lambda delta: zero_share(delta, labels), **options
    )


def noise(seed: int, count: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(groupings, st.floats(0, 0.6))
def test_certified_maps_are_optimal(grouping: Grouped, lambda1: float) -> None:
    solution = solve(grouping, fixed(lambda1), bound=proven(grouping.problem))
    point = solution.path.chosen
    exact = grouping.twin(lambda1, solution.problem.lambda2)
    best = exact.optimum()
    assert point.gap is not None
    assert point.gap.relative_gap <= 1e-8
    missing = exact.objective(best) - exact.objective(point.delta)
    assert missing <= point.gap.gap + 1e-13 * (1 + abs(exact.objective(best)))
    assert (point.delta - best).norm() <= math.sqrt(2 * point.gap.gap / solution.problem.mu) + 1e-9
    assert point.objective.value == pytest.approx(exact.objective(point.delta), rel=1e-9, abs=1e-14)
    assert grouping.whole(point.delta != 0)


@settings(max_examples=50, deadline=None)
@given(groupings, st.floats(0, 0.6), st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0]), st.integers(0, 10**6))
def test_certificate_bounds_the_truth_at_any_map(grouping: Grouped, lambda1: float, size: float, seed: int) -> None:
    problem = grouping.problem
    lambda2 = problem.top / 2 + 10
    exact = grouping.twin(lambda1, lambda2)
    best = exact.optimum()
    delta = best + size * noise(seed, len(best)) * (0.01 + best.abs().max())
    found = duality_gap(grouping.known(lambda2), delta, problem.operator @ delta, lambda1)
    missing = exact.objective(best) - exact.objective(delta)
    rounding = 1e-12 * (1 + abs(exact.objective(best)))
    condition = (2 * lambda2 + problem.negative) / (2 * lambda2 - problem.top)
    assert found.gap >= 0
    assert found.gap >= missing - rounding
    assert found.gap <= 4 * condition**2 * missing + rounding


@settings(max_examples=50, deadline=None)
@given(groupings, st.floats(0.01, 0.6), st.sampled_from([0.0, 1e-6, 1e-3, 0.1]), st.integers(0, 10**6))
def test_support_certificate_is_never_wrong(grouping: Grouped, lambda1: float, size: float, seed: int) -> None:
    """Nor does it ever split a group."""
    problem = grouping.problem
    lambda2 = problem.top / 2 + 10
    best = grouping.twin(lambda1, lambda2).optimum()
    delta = best * (1 + size * noise(seed, len(best)))
    support = duality_gap(grouping.known(lambda2), delta, problem.operator @ delta, lambda1).support
    assert not bool((support.nonzero & (best == 0)).any())
    assert not bool((support.zero & (best != 0)).any())
    assert grouping.whole(support.nonzero)
    assert grouping.whole(support.zero)


@pytest.mark.parametrize("seed", [22, 87])
def test_nothing_is_proven_zero_and_nonzero_at_once(seed: int) -> None:
    """Where the gap is next to nothing, v is as long as the ball's radius up to rounding, on either side."""
    grouping = grouped(seed, d=11, most=6, rank=1, size=1.0, indefinite=False)
    point = solve(grouping, fixed(0.3)).path.chosen
    assert point.gap is not None
    assert point.gap.gap < 1e-20
    assert bool(point.gap.support.nonzero.any())
    assert not bool((point.gap.support.zero & (point.delta != 0)).any())


def test_support_is_decided_where_the_gap_is_small() -> None:
    grouping = Grouped(instance(3, d=200), partition(4, 200, 40))
    point = solve(grouping, fixed(0.05), tolerance=1e-12).path.chosen
    assert point.gap is not None
    support = point.gap.support
    assert bool(support.nonzero.any())
    assert bool(support.zero.any())
    assert not bool(support.undecided.any())


@settings(max_examples=30, deadline=None)
@given(groupings)
def test_zero_exactly_from_lambda1_max_on(grouping: Grouped) -> None:
    g, labels = grouping.problem.g, grouping.labels
    lambda1_max = grouping.penalty.lambda1_max(g)
    per_group = [float(g[labels == name].norm()) / math.sqrt(int((labels == name).sum())) for name in labels.unique()]
    assert lambda1_max == pytest.approx(max(per_group), rel=1e-12)
    for lambda1 in (lambda1_max, lambda1_max * 1.5):
        at = solve(grouping, fixed(lambda1)).path.chosen
        assert not bool(at.delta.any())
        assert at.gap is not None
        assert at.gap.relative_gap == 0
        assert at.gap.gap <= 1e-25
    assert bool(solve(grouping, fixed(lambda1_max * 0.999)).path.chosen.delta.any())


@settings(max_examples=30, deadline=None)
@given(groupings, st.floats(0, 0.5), st.floats(0.01, 1))
def test_newton_finds_the_optimum(grouping: Grouped, lambda1: float, edge: float) -> None:
    """Also near the edge of concavity. Newton knows only semidefinite matrices: of others, the positive part."""
    values, vectors = torch.linalg.eigh(grouping.problem.h)
    factor = (vectors * values.clamp(min=0).sqrt()).T
    a = grouping.problem.top * (1 + edge) + 1e-3
    start = torch.zeros(len(values), dtype=torch.float64)
    z, delta, _ = semismooth_newton(WholeThreshold(grouping.problem.g, factor, lambda1, grouping.penalty), a, start)
    positive = replace(grouping.problem, h=factor.T @ factor)
    best = replace(grouping, problem=positive).twin(lambda1, a / 2).optimum()
    assert (z - factor @ delta).norm() <= 1e-6 * (1 + z.norm())
    torch.testing.assert_close(delta, best, rtol=1e-5, atol=1e-6 * (1 + float(best.abs().max())))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.integers(1, 8), st.floats(0, 1.0))
def test_curvature_is_the_derivative_of_the_threshold(seed: int, d: int, most: int, lambda1: float) -> None:
    penalty = GroupLasso(partition(seed, d, most))
    y, factor = noise(seed, d), noise(seed + 1, 3 * d).reshape(3, d)
    derivative = torch.autograd.functional.jacobian(lambda y: penalty.threshold(y, lambda1), y)
    found = penalty.shrink(y, lambda1).curvature(factor)
    torch.testing.assert_close(found, factor @ derivative @ factor.T, rtol=1e-9, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 8), st.just(0.0) | st.floats(1e-100, 2.0))
def test_threshold_projection_and_slack(seed: int, d: int, most: int, lambda1: float) -> None:
    labels = partition(seed, d, most)
    penalty, y, delta = GroupLasso(labels), noise(seed, d), noise(seed + 1, d)
    kept, inside = penalty.threshold(y, lambda1), penalty.project(y, lambda1)
    torch.testing.assert_close(kept + inside, y, rtol=1e-14, atol=1e-15)
    slack, value = 0.0, 0.0
    for name in labels.unique():
        block = labels == name
        radius = lambda1 * math.sqrt(int(block.sum()))
        length = float(y[block].norm())
        expected = y[block] * max(0.0, 1 - radius / length)
        torch.testing.assert_close(kept[block], expected, rtol=1e-12, atol=1e-14)
        assert float(inside[block].norm()) <= radius * (1 + 1e-14)
        assert bool(kept[block].any()) == (length > radius)
        value += math.sqrt(int(block.sum())) * float(delta[block].norm())
        slack += radius * float(delta[block].norm()) - float(inside[block] @ delta[block])
        torch.testing.assert_close(penalty.norms(y)[block], y[block].norm().expand(int(block.sum())))
    assert penalty.value(delta) == pytest.approx(value)
    assert penalty.slack(delta, inside, lambda1) == pytest.approx(slack, rel=1e-12, abs=1e-13)
    # Where D and v point the same way, rounding must not make it negative.
    assert penalty.slack(kept, inside, lambda1) >= 0
    assert penalty.slack(kept, inside, lambda1) <= 1e-13


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("lambda1", [0.0, 0.02, 0.1])
def test_fista(lambda1: float, indefinite: bool) -> None:
    problem = instance(12, d=40, rank=20, size=100.0, indefinite=indefinite)
    grouping = Grouped(problem, partition(13, 40, 12))
    lambda2 = problem.top / 2 + 10
    zero = torch.zeros_like(problem.g)
    known = grouping.known(lambda2)
    start = Iterate(zero, zero, duality_gap(known, zero, zero, lambda1).relative_gap)
    best = fista(known, MeteredOperator(problem.operator, 1000), start, lambda1, 1e-9, torch.float64)
    exact = grouping.twin(lambda1, lambda2)
    assert best.relative_gap <= 1e-9
    assert exact.objective(exact.optimum()) - exact.objective(best.delta) <= 1e-8 * abs(exact.objective(best.delta))


def test_fista_goes_on_where_the_basis_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secondsight.optim.caso.LARGEST_BASIS", 5)
    grouping = Grouped(instance(13, d=200, rank=100, size=100.0), partition(14, 200, 50))
    found = solve(grouping, fixed(0.01), tolerance=1e-7, bound=proven(grouping.problem)).path.chosen.gap
    assert found is not None
    assert found.relative_gap <= 1e-7


def test_every_point_of_the_path() -> None:
    grouping = Grouped(instance(5, d=40), partition(6, 40, 15))
    solution = solve(grouping, certify="path", tolerance=1e-6)
    assert len(solution.path.points) >= 12
    for point in solution.path.points:
        exact = grouping.twin(point.lambda1, solution.problem.lambda2)
        assert point.gap is not None
        assert point.gap.relative_gap <= 1e-6
        assert exact.objective(exact.optimum()) <= point.objective.value * (1 + 1.1e-6)


def test_first_order_in_closed_form() -> None:
    grouping = Grouped(instance(7, d=60), partition(8, 60, 20))
    g, labels = grouping.problem.g, grouping.labels
    choice = cafo_path(g, grouping.penalty, 10.0, AUTO, lambda delta: zero_share(delta, labels))
    assert len(choice.points) >= 12
    for point in choice.points:
        expected = torch.zeros_like(g)
        for name in labels.unique():
            block = labels == name
            radius = point.lambda1 * math.sqrt(int(block.sum()))
            expected[block] = g[block] * max(0.0, 1 - radius / float(g[block].norm())) / 20
        torch.testing.assert_close(point.delta, expected, rtol=1e-12, atol=1e-15)
        assert point.gap is not None
        assert point.gap.gap == 0
        assert torch.equal(point.gap.support.nonzero, point.delta != 0)


@settings(max_examples=30, deadline=None)
@given(groupings, st.floats(0, 1.2))
def test_groups_of_one_are_the_plain_penalty(grouping: Grouped, lambda1: float) -> None:
    alone = replace(grouping, labels=torch.arange(len(grouping.labels)))
    found, plain = (solve(alone, fixed(lambda1), penalty) for penalty in (None, L1()))
    maxima = [penalty.lambda1_max(alone.problem.g) for penalty in (alone.penalty, L1())]
    assert maxima[0] == pytest.approx(maxima[1], rel=1e-12)
    assert found.problem.lambda2 == plain.problem.lambda2
    for ours, theirs in zip(found.path.points, plain.path.points, strict=True):
        scale = float(theirs.delta.abs().max())
        torch.testing.assert_close(ours.delta, theirs.delta, rtol=1e-7, atol=1e-7 * scale)


def test_the_twin_knows_groups_of_one() -> None:
    """Two references, written apart, agree."""
    problem = instance(9, d=15, rank=3)
    lambda2 = problem.top / 2 + 10
    grouped_twin = GroupQuadratic(problem.g, problem.h, torch.arange(15), 0.1, lambda2)
    torch.testing.assert_close(grouped_twin.optimum(), Quadratic(problem.g, problem.h, 0.1, lambda2).optimum())


@pytest.mark.parametrize("method", PENALISED)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_label_for_each_entry_changes_nothing(case: Case, method: str) -> None:
    labels = np.arange(case.x.numel())[::-1].reshape(case.x.shape)
    found, plain = (
        ss.explain(case.classifier(), case.x, configured(method, groups=groups, n=3)) for groups in (labels, "none")
    )
    assert torch.equal(found.delta, plain.delta)
    assert (found.lambda1, found.lambda2, found.certificate.gap) == (
        plain.lambda1,
        plain.lambda2,
        plain.certificate.gap,
    )
    assert found.sparsity == plain.sparsity
    assert found.groups is None


def test_pixels_of_one_channel_are_entries() -> None:
    case = PIECEWISE_LINEAR[5]
    found, plain = (ss.explain(case.classifier(), case.x, ss.CASO(groups=groups)) for groups in ("pixel", "none"))
    assert torch.equal(found.delta, plain.delta)


def same_partition(a: Tensor, b: Tensor) -> bool:
    a, b = a.flatten(), b.flatten()
    return torch.equal(a[:, None] == a, b[:, None] == b)


def squares(shape: torch.Size, side: int) -> Tensor:
    """A name for each entry's patch, written as a loop."""
    names = torch.empty(shape, dtype=torch.long)
    for row in range(shape[1]):
        for column in range(shape[2]):
            names[:, row, column] = 100 * (row // side) + column // side
    return names


@pytest.mark.parametrize("method", ["cafo", "caso"])
@pytest.mark.parametrize("groups", ["pixel", "patch:2", "patch:4", "patch:100"])
@pytest.mark.parametrize("case", PICTURES, ids=str)
def test_the_optimum_on_pictures(case: Case, groups: str, method: str) -> None:
    """Pixels and patches, also where the side does not divide the picture, against the dense twin."""
    side = 1 if groups == "pixel" else int(groups.split(":")[1])
    names = squares(case.x.shape, side)
    e = ss.explain(
        case.classifier(), case.x, configured(method, groups=groups, sparsity_range=(0.2, 1.0), tolerance=1e-8)
    )
    assert e.certificate.holds
    if e.groups is None:
        assert (side, len(case.x)) == (1, 1)
    else:
        assert e.groups.shape == case.x.shape
        assert same_partition(e.groups, names)
    g = gradient(case.net, case.x, e.target)
    h = hessian(case.net, case.x, e.target) if method == "caso" else torch.zeros(len(g), len(g)).double()
    exact = GroupQuadratic(g, h, names.flatten(), e.lambda1, e.lambda2)
    best, delta = exact.optimum(), e.delta.flatten()
    assert exact.objective(best) - exact.objective(delta) <= e.certificate.gap + 1e-13
    assert exact.objective(delta) > 0
    torch.testing.assert_close(delta, best, rtol=1e-2, atol=1e-3 * float(best.abs().max()))
    blocks = [delta[block] for block in exact.blocks()]
    assert all(bool((block == 0).all()) or bool((block != 0).all()) for block in blocks)
    assert e.sparsity == pytest.approx(sum(not bool(block.any()) for block in blocks) / len(blocks))
    assert e.lambda1_max == pytest.approx(max(float(g[b].norm()) / len(b) ** 0.5 for b in exact.blocks()))
    assert not bool((e.certificate.support.nonzero.flatten() & (best == 0)).any())
    assert not bool((e.certificate.support.zero.flatten() & (best != 0)).any())


def test_something_is_left_out_and_something_kept() -> None:
    case = PIECEWISE_LINEAR[3]
    for groups, count in (("pixel", 24), ("patch:2", 6)):
        e = ss.explain(case.classifier(), case.x, ss.CASO(groups=groups, sparsity_range=(0.3, 1.0)))
        assert 0.3 <= e.sparsity < 1
        assert e.summary()["groups"] == count
        assert all(point.sparsity * count == pytest.approx(round(point.sparsity * count)) for point in e.path)


@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], *CURVED[:3]], ids=str)
def test_labels_of_any_name_and_kind(case: Case) -> None:
    """Labels need not count up without holes: only who shares one matters. Numpy and torch, signed and not."""
    names = torch.where(torch.arange(case.x.numel()).reshape(case.x.shape) % 3 == 0, 17, 5)
    names_as_tuples = ss.CASO(groups=names).groups
    assert torch.equal(torch.tensor(names_as_tuples), names)
    kinds: list[Any] = [names, names.int(), names.numpy(), names.numpy().astype(np.uint8), names.tolist()]
    found = [ss.explain(case.classifier(), case.x, ss.CASO(groups=kind, lambda1=1e-3)) for kind in kinds]
    for e in found:
        assert e.groups.unique().tolist() == [0, 1]
        assert same_partition(e.groups, names)
        assert torch.equal(e.delta, found[0].delta)
        assert e.method.groups == names_as_tuples
        assert e.summary()["options"] == "caso, groups=array(lambda1=0.001,c1=0.25L)"
    exact = GroupQuadratic(
        gradient(case.net, case.x, found[0].target),
        hessian(case.net, case.x, found[0].target),
        names.flatten(),
        found[0].lambda1,
        found[0].lambda2,
    )
    missing = exact.objective(exact.optimum()) - exact.objective(found[0].delta.flatten())
    assert missing <= found[0].certificate.gap + 1e-12


def test_one_label_for_each_pixel() -> None:
    case = PIECEWISE_LINEAR[3]
    plane = np.repeat([[5, 5, 17, 17, 40, 40]], 4, axis=0)
    flat, full = (
        ss.explain(case.classifier(), case.x, ss.CASO(groups=groups)) for groups in (plane, np.stack([plane] * 3))
    )
    assert flat.groups.shape == case.x.shape
    assert torch.equal(flat.groups, full.groups)
    assert torch.equal(flat.delta, full.delta)
    assert torch.equal(flat.groups[0], torch.tensor([[0, 0, 1, 1, 2, 2]] * 4))


def test_labels_that_may_not_be_written() -> None:
    """As np.broadcast_to gives them."""
    case = PIECEWISE_LINEAR[3]
    labels = np.broadcast_to(np.arange(6), (3, 4, 6))
    assert same_partition(
        ss.explain(case.classifier(), case.x, ss.CASO(groups=labels)).groups, torch.tensor(labels.copy())
    )


@pytest.mark.parametrize("groups", ["pixel", "patch:2"])
def test_the_path_ends_where_first_order_keeps_three_of_four(groups: str) -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, ss.CAFO(groups=groups))
    count = int(e.groups.max()) + 1
    assert e.path[-1].sparsity == pytest.approx(0.25, abs=1 / count)
    own = ss.explain(case.classifier(), case.x, ss.CAFO(groups=groups, path_smallest=0.2))
    assert own.path[-1].lambda1 == pytest.approx(0.2 * own.lambda1_max)


@pytest.mark.parametrize("groups", ["pixel", "patch:2"])
@pytest.mark.parametrize("method", ["caso", "smooth-caso"])
def test_first_order_map_of_an_explanation_shares_its_groups(method: str, groups: str) -> None:
    case = PIECEWISE_LINEAR[3]
    options: dict[str, Any] = {"groups": groups, "n": 3, "sparsity_range": (0.3, 1.0)}
    e = ss.explain(case.classifier(), case.x, configured(method, **options))
    first = ss.explain(
        case.classifier(),
        case.x,
        configured(method.replace("caso", "cafo"), lambda1=e.lambda1, lambda2=e.lambda2, **options),
    )
    torch.testing.assert_close(first_order_map(e), first.delta, rtol=1e-12, atol=1e-15)
    assert bool(first.delta.any())


@pytest.mark.parametrize("groups", ["pixel", "patch:3", torch.arange(24).reshape(4, 6) // 5])
def test_groups_are_saved(groups: str | Tensor, tmp_path: Path) -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, ss.CASO(groups=groups))
    e.save(tmp_path / "e.npz")
    loaded = ss.Explanation.load(tmp_path / "e.npz")
    assert torch.equal(loaded.groups, e.groups)
    assert loaded.groups.dtype == e.groups.dtype
    assert loaded.method == e.method
    assert isinstance(loaded, ss.SecondOrderExplanation)
    assert torch.equal(first_order_map(loaded), first_order_map(e))
    e.save(tmp_path / "e.png")


@pytest.mark.parametrize("method", PENALISED)
def test_a_batch_gives_what_its_items_give(method: str) -> None:
    case = PIECEWISE_LINEAR[4]
    batch = torch.stack([case.x, 1 - case.x])
    together = ss.explain(case.classifier(), list(batch), configured(method, groups="patch:2", n=3))
    for x, e in zip(batch, together, strict=True):
        alone = ss.explain(case.classifier(), x, configured(method, groups="patch:2", n=3))
        torch.testing.assert_close(e.delta, alone.delta, rtol=1e-9, atol=1e-12)
        assert torch.equal(e.groups, alone.groups)


@pytest.fixture(scope="module")
def embedded() -> ss.Classifier:
    return ss.load_model("efficientnet-lite0")


@pytest.mark.parametrize(("groups", "least", "most"), [("superpixels", 100, 260), ("superpixels:30", 15, 45)])
def test_superpixels_of_a_photograph(embedded: ss.Classifier, groups: str, least: int, most: int) -> None:
    e = ss.explain(embedded, Image.fromarray(skimage.data.coffee()), ss.CASO(groups=groups))
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    assert e.certificate.relative_gap <= 1e-4
    assert e.groups.shape == e.delta.shape
    assert bool((e.groups == e.groups[:1]).all())
    count = int(e.groups.max()) + 1
    assert least <= count <= most
    assert len(e.groups.unique()) == count
    # Float32 may round a tiny entry of a kept group to zero, but never fill a left-out one.
    share = torch.tensor([float((e.delta[e.groups == j] != 0).double().mean()) for j in range(count)])
    assert bool(((share == 0) | (share > 0.99)).all())
    assert e.sparsity == pytest.approx(float((share == 0).double().mean()))
    assert 0.75 <= e.sparsity < 1


def test_superpixels_follow_the_picture() -> None:
    """Two halves of different colour: no superpixel lies in both."""
    x = torch.zeros(3, 24, 24)
    x[:, :, :11] = torch.tensor([0.9, 0.2, 0.1])[:, None, None]
    x[:, :, 11:] = torch.tensor([0.1, 0.3, 0.8])[:, None, None]
    model = ss.Classifier(PIECEWISE_LINEAR[3].net)
    groups = ss.explain(model, x, ss.CASO(groups="superpixels:4")).groups
    assert not set(groups[0, :, :11].unique().tolist()) & set(groups[0, :, 11:].unique().tolist())


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("pixels", "not 'pixels'"),
        ("patch", "not 'patch'"),
        ("patch:0", "not 'patch:0'"),
        ("patch:-2", "not 'patch:-2'"),
        ("patch:1.5", "not 'patch:1.5'"),
        ("pixel:3", "not 'pixel:3'"),
        ("none:1", "not 'none:1'"),
        ("superpixels:0", "not 'superpixels:0'"),
        ("", "not ''"),
        (np.zeros((3, 4, 6)), "not an array of float64"),
        (torch.zeros(3, 4, 6), "not an array of torch.float32"),
        ({"a": 1}, "not a dict"),
        (np.zeros((6, 4), dtype=int), r"of the input's shape \(3, 4, 6\), not of shape \(6, 4\)"),
        (np.zeros(72, dtype=int), r"not of shape \(72,\)"),
        (torch.arange(24).reshape(4, 6) - 2, "cover the input, not negative at 6 entries"),
    ],
)
def test_bad_groups(groups: Any, message: str) -> None:
    case = PIECEWISE_LINEAR[3]
    with pytest.raises(ss.InputError, match=message) as refusal:
        ss.explain(case.classifier(), case.x, ss.CASO(groups=groups))
    assert refusal.value.argument == "groups"
    assert str(refusal.value).startswith("groups must be ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("groups", ["pixel", "patch:2", "superpixels"])
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], CURVED[2]], ids=str)
def test_groups_of_pictures_are_for_pictures(case: Case, groups: str) -> None:
    with pytest.raises(ss.InputError, match="no pictures") as refusal:
        ss.explain(case.classifier(), case.x, ss.CASO(groups=groups))
    assert refusal.value.argument == "groups"


@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "integrated-gradients"])
@pytest.mark.parametrize("groups", ["pixel", np.zeros((3, 4, 6), dtype=int)])
def test_methods_without_a_penalty_have_no_groups(method: str, groups: Any) -> None:
    case = PIECEWISE_LINEAR[3]
    message = f"groups must be an option of {', '.join(PENALISED)}, not of {method}"
    with pytest.raises(ss.InputError, match=message) as refusal:
        ss.explain(case.classifier(), case.x, method_of(method, groups=groups))
    assert refusal.value.argument == "groups"
    assert "\n" not in str(refusal.value)


def test_without_scikit_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    case = PIECEWISE_LINEAR[3]
    with pytest.raises(ss.SecondsightError) as refusal:
        ss.explain(case.classifier(), case.x, ss.CASO(groups="superpixels"))
    assert "pip install 'secondsight[superpixels]'" in str(refusal.value)
    assert "\n" not in str(refusal.value)
