"""The paper's theorems as properties of what the package computes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import secondsight as ss

seeds = st.integers(0, 10**6)


def linear_model(w: Tensor, logits: Tensor) -> tuple[ss.Classifier, Tensor]:
    """A network whose Jacobian is w (d x c) and whose logits at x = 0 are given."""
    net = nn.Linear(w.shape[0], w.shape[1]).double()
    with torch.no_grad():
        net.weight.copy_(w.T)
        net.bias.copy_(logits)
    return ss.Classifier(net, input_shape=(w.shape[0],)), torch.zeros(w.shape[0], dtype=torch.float64)


def random_model(seed: int, d: int, c: int, sharpness: float) -> tuple[ss.Classifier, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(d, c, generator=generator, dtype=torch.float64)
    return linear_model(w, sharpness * torch.randn(c, generator=generator, dtype=torch.float64))


def confident_model(d: int, c: int, eps: float, seed: int = 0) -> tuple[ss.Classifier, Tensor]:
    """p = [1 - (c - 1) eps, eps, ..., eps]."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(d, c, generator=generator, dtype=torch.float64)
    p = torch.full((c,), eps, dtype=torch.float64)
    p[0] = 1 - (c - 1) * eps
    return linear_model(w, p.log())


def dense(h: ss.InputHessian) -> Tensor:
    return h.matmul(torch.eye(h.size, dtype=torch.float64))


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 12), st.integers(2, 9), st.floats(0, 8))
def test_theorem_2_the_hessian_is_positive_semidefinite(seed: int, d: int, c: int, sharpness: float) -> None:
    h = ss.input_hessian(*random_model(seed, d, c, sharpness))
    values = torch.linalg.eigvalsh(dense(h))
    assert float(values[0]) >= -1e-12 * float(values[-1])


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(2, 12), st.integers(2, 9), st.floats(0, 3))
def test_theorem_3_strongly_concave_exactly_above_half_the_top_eigenvalue(
    seed: int, d: int, c: int, sharpness: float
) -> None:
    model, x = random_model(seed, d, c, sharpness)
    matrix = dense(ss.input_hessian(model, x))
    top = float(torch.linalg.eigvalsh(matrix)[-1])
    for lambda2, concave in ((top / 2 * 1.001, True), (top / 2 * 0.999, False)):
        q = 2 * lambda2 * torch.eye(d, dtype=torch.float64) - matrix
        assert bool(torch.linalg.eigvalsh(q)[0] > 0) is concave
    ss.explain(model, x, ss.CASO(lambda2=top / 2 * 1.001, bound="proven"))
    with pytest.raises(ss.InputError, match="concave"):
        ss.explain(model, x, ss.CASO(lambda2=top / 2 * 0.999, bound="proven"))


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 12), st.integers(2, 9), st.floats(0, 5))
def test_law_of_total_variance(seed: int, d: int, c: int, sharpness: float) -> None:
    """p_y / (1 - p_y) gg' <= H for every p and c, with equality for two classes: theorem 4 at finite size."""
    model, x = random_model(seed, d, c, sharpness)
    h = ss.input_hessian(model, x)
    p = model(x[None]).detach().softmax(1)[0].sort(descending=True).values
    # 1 - p_y as the sum of the others: the difference has no digits near p_y = 1.
    rank_one = p[0] / p[1:].sum() * torch.outer(h.gradient, h.gradient)
    rest = dense(h) - rank_one
    size = float(rank_one.norm())
    assert float(torch.linalg.eigvalsh(rest)[0]) >= -1e-9 * size
    if c == 2:
        assert float(rest.norm()) <= 1e-8 * size


def rank_one_error(d: int, c: int, eps: float) -> float:
    """Relative Frobenius error of gg' / (eps (c - 1)) as the Hessian, as in the paper's simulation."""
    h = ss.input_hessian(*confident_model(d, c, eps))
    matrix = dense(h)
    return float((torch.outer(h.gradient, h.gradient) / (eps * (c - 1)) - matrix).norm() / matrix.norm())


def test_theorem_4_rank_one_as_classes_grow_and_confidence_tends_to_one() -> None:
    by_classes = [rank_one_error(400, c, 1e-4 / (c - 1)) for c in (10, 100, 1000)]
    assert by_classes == sorted(by_classes, reverse=True)
    assert by_classes[1] == pytest.approx(1 / math.sqrt(100), rel=0.3)
    by_eps = [rank_one_error(400, 100, eps) for eps in (5e-3, 1e-3, 1e-5)]
    assert by_eps == sorted(by_eps, reverse=True)


def test_theorem_4_the_top_eigenvector_is_parallel_to_the_gradient() -> None:
    h = ss.input_hessian(*confident_model(400, 1000, 1e-7))
    _, vectors = h.eigh(1)
    cosine = abs(float(vectors[:, 0] @ h.gradient / h.gradient.norm()))
    assert cosine > 0.99


def test_theorem_5_caso_becomes_parallel_to_cafo() -> None:
    angles = []
    for c, eps in ((3, 0.2), (30, 0.01), (300, 1e-5)):
        e = ss.explain(*confident_model(300, c, eps), ss.CASO(lambda1=0.0))
        angles.append(e.second_order.angle)
    assert angles == sorted(angles, reverse=True)
    assert angles[-1] < 0.5


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 12), st.floats(0.1, 5))
def test_theorem_5_exact_for_two_classes(seed: int, d: int, sharpness: float) -> None:
    """D = g / (2 lambda2 - m) with m = p_y |g|^2 / (1 - p_y); and g / (2 c1), since u is parallel to g."""
    model, x = random_model(seed, d, 2, sharpness)
    for c1 in (10.0, "0.25L"):
        e = ss.explain(model, x, ss.CASO(c1=c1, lambda1=0.0, tolerance=1e-12))
        g = e.gradient
        m = e.probability * float(g @ g) / (1 - e.probability)
        number = 0.25 * e.top_eigenvalue if isinstance(c1, str) else c1
        torch.testing.assert_close(e.delta, g / (2 * e.lambda2 - m), rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(e.delta, g / (2 * number), rtol=1e-6, atol=1e-12)


def test_theorem_4_needs_equal_tails() -> None:
    """Two tail classes of very different direction: the second eigenvalue stays a fair share of the first."""
    h = ss.input_hessian(*confident_model(50, 3, 1e-6))
    values, _ = h.eigh(2)
    assert float(values[1] / values[0]) > 0.1
