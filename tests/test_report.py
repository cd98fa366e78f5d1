"""The page about a run: its numbers, its gallery, and how it opens a photograph in the viewer."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from tests.browser import Tab, alike, launched

import secondsight as ss
from secondsight.cli import main
from secondsight.runs.run_report import report_page, save_report

EVIL = "<script>alert(1)<&script>.jpg"
NAMES = ("astronaut", "coffee", "chelsea", "rocket")
MOST_BYTES, MOST_SECONDS = 40_000_000, 3.0
"""Of a report of a thousand photographs, to be opened."""


def photographs(folder: Path) -> Path:
    folder.mkdir()
    for name in NAMES:
        Image.fromarray(getattr(skimage.data, name)()).save(folder / f"{name}.jpg")
    (folder / EVIL).write_bytes((folder / "coffee.jpg").read_bytes())
    (folder / "broken.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("report")
    source = photographs(folder / "photographs")
    return ss.run(ss.load_model("efficientnet-lite0"), source, "caso", out=folder / "run", chunk=8)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as one:
        yield one


@pytest.fixture
def open_report(browser: Any, run: Any, tmp_path: Path) -> Iterator[Callable[..., Tab]]:
    """Open the report. At the end, it may not have asked for anything or have complained."""
    file, tabs = tmp_path / "report.html", []

    def opened(fragment: str = "", **window: Any) -> Tab:
        if not file.exists():
            save_report(run, file)
        tabs.append(Tab(browser, file, fragment, **window))
        return tabs[-1]

    yield opened
    for tab in tabs:
        assert [url for url in tab.requests if not url.startswith(("data:", "blob:", file.as_uri()))] == []
        assert tab.complaints == []
        tab.close()


def shown(tab: Tab) -> list[str]:
    return [str(name) for name in tab.page.eval_on_selector_all(".thumbnail", "all => all.map(one => one.title)")]


def tile(tab: Tab, name: str) -> str:
    return str(tab.page.inner_text(f'.tile:has(h2:text-is("{name}")) .large'))


def test_numbers_are_those_of_the_run(open_report: Callable[..., Tab], run: Any) -> None:
    tab, table = open_report(), run.table()
    certified = sum(table["certified"].to_pylist())
    assert tile(tab, "Certified") == f"{certified} of 5"
    assert f"estimated: {certified}" in tab.page.inner_text(".tiles")
    median = float(np.median(table["second_order_angle"].to_numpy()))
    assert tile(tab, "Second order") == f"{median:.1f}°"
    assert tile(tab, "Failures") == "1"
    assert "broken.jpg" in tab.page.inner_text('section:has(h2:text("Failures: 1"))')
    assert shown(tab) == run.ids


def test_the_gallery_is_searched_filtered_and_sorted(open_report: Callable[..., Tab], run: Any) -> None:
    tab, table = open_report(), run.table()
    by_confidence = [one for _, one in sorted(zip(table["probability"].to_pylist(), run.ids, strict=True))]
    tab.page.locator(".toolbar select").nth(1).select_option("unsure")
    assert shown(tab) == by_confidence
    tab.page.get_by_role("searchbox", name="Search").fill("ROCK")
    assert shown(tab) == ["rocket.jpg"]
    tab.page.get_by_role("searchbox", name="Search").fill("")
    tab.page.locator(".toolbar select").first.select_option("uncertified")
    assert shown(tab) == [
        one for one in by_confidence if not dict(zip(run.ids, table["certified"].to_pylist(), strict=True))[one]
    ]
    tab.page.locator(".toolbar select").first.select_option("all")
    picked = tab.page.locator(".bar:not([aria-label$=': 0'])").first
    words = picked.get_attribute("aria-label")
    picked.focus()
    tab.page.keyboard.press("Enter")
    assert len(shown(tab)) == int(words.rpartition(" ")[2]) < 5
    tab.page.keyboard.press("Enter")
    assert len(shown(tab)) == 5


def test_photographs_open_in_the_viewer(open_report: Callable[..., Tab], run: Any) -> None:
    tab = open_report()
    tab.page.click(f'.thumbnail[title="{run.ids[1]}"]')
    tab.page.wait_for_selector("dialog .now .badge")
    tab.settle()
    first = tab.pixels(1)
    assert first.any()
    assert tab.page.text_content("dialog .class-name") == run[1].label
    assert tab.page.evaluate("location.hash") == "#item=1"
    tab.page.click("text=Next")
    tab.page.wait_for_selector(f'dialog .facts:has-text("{run.ids[2]}")')
    tab.settle()
    assert not alike(tab.pixels(1), first)
    tab.page.keyboard.press("Escape")
    assert not tab.page.is_visible("dialog")
    # The address is cleared by the dialog's close event, which comes a little later.
    tab.page.wait_for_function("location.hash === ''")
    other = open_report("#item=1")
    other.page.wait_for_selector("dialog .now .badge")
    other.settle()
    assert alike(other.pixels(1), first)


def test_a_narrow_dark_report(open_report: Callable[..., Tab]) -> None:
    tab = open_report("#item=0", width=390, height=844, color_scheme="dark")
    tab.page.wait_for_selector("dialog .now .badge")
    assert tab.page.evaluate("document.querySelector('dialog').scrollWidth") <= 390
    tab.page.click("text=Close")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("fragment", ["", "#item=0"])
def test_axe_finds_no_fault_in_a_report(open_report: Callable[..., Tab], fragment: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = open_report(fragment)
    tab.page.wait_for_timeout(200)
    found = Axe().run(tab.page).response["violations"]
    assert [(one["id"], one["impact"], one["nodes"][0]["html"][:90]) for one in found] == []


def test_a_photograph_takes_few_bytes(run: Any) -> None:
    page = report_page(run, 5, lambda done, total: None)
    parts = re.findall(r'id="result-\d+">(.*?)</script>', page)
    assert len(parts) == 5
    thumbnails = json.loads(re.search(r'id="page">(.*?)</script>', page)[1])["thumbnails"]  # type: ignore[index]
    sizes = [len(part) + len(thumbnail) for part, thumbnail in zip(parts, thumbnails, strict=True)]
    assert max(sizes) < MOST_BYTES / 1000


def test_a_photograph_that_is_gone_has_its_map(run: Any, browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(run.path, folder)
    source = run.path.parent / "photographs" / "rocket.jpg"
    kept = source.read_bytes()
    source.unlink()
    try:
        save_report(ss.open_run(folder), tmp_path / "report.html")
    finally:
        source.write_bytes(kept)
    tab = Tab(browser, tmp_path / "report.html", f"#item={run.ids.index('rocket.jpg')}")
    tab.page.wait_for_selector("dialog .now .badge")
    tab.settle()
    assert tab.page.locator("dialog .frame canvas").count() == 1
    assert tab.pixels(0).any()
    assert tab.complaints == []
    tab.close()


def test_groups_that_are_gone_with_their_photograph(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(15376, 3))
    (tmp_path / "in").mkdir()
    Image.fromarray(skimage.data.coffee()).resize((64, 64)).save(tmp_path / "in" / "a.png")
    ss.run(ss.Classifier(net, size=64), tmp_path / "in", "caso(groups=superpixels:20)", out=tmp_path / "run")
    (tmp_path / "in" / "a.png").unlink()
    page = report_page(ss.open_run(tmp_path / "run"), 1, lambda done, total: None)
    shown = json.loads(re.search(r'id="result-0">(.*?)</script>', page)[1])  # type: ignore[index]
    assert shown["photograph"] is None
    assert list(shown["view"]["shades"]) == ["entries"]
    assert shown["view"]["unit"] == "groups"


@pytest.mark.parametrize("method", ["gradient", "caso"])
def test_inputs_that_are_no_pictures(method: str, browser: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ss.Classifier(torch.nn.Linear(6, 3), input_shape=(6,))
    items = list(torch.randn(4, 6))
    save_report(ss.run(model, items, method, out=tmp_path / "run"), tmp_path / "report.html")
    tab = Tab(browser, tmp_path / "report.html", "#item=2")
    tab.page.wait_for_selector("dialog .now")
    tab.settle()
    assert tab.pixels(0).any()
    assert tab.page.locator(".thumbnail").count() == 4
    assert tab.complaints == []
    tab.close()


def test_a_run_without_a_map(tmp_path: Path, browser: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.jpg").write_bytes(b"no picture")
    model = ss.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)), size=8)
    save_report(ss.run(model, tmp_path / "in", "cafo", out=tmp_path / "run"), tmp_path / "report.html")
    tab = Tab(browser, tmp_path / "report.html")
    assert "broken.jpg" in tab.page.inner_text("body")
    assert tab.complaints == []
    tab.close()


def test_the_command(run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    assert main(["report", str(folder), "--gallery", "2"]) == 0
    assert "report.html: " in capsys.readouterr().out
    page = (folder / "report.html").read_text("utf-8")
    assert page.count('id="result-') == 2
    assert "2 of" not in page, "the script writes the words"
    assert main(["report", str(folder)]) == 2
    assert "exists: --overwrite" in capsys.readouterr().err
    assert main(["report", str(folder), "--overwrite"]) == 0
    assert (folder / "report.html").read_text("utf-8").count('id="result-') == 5
    capsys.readouterr()
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert main(["report", str(folder), "--out", str(tmp_path / "x.pdf")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.slow
def test_a_thousand_photographs(run: Any, browser: Any, tmp_path: Path) -> None:
    from bench.viewer import repeated

    file = tmp_path / "report.html"
    many = repeated(run, tmp_path / "many", 1000)
    assert len(many) == 1000
    save_report(many, file)
    assert file.stat().st_size < MOST_BYTES
    tab = Tab(browser, file)
    opened = tab.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert opened < 1000 * MOST_SECONDS
    assert len(shown(tab)) == 1000
    assert tab.complaints == []
    tab.close()
