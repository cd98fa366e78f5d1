"""The largest eigenpairs against dense decompositions in float64, with repeated and clustered eigenvalues."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import secondsight as ss
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.lanczos import _hidden_share, lanczos_eigh

TOLERANCE = 1e-6


class Counted(SymmetricOperator):
    """A dense matrix that counts its products."""

    psd = False

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.products = matrix, 0

    @property
    def size(self) -> int:
        return len(self.matrix)

    def times_rows(self, rows: Tensor) -> Tensor:
        self.products += len(rows)
        return rows @ self.matrix


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_eigenvalues(values: list[float], seed: int = 0) -> Tensor:
    rotation = torch.linalg.qr(normal(len(values), len(values), seed=seed)).Q
    matrix = rotation * torch.tensor(values, dtype=torch.float64) @ rotation.T
    return (matrix + matrix.T) / 2


def check(matrix: Tensor, k: int, start: Tensor | None = None, tolerance: float = TOLERANCE, seed: int = 0) -> None:
    """Check the contract: as many as asked for, the right ones, falling, orthonormal, with small residuals."""
    start = normal(len(matrix), seed=99) if start is None else start
    values, vectors = lanczos_eigh(Counted(matrix), start, k, tolerance, seed)
    expected = torch.linalg.eigvalsh(matrix).flip(0)
    rounding = 1e-12 * float(expected.abs().max())
    limit = tolerance * float(values.abs().max()) + rounding
    assert values.shape == (k,)
    assert vectors.shape == (len(matrix), k)
    assert values.dtype == vectors.dtype == torch.float64
    assert (values[:-1] >= values[1:]).all()
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(k, dtype=torch.float64), rtol=0, atol=1e-12)
    assert float((matrix @ vectors - vectors * values).norm(dim=0).max()) <= limit
    assert float((values - expected[:k]).max()) <= rounding
    assert float((expected[:k] - values).max()) <= (1 + k**0.5) * limit


SPECTRA = {
    "one dimension": [3.0],
    "one dimension, negative": [-3.0],
    "zero": [0.0] * 7,
    "identity": [1.0] * 12,
    "minus identity": [-2.0] * 6,
    "a third twice": [1 / 3, 1 / 3, 0.0],
    "top repeated": [5.0] * 4 + [2.0, 1.0, 0.5, 0.25],
    "second repeated": [5.0] + [4.0] * 6 + [1.0] * 3,
    "low rank": [3.0, 3.0] + [0.0] * 14,
    "indefinite": [2.0, 2.0, 2.0, 1.0, 0.0, 0.0, -1.0, -9.0, -9.0],
    "negative": [-1.0, -1.0, -1.0, -4.0, -30.0, -30.0],
    "zero on top": [0.0, 0.0, -1.0, -2.0, -3.0, -5.0, -8.0, -13.0],
    "clustered within rounding": [1.0 + i * 1e-15 for i in range(5)] + [0.5] * 5,
    "clustered within the tolerance": [1.0 - i * 1e-8 for i in range(5)] + [0.5, 0.4, 0.3],
    "clustered beyond the tolerance": [1.0 - i * 1e-4 for i in range(5)] + [0.5, 0.4, 0.3],
    "clusters of repeated ones": [1.0] * 3 + [1.0 - 1e-5] * 3 + [0.1] * 6,
}


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA.keys())
def test_repeated_eigenvalues_for_every_k(values: list[float]) -> None:
    matrix = with_eigenvalues(values)
    for k in range(1, len(values) + 1):
        check(matrix, k)


@pytest.mark.parametrize("k", [1, 3, 17, 40])
def test_an_eigenspace_larger_than_k_and_than_the_first_basis(k: int) -> None:
    check(with_eigenvalues([7.0] * 30 + [1.0] * 20 + [0.5**i for i in range(50)]), k)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.integers(-6, 6), st.integers(1, 9), min_size=1, max_size=6),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.sampled_from([1e-2, 1e-4, 1e-8]),
)
@example({1: 2, 0: 1}, 1, 0, 1e-4)
def test_random_multiplicities(multiplicities: dict[int, int], pick: int, seed: int, tolerance: float) -> None:
    values = [float(value) for value, count in multiplicities.items() for _ in range(count)]
    check(with_eigenvalues(values, seed), 1 + pick % len(values), tolerance=tolerance, seed=seed)


@pytest.mark.parametrize("column", range(6))
def test_the_start_may_be_an_eigenvector_or_zero(column: int) -> None:
    """Also one of a small eigenvalue: fresh starts find the rest."""
    matrix = with_eigenvalues([6.0, 6.0, 5.0, 4.0, 4.0, 1.0])
    vector = torch.linalg.eigh(matrix).eigenvectors[:, column]
    for k in range(1, 7):
        check(matrix, k, start=vector)
        check(matrix, k, start=torch.zeros_like(vector))


@pytest.mark.parametrize("k", [1, 2])
def test_steps_that_converge_to_a_smaller_eigenvalue_first(k: int) -> None:
    """Of these starts, some settle below the k-th eigenvalue while the basis holds a part of its eigenvector only."""
    for seed in range(130):
        values = torch.rand(20, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        check(torch.diag(values), k, start=torch.zeros(20).double(), tolerance=1e-3, seed=seed)


def test_the_seed_fixes_the_answer() -> None:
    matrix = with_eigenvalues([2.0] * 5 + [1.0] * 5)
    first, again, other = (lanczos_eigh(Counted(matrix), normal(10), 3, 1e-4, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


@pytest.mark.parametrize(("k", "most"), [(1, 12), (5, 15), (10, 21)])
def test_a_fresh_start_costs_a_few_products(k: int, most: int) -> None:
    """One start alone takes 6, 10 and 15 to 17 products."""
    h = Counted(torch.diag(100 * 0.6 ** torch.arange(2000, dtype=torch.float64)))
    for seed in range(3):
        h.products = 0
        lanczos_eigh(h, h.matrix @ normal(2000, seed=seed), k, 1e-4, seed)
        assert k < h.products <= most


def test_of_the_identity_each_pair_costs_a_product_and_one_confirms_them() -> None:
    h = Counted(torch.eye(500, dtype=torch.float64))
    lanczos_eigh(h, normal(500), 7, 1e-4, 0)
    assert h.products == 8


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.floats(0.0, 8.0), st.floats(0.01, 3.0))
def test_no_more_can_hide_than_is_said(seed: int, count: int, rarity: float, above: float) -> None:
    """An eigenvector with a small share of the start, as Lanczos steps do not see it yet."""
    values = torch.cat([normal(30, seed=seed).clamp(-4, 4), torch.tensor([4.0 + above], dtype=torch.float64)])
    start = normal(31, seed=seed + 1)
    start[-1] = 10**-rarity
    start = start / start.norm()
    rows = [start]
    for _ in range(count):
        new = values * rows[-1]
        for row in rows * 2:
            new = new - (row @ new) * row
        rows.append(new / new.norm())
    tridiagonal = torch.stack(rows) * values @ torch.stack(rows).T
    steps, next_step = tridiagonal[:count, :count], float(tridiagonal[count, count - 1])
    bound = min(max(4.0, float(torch.linalg.eigvalsh(steps)[-1])), float(values[-1]))
    assert float(start[-1] ** 2) <= _hidden_share(steps, next_step, bound) * (1 + 1e-6)


@pytest.mark.parametrize("classes", [3, 6])
def test_orthogonal_classes_with_equal_probabilities(classes: int) -> None:
    """H = (I - 11'/c) / c has the eigenvalue 1/c, c - 1 times, and 0."""
    net = nn.Linear(classes, classes, bias=False).double()
    net.weight.data.copy_(torch.eye(classes))
    h = ss.input_hessian(ss.Classifier(net, input_shape=(classes,)), torch.zeros(classes).double())
    expected = torch.tensor([1 / classes] * (classes - 1) + [0.0]).double()
    for k in range(1, classes + 1):
        values, vectors = h.eigh(k)
        torch.testing.assert_close(values, expected[:k], rtol=0, atol=1e-7)
        torch.testing.assert_close(h.matmul(vectors), vectors * values, rtol=0, atol=1e-7)
        torch.testing.assert_close(vectors.T @ vectors, torch.eye(k).double(), rtol=0, atol=1e-12)


def test_repeated_eigenvalues_of_an_indefinite_network() -> None:
    """A weighted sum of squares as a logit against zero: the exact Hessian at 0 is the diagonal of these weights."""

    class Bowl(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            squares = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.5]).double() * x.square()
            return torch.stack([squares.sum(1), torch.zeros(len(x)).double()], 1)

    model = ss.Classifier(Bowl(), input_shape=(8,))
    values, _ = ss.input_hessian(model, torch.zeros(8).double(), target=1, curvature="exact").eigh(6, tolerance=1e-8)
    expected = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5, -1.0]).double()
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-7)
