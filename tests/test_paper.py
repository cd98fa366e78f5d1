"""The paper's results that need no photographs: the numbers behind them, and the files they write."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from secondsight.cli import main
from secondsight.paper import RESULTS
from secondsight.paper.rank_one import error
from secondsight.paper.relaxation import best_in_ball, best_of_size, penalised_with
from secondsight.paper.theorems import theorems


def test_the_error_of_the_rank_one_hessian_is_that_of_the_matrices() -> None:
    """Against the d x d matrices themselves."""
    generator = torch.Generator().manual_seed(0)
    for c, eps in ((3, 0.1), (10, 1e-3), (20, 1e-6)):
        w = torch.randn(40, c, generator=generator, dtype=torch.float64)
        p = torch.full((c,), eps, dtype=torch.float64)
        p[0] = 1 - (c - 1) * eps
        y = torch.eye(c, dtype=torch.float64)[0]
        h = w @ (torch.diag(p) - torch.outer(p, p)) @ w.T
        g = w @ (p - y)
        expected = float((h - torch.outer(g, g) / (eps * (c - 1))).norm() / h.norm())
        assert error(w.T @ w, eps) == pytest.approx(expected, rel=1e-6)


def test_the_counterexample_to_the_relaxation() -> None:
    """A = I, y = (2, 1), k = 1: lambda2 = 1, H = 0, g = 2 y."""
    none, g = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([4.0, 2.0], dtype=torch.float64)
    assert best_of_size(none, g, 1).tolist() == [2.0, 0.0]
    assert best_in_ball(none, g, 2.0).tolist() == pytest.approx([1.5, 0.5])
    assert (penalised_with(none, g, 1) != 0).tolist() == [True, False]


def test_brute_force_beats_every_other_support() -> None:
    generator = torch.Generator().manual_seed(1)
    factor = torch.randn(3, 6, generator=generator, dtype=torch.float64) / 4
    g = torch.randn(6, generator=generator, dtype=torch.float64)
    best = best_of_size(factor, g, 2)

    def value(delta: torch.Tensor) -> float:
        return float(g @ delta + (factor @ delta).square().sum() / 2 - delta @ delta)

    assert int((best != 0).sum()) == 2
    for _ in range(300):
        other = torch.zeros(6, dtype=torch.float64)
        other[torch.randperm(6, generator=generator)[:2]] = torch.randn(2, generator=generator, dtype=torch.float64)
        assert value(other) <= value(best) + 1e-12


def test_what_the_theorems_come_to() -> None:
    checks = theorems(quick=True).numbers["checks"]
    assert [check["statement"] for check in checks if not check["holds"]] == [
        "theorem 5's own m = |g|^2 / (eps (c - 1)) at p = 0.7"
    ]
    assert len(checks) == 11


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_by_its_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", name, "--quick", "--out", "new/paper"]) == 0
    said = capsys.readouterr().out
    assert "claim: " in said
    assert "verdict: " in said
    record = json.loads((tmp_path / f"new/paper/{name}.json").read_text())
    assert (tmp_path / f"new/paper/{name}.png").stat().st_size > 10_000
    assert record["name"] == name
    assert record["verdict"] in ("holds", "holds in part", "does not hold")
    assert record["measured"] in said
    first = (tmp_path / f"new/paper/{name}.json").read_bytes()
    assert main(["paper", name, "--quick", "--out", "new/paper"]) == 0
    assert (tmp_path / f"new/paper/{name}.json").read_bytes() == first
    assert all(math.isfinite(number) for number in numbers(record["numbers"]))


def numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [float(value)] if isinstance(value, (int, float)) else []


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file")
    assert main(["paper", "rank-one", "--out", "taken"]) == 2
    assert capsys.readouterr().err == "secondsight: error: --out must be a folder, not the file taken\n"
    assert main(["paper", "rank-two"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
