"""The benchmarks measure what they say: ranks, slopes, parts that add up, rows that a table can show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import secondsight as ss
from cases import PIECEWISE_LINEAR


def test_95_per_cent_are_not_above_the_quantile() -> None:
    from bench.row import quantile

    values = [float(i) for i in range(1, 41)]
    assert quantile(values[::-1], 0.95) == 38
    assert quantile([3.0], 0.95) == 3


def test_the_slope_is_the_exponent() -> None:
    from bench.scaling import Axis

    axis = Axis("n", "n", values=[1, 10, 100])
    axis.seconds["caso"] = [2.0, 200.0, 20000.0]
    assert axis.slope("caso") == pytest.approx(2)


def test_cost_is_that_of_one_input_in_gradients_of_one() -> None:
    from bench.scaling import Axis, Setting

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    axis, model = Axis("photographs", "photographs"), ss.Classifier(net, size=8)
    axis.add(Setting(2, model, torch.rand(2, 3, 8, 8), torch.get_num_threads()), repeats=1)
    assert axis.costs["caso"][0] > 0
    assert axis.products[0] >= 3
    assert axis.figures()["caso"]["from"] == axis.seconds["caso"][0]
    assert axis.costs["gradient"][0] / axis.seconds["gradient"][0] == pytest.approx(
        axis.costs["caso"][0] / axis.seconds["caso"][0]
    )


def test_a_part_does_not_count_what_it_spends_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.stopwatch import Part, Stopwatch

    now = [0.0]
    monkeypatch.setattr("bench.stopwatch.time", SimpleNamespace(perf_counter=lambda: now[0]))

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
    from bench.profile import PARTS, PATH, PRODUCTS, REST, figures, profile

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
    found = figures(watch, measured, repeats=2)
    assert found["ge"] == pytest.approx(measured.cost / 2)
    assert found["path_ge"] == pytest.approx(watch.seconds[PATH] / 2 / measured.unit)
    assert 0 < found["product_ge"] < found["ge"]


def test_the_table_shows_a_row_with_gaps_in_it() -> None:
    from bench.row import Row
    from bench.table import TITLES, line, shown

    row = Row("cafo", {"ge": 1.3}, costs=[1.0, 3.0, 2.0], seconds=[0.1, 0.3, 0.2], peak=2_000_000_000)
    cells = dict(zip(TITLES, shown(row, gradient_peak=1_000_000_000), strict=True))
    assert cells["g.e., median"] == "2.0"
    assert cells["g.e., 95 %"] == "3.0"
    assert cells["peak GB"] == cells["peak / gradient's"] == "2.00"
    assert cells["products"] == cells["worst gap"] == ""
    assert cells["limits"] == "g.e., median 1.3"
    assert "products" not in line(row, None)


@pytest.fixture
def tiny() -> ss.Classifier:
    from bench.scaling import small

    return small(classes=30)


def test_every_row_can_be_measured_and_shown(tiny: ss.Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.row import NAMES
    from bench.rows import ROWS, Counts, Subject, gradient
    from bench.table import line

    monkeypatch.setattr("bench.rows.photographs", lambda count: [ss.example_photograph()] * count)
    monkeypatch.setattr("bench.rows.peak_bytes", lambda name, what, photograph: 1)
    subject = Subject("tiny", tiny, Counts(caso=1, path=1, batch=4, captum=1, smooth=1, spectrum=1, baseline=1), True)
    rows = {row.key: row for measure in (gradient, *(entry[0] for entry in ROWS.values())) for row in measure(subject)}
    assert set(rows) == set(NAMES) - {"batch-10", "batch-40"}
    assert all(line(row, 1) for row in rows.values())
    ours = [row for key, row in rows.items() if key != "paper" and row.gaps]
    assert len(ours) == 12
    assert max(gap for row in ours for gap in row.gaps) <= 1e-4
    assert len(rows["batch-4"].costs) == 4
    assert rows["batch-4"].figures(1)["share"] > 0
    assert not rows["cafo"].products


@pytest.mark.parametrize(
    "what",
    [
        "gradient",
        "cafo",
        "caso",
        "caso-path",
        "picture",
        "caso-window",
        "batch-2",
        "smoothgrad",
        "integrated-gradients",
        "eigenpairs",
        "factor",
        "paper",
    ],
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


def test_both_sides_of_the_captum_row_explain_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.ab import turns
    from bench.scaling import small

    bare = small(classes=5)
    model = ss.Classifier(bare.net, mean=[0.4, 0.5, 0.6], std=[0.2, 0.3, 0.4], size=64)
    monkeypatch.setattr("bench.photographs.photographs", lambda count: [ss.example_photograph()] * 3)
    (listed,), (stacked,) = turns(model, "captum-list"), turns(model, "captum-tensor")
    maps = torch.stack([e.delta for e in listed()])
    assert maps.any()
    assert torch.equal(maps, stacked())


def test_smooth_maps_are_measured_beside_the_paper(
    tiny: ss.Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.smooth import Comparison

    monkeypatch.setattr("bench.smooth.load", lambda name: tiny)
    monkeypatch.setattr("bench.smooth.photographs", lambda count: [ss.example_photograph()] * count)
    comparison = Comparison("tiny", 2, tmp_path / "smooth.json")
    e = comparison.ours("chosen")
    comparison.ours("path")
    comparison.paper(e)
    written = json.loads((tmp_path / "smooth.json").read_text())
    assert written["command"] == "smooth"
    assert written["figures"] == {"tiny": {"n2": comparison.found}}
    # One of the eight maps is next to lambda1_max: its objective is hardly larger than what float32 rounds.
    assert comparison.found["path"]["gap"] <= 2e-4
    assert comparison.found["paper"]["values"] == 8
    assert comparison.found["paper"]["products"] > 80


def test_a_run_of_pairs_goes_on_where_it_stopped(tmp_path: Path) -> None:
    from bench.ab import Report

    file = tmp_path / "ab.json"
    first = Report(file, "abc1234")
    first.add("lite0", "caso", (1.0, 1.1))
    first.add("lite0", "captum", (2.0, 2.2))
    again = Report(file, None)
    assert again.of("lite0", "caso") == [[1.0, 1.1]]
    assert again.figures("caso", again.of("lite0", "caso"))["old_code"] == "abc1234"
    assert again.figures("captum", again.of("lite0", "captum"))["old_code"] == "explain"
    with pytest.raises(SystemExit, match="abc1234"):
        Report(file, "fff0000")


def test_imports_are_shared_out_by_package() -> None:
    from bench.startup import import_shares

    report = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:    500000 |     500000 |   torch._C\n"
        "import time:    250000 |     750000 | sympy\n"
        "import time:    100000 |     100000 |     secondsight.config\n"
        "import time:     50000 |      50000 | json\n"
    )
    shares = import_shares(2.0, report)
    assert shares["torch"] == pytest.approx(0.375)
    assert shares["own"] == pytest.approx(0.05)
    assert shares["other"] == pytest.approx(0.025)
    assert shares["scipy"] == 0


def test_the_tables_of_the_start_have_every_part() -> None:
    from bench.cold_explain import IMPORTS, PACKAGES, STAGES
    from bench.page_tables import COLD
    from bench.page_tables import IMPORTS as SHOWN
    from bench.stopwatch import Stopwatch

    assert set(SHOWN) == {*PACKAGES.values(), "other"}
    with Stopwatch().watching(STAGES):
        pass
    stages = {part.name for part in STAGES}
    assert set(COLD) == stages | {*IMPORTS.values(), "import_other", "rest", "python"}


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
