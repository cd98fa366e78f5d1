"""The benchmarks measure what they say: ranks, slopes, parts that add up, rows that a table can show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import secondsight as ss
from cases import PIECEWISE_LINEAR


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


def test_95_per_cent_are_not_above_the_quantile() -> None:
    from bench.measure import quantile

    values = [float(i) for i in range(1, 41)]
    assert quantile(values[::-1], 0.95) == 38
    assert quantile([3.0], 0.95) == 3


def test_the_slope_is_the_exponent() -> None:
    from bench.scaling import Axis

    axis = Axis("n", values=[1, 10, 100])
    axis.seconds["caso"] = [2.0, 200.0, 20000.0]
    assert axis.slope("caso") == pytest.approx(2)


def test_cost_is_that_of_one_input_in_gradients_of_one() -> None:
    from bench.scaling import Axis, Setting

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    axis, model = Axis("photographs"), ss.Classifier(net, size=8)
    axis.add(Setting(2, model, torch.rand(2, 3, 8, 8), torch.get_num_threads()), repeats=1)
    assert axis.costs["caso"][0] > 0
    assert axis.products[0] >= 3
    assert axis.costs["gradient"][0] / axis.seconds["gradient"][0] == pytest.approx(
        axis.costs["caso"][0] / axis.seconds["caso"][0]
    )


def test_a_part_does_not_count_what_it_spends_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.profile import Part, Stopwatch

    now = [0.0]
    monkeypatch.setattr("bench.profile.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def spend(seconds: float) -> None:
        now[0] += seconds

    watch, outer, inner = Stopwatch(), Part("outer", "", ""), Part("inner", "", "", within="outer", counted=True)

    def work() -> None:
        spend(1)
        watch.call(inner, spend, 2)

    watch.call(outer, work)
    watch.call(inner, spend, 4)
    assert watch.seconds == {"outer": 1, "inner": 2}
    assert watch.calls["inner"] == 1


def test_the_parts_of_a_map_add_up_and_are_put_back() -> None:
    from bench.profile import PARTS, PRODUCTS, REST, profile

    from secondsight.operators.gauss_newton import GaussNewton
    from secondsight.optim.caso import CasoSolver

    before = GaussNewton.times_rows, CasoSolver._certify
    case = PIECEWISE_LINEAR[3]
    watch, measured = profile(case.classifier(), case.x, "caso", repeats=2)
    assert (GaussNewton.times_rows, CasoSolver._certify) == before
    assert sum(watch.seconds.values()) == pytest.approx(measured.seconds)
    assert 0 <= watch.seconds[REST] < measured.seconds
    assert all(watch.seconds[part.name] > 0 for part in PARTS if part.within is None)
    assert watch.seconds[PRODUCTS] > 0


def test_the_table_shows_a_row_with_gaps_in_it() -> None:
    from bench.measure import Row
    from bench.table import COLUMNS, cells, line

    row = Row("cafo", costs=[1.0, 3.0, 2.0], seconds=[0.1, 0.3, 0.2], peak=2_000_000_000)
    shown = dict(zip(COLUMNS, cells(row, gradient_peak=1_000_000_000), strict=True))
    assert shown["g.e. median"] == "2.0"
    assert shown["g.e. 95 %"] == "3.0"
    assert shown["peak GB"] == shown["peak / gradient"] == "2.00"
    assert shown["products"] == shown["worst gap"] == ""
    assert "products" not in line(row, None)


@pytest.fixture
def tiny() -> ss.Classifier:
    from bench.scaling import small

    return small(classes=30)


def test_every_row_can_be_measured_and_shown(tiny: ss.Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.rows import ROWS, Counts, Subject, gradient
    from bench.table import line

    monkeypatch.setattr("bench.rows.photographs", lambda count: [ss.example_photograph()] * count)
    monkeypatch.setattr("bench.rows.peak_bytes", lambda name, what, photograph: 1)
    subject = Subject("tiny", tiny, Counts(caso=1, path=1, batch=4, captum=1, smooth=1, spectrum=1, baseline=1), True)
    rows = {row.name: row for measure in (gradient, *(entry[0] for entry in ROWS.values())) for row in measure(subject)}
    assert len(rows) == 13
    assert all(line(row, 1) for row in rows.values())
    ours = [row for name, row in rows.items() if "paper" not in name and row.gaps]
    assert len(ours) == 7
    assert max(gap for row in ours for gap in row.gaps) <= 1e-4
    assert len(rows["caso, 4 in one call, each"].costs) == 4


@pytest.mark.parametrize(
    "what", ["gradient", "cafo", "caso", "caso-path", "batch-2", "smoothgrad", "eigenpairs", "factor", "paper"]
)
def test_what_memory_is_measured_of(what: str, tiny: ss.Classifier) -> None:
    from bench.memory import work

    x = tiny.tensor(ss.example_photograph())
    assert work(tiny, x, what, warm_up=True) == 0
    assert work(tiny, x, what, warm_up=False) == (x.nbytes * 30 if what == "factor" else 0)


def test_the_ratio_of_two_versions_is_that_of_their_times() -> None:
    from bench.ab import interval, verdict

    noise = [0.9, 1.0, 1.1, 1.2, 0.8]
    ratio, low, high = interval([(n, 1.02 * n) for n in noise])
    assert (ratio, low, high) == pytest.approx((1.02, 1.02, 1.02))
    assert verdict("lite0/caso", [(n, 1.02 * n) for n in noise]).endswith(": passes")
    pairs = [(1.0, 1.02 * n) for n in noise]
    assert interval(pairs)[1] < 1 < 1.05 < interval(pairs)[2]
    assert verdict("lite0/caso", pairs).endswith(": does not pass")


def test_golden_maps_are_equal_agree_or_differ() -> None:
    from bench.golden import Golden

    delta = np.array([3.0, 4.0])
    golden = Golden(delta, lambda1=0.1, gap=0.5, mu=1.0, products=4)
    assert golden.verdict(golden) == "equal"
    assert golden.verdict(replace(golden, delta=delta * 1.2)) == "agrees"
    assert "moved" in golden.verdict(replace(golden, delta=delta * 1.5))
    assert "lambda1" in golden.verdict(replace(golden, lambda1=0.2))
    assert "products" in golden.verdict(replace(golden, products=5))


def test_golden_maps_are_read_as_they_were_written(tmp_path: Path) -> None:
    from bench.golden import Golden, read, write

    maps = [Golden(np.arange(6, dtype=np.float32), 0.1, 1e-5, 20.0, 4), Golden(np.zeros((2, 3)), 0.0, np.inf, 1.0, 0)]
    write(tmp_path / "part.npz", maps)
    assert [a.verdict(b) for a, b in zip(maps, read(tmp_path / "part.npz"), strict=True)] == ["equal", "equal"]
