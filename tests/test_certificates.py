"""The campaign against our own certificates: its truth is right, and a part of it runs here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from bench.certificates.__main__ import BOUNDS, campaign, figures, interval
from bench.certificates.problems import problem
from bench.certificates.truth import Dense, Surrogate, surrogate
from bench.certificates.verdicts import Verdict, judge

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


@pytest.mark.parametrize("block", range(8))
def test_certificates_of_random_problems_are_right(block: int) -> None:
    """200 problems of the campaign: estimates may be wrong in one of 1,000, probable bounds in one of 100."""
    found = [Verdict(**v) for number in range(25 * block, 25 * block + 25) for v in judge(1, number, list(BOUNDS))]
    assert {v.basis for v in found} == set(BOUNDS)
    for v in found:
        assert not v.unsettled
        if v.basis == "proven":
            assert (v.wrong, v.bound_wrong, v.path_wrong) == (False, False, 0), v
    assert sum(v.wrong for v in found) <= 1


def test_a_wrong_certificate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bound of L that is too low, gaps are too small: the campaign must see it."""
    bound = "secondsight.optim.eigenvalue_bounds.Proven.at"
    monkeypatch.setattr(bound, lambda self, basis, psd, lambda2: type(self.bounds)(-1e6 * lambda2, 0.0))
    assert any(v["gap_wrong"] for number in range(20) for v in judge(1, number, ["proven"]))


@pytest.mark.slow
def test_the_whole_campaign(tmp_path: Path) -> None:
    """10,000 problems for each basis, some twenty minutes on two cores."""
    files = ["--kept", str(tmp_path / "verdicts.jsonl"), "--json", str(tmp_path / "figures.json")]
    command = [sys.executable, "-m", "bench.certificates", "--seed", "1", "--count", "10000", *files]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    found = json.loads((tmp_path / "figures.json").read_text("utf-8"))["figures"]
    assert [found[basis]["problems"] for basis in BOUNDS] == [10_000] * 3
    assert found["proven"]["wrong"] == found["proven"]["bound_wrong"] == 0
    assert found["probable"]["wrong"] <= 100
    assert found["estimated"]["wrong"] <= 10


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    first = campaign(1, 3, ["proven"], file, workers=1)
    with file.open("a") as stream:
        stream.write('{"number": 3, "cut off')
    both = campaign(1, 4, ["proven"], file, workers=1)
    assert [v.number for v in both] == [0, 1, 2, 3]
    assert both[:3] == first
    assert figures(both)["proven"]["problems"] == 4


def test_the_interval_of_a_share() -> None:
    assert interval(0, 10_000) == (0.0, pytest.approx(3.7e-4, rel=0.01))
    low, high = interval(5, 10_000)
    assert low < 5e-4 < high
    assert interval(4, 4)[1] == 1.0
