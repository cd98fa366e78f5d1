"""Pages show what was measured: figures come from the data file, and the check finds everything else."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STAMP = {"date": "2026-01-02", "torch": "2.13.0", "threads": 2}
DATA: dict[str, Any] = {
    "run": STAMP | {"figures": {"lite0": {"caso": {"ge": 6.54, "seconds": 0.4}, "cafo": {"ge": 1.2}}}},
    "ab": STAMP | {"figures": {network: {} for network in ("lite0", "resnet50")}},
}
RATIO = {"ratio": 1.0, "low": 0.9, "high": 1.1, "limit": 1.05, "pairs": 3, "old_code": "abc1234"}
PAGE = "CASO costs <!-- figure run.lite0.caso.ge .1f -->6.5<!-- /figure --> g.e.\n"


def found(text: str, data: dict[str, Any] = DATA) -> list[tuple[int, str]]:
    from bench.publish import findings

    return [(finding.line, finding.text) for finding in findings(text, data)]


def test_a_figure_is_rewritten_and_the_rest_stays() -> None:
    from bench.publish import rewritten

    assert rewritten(PAGE.replace("6.5<", "7.2<"), DATA) == PAGE
    assert rewritten(PAGE, DATA) == PAGE
    stamp = "On <!-- figure run.date -->?<!-- /figure --> with <!-- figure run.threads -->?<!-- /figure --> threads."
    assert ">2026-01-02<" in rewritten(stamp, DATA)
    assert ">2<" in rewritten(stamp, DATA)


def test_a_table_is_rewritten_and_the_result_passes() -> None:
    from bench.publish import rewritten

    data = DATA | {"ab": STAMP | {"figures": {"lite0": {"caso": RATIO}, "resnet50": {}}}}
    page = rewritten("Before.\n\n<!-- table ab -->\n<!-- /table -->\n\nAfter.\n", data)
    assert "\n| EfficientNet-Lite0, caso | 1.000 | 0.900 to 1.100 | 1.05 | not shown | 3 | abc1234 |\n\n<!--" in page
    assert page.startswith("Before.\n\n<!-- table ab -->\n\n|")
    assert page.endswith("<!-- /table -->\n\nAfter.\n")
    assert found(page, data) == []
    (wrong,) = found(page.replace("1.000", "0.900"), data)
    assert wrong[0] == 1 + page[: page.index("1.000")].count("\n")
    assert "says | EfficientNet-Lite0, caso | 0.900" in wrong[1]
    assert "the data says | EfficientNet-Lite0, caso | 1.000" in wrong[1]


def test_figures_that_are_to_be_measured_again_say_so() -> None:
    from bench.page_tables import table

    data = {"ab": STAMP | {"measured": "before", "figures": {"lite0": {"caso": RATIO}, "resnet50": {}}}}
    assert table(data, "ab").endswith("\n\nMeasured before the latest changes of the code.")


def test_the_table_of_curved_networks_is_what_the_command_wrote(tmp_path: Path) -> None:
    from bench.non_relu import FOLDERS, figures
    from bench.page_tables import NON_RELU, table

    kind = {"angle": 27.9, "certified": 19, "products": 12.5}
    summary = {"photographs": 20, "ratio_of_L": 1.77, "smallest": -0.96, "indefinite": 18, "maps_apart": 25.2}
    summary |= {"difference": 0.92, "difference_at_gradient": 0.41, "chosen_maps_apart": 30.6}
    summary |= {"exact": kind, "gauss-newton": kind | {"certified": 20, "products": 4.0, "angle": 9.2}}
    numbers = {"summary": summary, "rank_correlation": {"exact": -0.5}, "rank_correlation_relative": -0.25}
    assert set(FOLDERS) == set(NON_RELU)
    for folder in FOLDERS.values():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "non-relu.json").write_text(json.dumps({"numbers": numbers}))
    shown = table({"non-relu": STAMP | {"figures": figures(tmp_path)}}, "non-relu")
    row = "0.92, 0.41 | 1.77 | -0.96; 18 of 20 | 25, 31 | 28, 9 | 19 of 20, 12.5 | 20 of 20, 4 | -0.50, -0.25 |"
    assert f"| ViT-Tiny, trained | {row}" in shown


def test_one_result_is_replaced_on_the_page_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    page = runpy.run_path(str(ROOT / "scripts" / "paper_page.py"))
    docs, report = tmp_path / "docs", tmp_path / "report"
    (docs / "paper").mkdir(parents=True)
    (docs / "paper" / "old-last.png").write_bytes(b"old")
    (docs / "paper" / "old-first.png").write_bytes(b"stays")
    before = "# T\n\nwords\n\n| [first](#first) | F | old: holds |\n| [last](#last) | L | old: holds |\n"
    before += "\n## first\n\nstays\n"
    (docs / "paper.md").write_text(f"{before}\n## last\n\nold words\n")
    for network in ("a", "b"):
        (report / network).mkdir(parents=True)
        words = {"name": "last", "where": "L", "claim": "C", "measured": f"new {network}", "verdict": "holds in part"}
        (report / network / "last.json").write_text(json.dumps(words | {"numbers": {}}))
        for name in ("last.png", "last-2.png"):
            Image.new("RGB", (3, 2)).save(report / network / name)
    monkeypatch.setitem(page["only"].__globals__, "DOCS", docs)
    page["only"](report, "last")
    after = (docs / "paper.md").read_text()
    assert after.startswith(before.replace("| L | old: holds |", "| L | a: holds in part; b: holds in part |"))
    assert "new a" in after
    assert after.endswith("![last](paper/b-last.png)\n\n![last](paper/b-last-2.png)\n")
    assert "old words" not in after
    kept = ["a-last-2.png", "a-last.png", "b-last-2.png", "b-last.png", "old-first.png"]
    assert sorted(file.name for file in (docs / "paper").iterdir()) == kept


def test_code_is_left_alone() -> None:
    from bench.publish import rewritten

    fenced = f"```md\n{PAGE.replace('6.5<', '7.2<')}took 3 s\n```\n"
    inline = "Type `<!-- figure run.lite0.caso.ge .1f -->7.2<!-- /figure -->` or `3 s`.\n"
    for page in (fenced, inline):
        assert rewritten(page, DATA) == page
        assert found(page) == []


def test_a_changed_figure_is_found() -> None:
    assert found(f"Title\n\n{PAGE}") == []
    changed = PAGE.replace("6.5<", "7.2<")
    assert found(f"Title\n\n{changed}") == [(3, "run.lite0.caso.ge: says 7.2, the data says 6.5")]


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("a <!-- figure run.lite0.caso.gee .1f -->6.5<!-- /figure -->", "has no gee"),
        ("a <!-- figure walk.lite0 -->6.5<!-- /figure -->", "has no walk"),
        ("a <!-- figure run.lite0.caso -->6.5<!-- /figure -->", "has no run.lite0.caso"),
        ("<!-- table walk -->\n<!-- /table -->", "has no walk"),
        ("a <!-- figure run.date .1f -->6.5<!-- /figure -->", "Unknown format code"),
        ("<!-- figure run.lite0.caso.ge .1f -->6.5<!-- /figure -->", "cannot begin with a marker"),
        ("a <!-- figure run.lite0.caso.ge .1f -->6.5", "is not closed"),
        ("a 6.5<!-- /figure -->", "is not closed"),
        ("a <!-- by hand: -->", "has no reason"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_found(marker: str, says: str) -> None:
    from bench.publish import rewritten

    ((line, text),) = found(f"one\ntwo\n{marker}\n")
    assert line == 3
    assert says in text
    assert rewritten(marker, DATA) == marker


@pytest.mark.parametrize(
    "figure",
    ["5.3 g.e.", "0.4 s", "40 ms", "88 seconds", "88\nseconds", "1.15 GB", "31 MB", "7 gradients", "23 times as long"],
)
def test_a_figure_outside_of_markers_is_found(figure: str) -> None:
    text = f"It took {figure} here"
    assert found(f"one\n{text}\n") == [(2, f'says "{" ".join(figure.split())}" outside of any marker')]
    assert found(f"one\n{text} <!-- by hand: the paper's figure -->\n") == []
    assert found(f"one\n{text}\nthree <!-- by hand: the paper's figure -->\n") != []


def test_other_numbers_are_no_figures() -> None:
    assert found("At 224 x 224 pixels, c1 = 10 and 75 % zeros; version 2.13 has 16 values; see e.seconds.\n") == []


def test_a_record_is_taken_rounded_and_older_groups_stay() -> None:
    from bench.figures import is_earlier, lookup, take

    before = {"run": DATA["run"] | {"measured": "before"}}
    record = STAMP | {
        "command": "run",
        "date": "2026-02-03",
        "figures": {"lite0": {"caso": {"ge": 5.43219}}},
        "raw": [1],
    }
    data = take(before, record)
    assert lookup(data, "run.lite0.caso") == {"ge": 5.432}
    assert lookup(data, "run.lite0.cafo.ge") == 1.2
    assert lookup(data, "run.date") == "2026-02-03"
    assert data["run"]["earlier"] == {"lite0.cafo": "2026-01-02"}
    assert is_earlier(data, "run.lite0.cafo")
    assert not is_earlier(data, "run.lite0.caso")
    assert not {"raw", "measured", "command"} & set(data["run"])
    again = take(data, record | {"date": "2026-03-04", "figures": {"lite0": {"cafo": {"ge": 1.1}}}})
    assert again["run"]["earlier"] == {"lite0.caso": "2026-02-03"}


def test_two_runs_of_a_day_belong_together_but_marked_figures_do_not() -> None:
    from bench.figures import take

    caso, cafo = ({"lite0": {method: {"ge": 1.0}}} for method in ("caso", "cafo"))
    record = STAMP | {"command": "run"}
    data = take(take({}, record | {"figures": caso}), record | {"figures": cafo})
    assert "earlier" not in data["run"]
    data["run"]["measured"] = "before"
    data = take(data, record | {"figures": cafo})
    assert data["run"]["earlier"] == {"lite0.caso": STAMP["date"]}
    assert take(data, record | {"figures": cafo})["run"]["earlier"] == {"lite0.caso": STAMP["date"]}
    assert "earlier" not in take(data, record | {"figures": caso})["run"]


def test_a_run_with_another_torch_replaces_all() -> None:
    from bench.figures import take

    record = STAMP | {"command": "run", "torch": "3.0", "figures": {"lite0": {"caso": {"ge": 5.0}}}}
    assert take(DATA, record)["run"]["figures"] == {"lite0": {"caso": {"ge": 5.0}}}


def test_the_file_is_sorted_with_a_line_for_each_group(tmp_path: Path) -> None:
    from bench.figures import read, write

    write(DATA, tmp_path / "figures.json")
    text = (tmp_path / "figures.json").read_text()
    assert read(tmp_path / "figures.json") == DATA
    assert '    "caso": {"ge": 6.54, "seconds": 0.4}\n' in text
    assert text.index('"ab"') < text.index('"run"')


def test_pages_are_written_and_checked(tmp_path: Path) -> None:
    from bench.publish import check, publish

    for folder in ("bench", "docs/how-to"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text("none\n")
    (tmp_path / "bench" / "README.md").write_text("none\n")
    page = tmp_path / "docs" / "how-to" / "page.md"
    page.write_text(PAGE.replace("6.5<", "7.2<"))
    assert check(tmp_path, DATA) == ["docs/how-to/page.md:1: run.lite0.caso.ge: says 7.2, the data says 6.5"]
    assert "7.2" in page.read_text()
    publish(tmp_path, DATA)
    assert check(tmp_path, DATA) == []
    assert page.read_text() == PAGE


def test_every_table_has_data_and_straight_columns() -> None:
    from bench.figures import read
    from bench.page_tables import TABLES, table

    for name in TABLES:
        lines = [line for line in table(read(), name).splitlines() if line.startswith("|")]
        assert len(lines) > 2, name
        assert len({line.count("|") for line in lines}) == 1, name


def test_the_data_names_no_machine_and_no_folder() -> None:
    text = (ROOT / "bench" / "figures.json").read_text()
    assert set(json.loads(text)) >= {"run", "ab", "scaling", "smooth", "startup", "profile"}
    assert "/" not in text


def test_the_check_needs_no_torch_and_passes() -> None:
    code = "import sys; from bench.publish import ROOT, check; from bench.figures import read\n"
    code += "print(*check(ROOT, read()), sep='\\n'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["", "False"]
