"""The campaign against our own certificates: its truth is right, and a part of it runs here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bench.certificates.problems import problem
from bench.certificates.truth import Dense, Surrogate, surrogate

from reference import GroupQuadratic, Quadratic


def random_surrogate(seed: int, size: int) -> Surrogate:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, 4))
    h = factor @ factor.T
    values = np.linalg.eigvalsh(h)
    return Surrogate(rng.normal(size=size), h, float(values[-1]), float(values[0]))


@pytest.mark.parametrize("seed", range(6))
def test_the_truth_is_the_optimum_by_coordinate_ascent(seed: int) -> None:
    found = random_surrogate(seed, 12)
    g, h = torch.from_numpy(found.g), torch.from_numpy(found.h)
    lambda1, lambda2 = 0.3 * float(g.abs().max()), found.top / 2 + 0.1 * 10 ** (seed % 3)
    twin = Quadratic(g, h, lambda1, lambda2)
    optimum = Dense(found, None, lambda1, lambda2).optimum()
    assert np.allclose(optimum.delta, twin.optimum().numpy(), rtol=1e-8, atol=1e-10)
    assert abs(optimum.value - twin.objective(twin.optimum())) <= 1e-10 * abs(optimum.value)
    assert optimum.gap <= 1e-12 * abs(optimum.value)


@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_the_optimum_of_groups_too(seed: int) -> None:
    found = random_surrogate(seed, 12)
    g, h, labels = torch.from_numpy(found.g), torch.from_numpy(found.h), torch.arange(12) // 3
    lambda1, lambda2 = 0.3 * float(g.norm()) / 3**0.5, found.top / 2 + 1.0
    twin = GroupQuadratic(g, h, labels, lambda1, lambda2)
    optimum = Dense(found, labels, lambda1, lambda2).optimum()
    assert np.allclose(optimum.delta, twin.optimum().numpy(), rtol=1e-7, atol=1e-9)
    assert optimum.gap <= 1e-12 * abs(optimum.value)


@pytest.mark.parametrize("kind", ["hidden", "repeated", "crowded"])
def test_linear_networks_have_the_spectrum_that_their_kind_names(kind: str) -> None:
    drawn = [problem(0, number) for number in range(150)]
    found = [surrogate(p, seed=0) for p in drawn if p.kind == kind and "smooth" not in p.traits][:5]
    assert found
    for s in found:
        values, vectors = np.linalg.eigh(s.h)
        if kind == "hidden":
            assert abs(vectors[:, -1] @ s.g) <= 1e-4 * np.linalg.norm(s.g)
            assert np.linalg.norm(s.g) > 0
        elif kind == "repeated":
            assert values[-2] >= values[-1] * (1 - 1e-4)
        else:
            assert (values > 0.6 * values[-1]).sum() >= 20
