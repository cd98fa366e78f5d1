"""The viewer in a real browser, offline: what a person does, and what changes on the screen."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.browser import Tab, alike, launched

import secondsight as ss
from secondsight.viewer.page import Tab as Result
from secondsight.viewer.page import save_page

MAP, OVERLAY = 1, 2
"""Canvases of the stage; 0 is the photograph."""

EVIL = "<script>document.title='taken'</script>\u2028\"'&amp;</title>\udcff.jpg"
"""A name that ends blocks, if anything can."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def results() -> dict[str, ss.Explanation]:
    model, photograph = ss.load_model("efficientnet-lite0"), ss.example_photograph()
    return {name: ss.explain(model, photograph, name) for name in ("caso", "picture", "gradient")}


@pytest.fixture(scope="module")
def pages(results: dict[str, ss.Explanation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, e in results.items():
        save_page(folder / f"{name}.html", [Result(e)], "cat.jpg")
    save_page(folder / "compared.html", [Result(e) for e in results.values()], "cat.jpg")
    return folder


@pytest.fixture
def open_page(browser: Any, pages: Path) -> Iterator[Callable[..., Tab]]:
    """Open a page. At the end, none may have asked for anything or have complained."""
    tabs: list[Tab] = []

    def opened(name: str, fragment: str = "", **window: Any) -> Tab:
        tabs.append(Tab(browser, pages / f"{name}.html", fragment, **window))
        return tabs[-1]

    yield opened
    for tab in tabs:
        assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert len([url for url in tab.requests if url.startswith("file:")]) == 1
        assert tab.complaints == []
        tab.close()


def text(tab: Tab, selector: str) -> str:
    return str(tab.page.inner_text(selector))


def test_the_slider_moves_through_the_path(open_page: Callable[..., Tab], results: dict[str, Any]) -> None:
    tab, e = open_page("caso"), results["caso"]
    chosen = [point.lambda1 for point in e.path].index(e.lambda1)
    slider = tab.page.locator(".path-slider")
    assert (slider.input_value(), slider.get_attribute("max")) == (str(chosen), str(len(e.path) - 1))
    before = [tab.pixels(i) for i in range(3)]
    box = slider.bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] * chosen / 15, box["y"] + box["height"] / 2)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2, steps=6)
    tab.page.mouse.up()
    tab.settle()
    assert slider.input_value() == str(len(e.path) - 1)
    assert [alike(tab.pixels(i), before[i]) for i in range(3)] == [True, False, False]
    assert "not certified: not the chosen map" in text(tab, ".now")
    tab.page.click("text=Back to the chosen map")
    tab.settle()
    assert all(alike(tab.pixels(i), before[i]) for i in range(3))
    assert "certified, gap" in text(tab, ".now")


def test_a_map_on_the_screen_is_the_map(open_page: Callable[..., Tab], results: dict[str, Any]) -> None:
    """At one dot a place, the canvas is the map in grey, within the rounding of shades and of colours."""
    window = {"width": 224 * 3 + 28 + 2 * 24, "height": 800}
    for name in ("picture", "gradient"):
        tab = open_page(name, "#colours=gray", **window)
        shades = results[name].map()
        seen = tab.pixels(MAP)[..., 0]
        assert np.abs(seen - 255 * shades).max() < 1.51
        assert ((seen > 0) == (shades > 0)).all()


def test_keys_move_the_slider_and_the_cursor(open_page: Callable[..., Tab]) -> None:
    tab = open_page("caso")
    tab.page.focus(".path-slider")
    before = tab.pixels(MAP)
    tab.page.keyboard.press("ArrowRight")
    tab.settle()
    assert not alike(tab.pixels(MAP), before)
    assert "lambda1 = " in tab.page.get_attribute(".path-slider", "aria-valuetext")
    tab.page.focus(".stage figure:nth-child(2) .frame canvas")
    tab.page.keyboard.press("ArrowRight")
    tab.settle()
    assert text(tab, ".readout").startswith("Row 112, column 113")
    assert text(tab, "[aria-live]") == text(tab, ".readout")
    for _ in range(4):
        tab.page.keyboard.press("+")
    tab.settle()
    assert text(tab, ".zoomed").startswith("2.4")
    tab.page.keyboard.press("0")
    tab.settle()
    assert text(tab, ".zoomed").startswith("1.0")


def test_the_pointer_reads_exact_values_and_proofs(open_page: Callable[..., Tab], results: dict[str, Any]) -> None:
    tab, e = open_page("caso", "#zoom=8"), results["caso"]
    box = tab.page.locator(".stage figure:nth-child(2) .frame canvas").bounding_box()
    # 8 times: the canvas shows rows and columns from 98 to 126.
    left = 112 - 224 / 16
    kept = e.delta[:, 98:126, 98:126].abs().sum(0)
    for wanted, proof in ((kept.argmax(), "proven not zero"), (kept.argmin(), "proven zero")):
        row, column = divmod(int(wanted), 28)
        at = [(98 + place + 0.5 - left) / 28 for place in (column, row)]
        tab.page.mouse.move(box["x"] + at[0] * box["width"], box["y"] + at[1] * box["height"])
        tab.settle()
        said = text(tab, ".readout")
        assert said.startswith(f"Row {98 + row}, column {98 + column}: ")
        assert proof in said
        values = e.delta[:, 98 + row, 98 + column].tolist()
        if any(values):
            channels = said.split(": ")[1].split(", ")[:3]
            assert [float(channel.split()[1]) for channel in channels] == pytest.approx(values, rel=0.05)
    tab.page.focus(".path-slider")
    tab.page.keyboard.press("ArrowRight")
    tab.page.mouse.move(box["x"] + 5, box["y"] + 5)
    tab.settle()
    assert "nothing is proven here" in text(tab, ".readout")


def test_zoom_and_pan_are_linked(open_page: Callable[..., Tab]) -> None:
    tab = open_page("picture")
    before = [tab.pixels(i) for i in range(3)]
    box = tab.page.locator(".frame canvas").first.bounding_box()
    tab.page.mouse.move(box["x"] + 60, box["y"] + 60)
    tab.page.mouse.wheel(0, -600)
    tab.settle()
    zoomed = [tab.pixels(i) for i in range(3)]
    assert not any(alike(one, other) for one, other in zip(before, zoomed, strict=True))
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 20, box["y"] + 20, steps=4)
    tab.page.mouse.up()
    tab.settle()
    assert not any(alike(tab.pixels(i), zoomed[i]) for i in range(3))
    tab.page.click("text=Reset")
    tab.page.mouse.move(5, 5)
    tab.settle()
    assert all(alike(tab.pixels(i), before[i]) for i in range(3))


def test_pinching_zooms(open_page: Callable[..., Tab]) -> None:
    tab = open_page("picture", width=390, height=844, has_touch=True, is_mobile=True)
    box = tab.page.locator(".stage figure:nth-child(3) .frame canvas").bounding_box()
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    session = tab.context.new_cdp_session(tab.page)
    for step in range(5):
        points = [{"x": middle[0] + side * (20 + 15 * step), "y": middle[1], "id": side} for side in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": "touchMove" if step else "touchStart", "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    tab.settle()
    assert float(text(tab, ".zoomed")[:-1]) > 2


def test_methods_side_by_side_and_one_by_one(open_page: Callable[..., Tab]) -> None:
    tab = open_page("compared")
    canvases = tab.page.locator(".frame canvas")
    assert canvases.count() == 4
    assert tab.page.get_attribute('[role="tab"][aria-selected="true"]', "id") == "tab-0"
    tab.page.click('[role="tab"]:has-text("Picture")')
    tab.settle()
    assert "windows zero" in text(tab, ".now")
    followers = [tab.pixels(i) for i in (1, 2, 3)]
    tab.page.focus(".path-slider")
    tab.page.keyboard.press("ArrowRight")
    tab.settle()
    # CASO follows to as many zeros; the gradient has no path.
    assert not alike(tab.pixels(1), followers[0])
    assert not alike(tab.pixels(2), followers[1])
    assert alike(tab.pixels(3), followers[2])
    tab.page.uncheck("text=Side by side")
    tab.settle()
    assert canvases.count() == 3
    tab.page.focus('[role="tab"][aria-selected="true"]')
    tab.page.keyboard.press("ArrowRight")
    tab.settle()
    assert tab.page.get_attribute('[role="tab"][aria-selected="true"]', "id") == "tab-2"
    assert "no certificate" in text(tab, ".now")
    assert not tab.page.is_visible(".path-slider")


def test_colours_sign_kind_and_opacity_change_pixels(open_page: Callable[..., Tab]) -> None:
    tab = open_page("picture")
    seen = [tab.pixels(OVERLAY)]
    for act in (
        lambda: tab.page.select_option("select:visible", "viridis"),
        lambda: tab.page.get_by_role("radio", name="Sign").check(),
        lambda: tab.page.select_option("select:visible", "RdBu_r"),
        lambda: tab.page.get_by_role("radio", name="Entries").check(),
        lambda: tab.page.fill('input[type="range"]:visible', "40"),
    ):
        act()
        tab.settle()
        seen.append(tab.pixels(OVERLAY))
    assert not any(alike(one, other) for one, other in itertools.combinations(seen, 2))


def test_the_address_keeps_what_was_set(open_page: Callable[..., Tab], pages: Path) -> None:
    tab = open_page("compared")
    tab.page.uncheck("text=Side by side")
    tab.page.get_by_role("radio", name="Sign").check()
    tab.page.focus(".path-slider")
    tab.page.keyboard.press("End")
    tab.page.click('[aria-label="Zoom in"]')
    tab.settle()
    tab.page.wait_for_url("**zoom=**")
    fragment = tab.page.evaluate("location.hash")
    other = open_page("compared", fragment)
    assert all(alike(other.pixels(i), tab.pixels(i)) for i in range(3))
    assert text(other, ".now") == text(tab, ".now")


@pytest.mark.parametrize(
    "fragment", ["#method=99&point=-3&zoom=abc&x=1e999", "#colours=__proto__&kind=evil", "#%%%=<b>"]
)
def test_any_address_opens(open_page: Callable[..., Tab], fragment: str) -> None:
    tab = open_page("compared", fragment)
    assert tab.page.locator(".frame canvas").count() == 4
    assert tab.pixels(1).any()


def test_dark_and_light(open_page: Callable[..., Tab]) -> None:
    def ground(tab: Tab) -> int:
        colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.strip("rgb()").split(",")))

    dark, light = open_page("caso", color_scheme="dark"), open_page("caso", color_scheme="light")
    assert ground(dark) < 100 < 600 < ground(light)
    light.page.click("button.theme")
    assert ground(light) == ground(dark)
    assert alike(dark.pixels(OVERLAY), light.pixels(OVERLAY))


@pytest.mark.parametrize("name", ["caso", "compared"])
def test_a_narrow_screen_needs_no_scrolling_to_the_side(open_page: Callable[..., Tab], name: str) -> None:
    tab = open_page(name, width=390, height=844)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    box = tab.page.locator(".path-slider").bounding_box()
    assert box["y"] + box["height"] < 844, "the slider is on the first screen"
    assert box["width"] > 280


def test_files_that_are_saved(open_page: Callable[..., Tab], results: dict[str, Any], tmp_path: Path) -> None:
    tab, e = open_page("caso"), results["caso"]
    with tab.page.expect_download() as npz:
        tab.page.click("text=NPZ")
    assert npz.value.suggested_filename == "cat-caso.npz"
    npz.value.save_as(tmp_path / "map.npz")
    loaded = ss.Explanation.load(tmp_path / "map.npz")
    assert torch.equal(loaded.delta, e.delta)
    assert loaded.certificate.gap == e.certificate.gap
    with np.load(tmp_path / "map.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["delta"], e.delta.numpy())
    with tab.page.expect_download() as png:
        tab.page.click("text=PNG")
    assert png.value.suggested_filename == "cat-caso.png"
    png.value.save_as(tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.size[0] > 1400
        assert len(set(picture.convert("RGB").resize((40, 20)).get_flattened_data())) > 100


def test_names_from_files_are_text(browser: Any, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 2))
    model = ss.Classifier(net, size=16, labels=["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>"])
    model.name = "<!--<b>model"
    e = ss.explain(model, torch.rand(3, 16, 16))
    save_page(tmp_path / "page.html", [Result(e), Result(e, "</style><i>tab")], EVIL)
    tab = Tab(browser, tmp_path / "page.html")
    assert tab.complaints == []
    assert tab.page.evaluate("document.querySelectorAll('script').length") == 4
    assert tab.page.evaluate("document.querySelectorAll('b, i:not(.ring), img').length") == 0
    assert e.label in tab.page.title()
    assert e.label in tab.page.evaluate("document.querySelector('h1').textContent")
    assert EVIL[:40] in tab.page.evaluate("document.querySelector('.facts').textContent")
    tab.close()


def test_inputs_that_are_no_pictures_are_bars(browser: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    e = ss.explain(ss.Classifier(torch.nn.Linear(10, 3), input_shape=(10,)), torch.randn(10))
    e.save(tmp_path / "table.html")
    tab = Tab(browser, tmp_path / "table.html")
    before = tab.pixels(0)
    tab.page.focus(".path-slider")
    tab.page.keyboard.press("End")
    tab.settle()
    assert not alike(tab.pixels(0), before)
    box = tab.page.locator(".frame canvas").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    tab.settle()
    assert text(tab, ".readout").startswith("Feature 2: ")
    assert tab.complaints == []
    tab.close()


def test_several_in_a_notebook(browser: Any, results: dict[str, Any], tmp_path: Path) -> None:
    cells = "".join(results[name]._repr_html_() for name in ("caso", "picture"))
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>notebook</title>{cells}", "utf-8")
    tab = Tab(browser, tmp_path / "notebook.html", height=2000)
    frames = tab.page.frames[1:]
    assert len(frames) == 2
    for frame in frames:
        frame.wait_for_selector(".now:has-text('certified')")
    frames[0].focus(".path-slider")
    tab.page.keyboard.press("Home")
    frames[0].wait_for_selector(".now:has-text('not the chosen')")
    assert "certified, exact" in frames[1].inner_text(".now")
    assert "not shown" not in tab.page.inner_text("body")
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["caso", "compared"])
def test_axe_finds_no_fault(open_page: Callable[..., Tab], name: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = open_page(name, color_scheme=scheme)
    found = Axe().run(tab.page).response["violations"]
    assert [(one["id"], one["impact"], one["nodes"][0]["html"][:90]) for one in found] == []


def test_a_page_without_a_script_says_why(browser: Any, pages: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "caso.html").as_uri())
    assert "needs JavaScript" in page.inner_text("body")
    context.close()


def test_the_picture_of_the_page_is_a_png(results: dict[str, Any]) -> None:
    assert Image.open(io.BytesIO(results["caso"]._repr_png_())).format == "PNG"


def test_switching_fast_ends_at_the_last_wish(open_page: Callable[..., Tab]) -> None:
    tab = open_page("compared", "#all=false&method=0")
    tab.page.evaluate(
        "Promise.all([{ method: 1 }, { method: 2, kind: 'entries' }, { point: 3 }, { method: 1 }, { all: true }, "
        "{ all: false, kind: 'groups' }].map((one) => viewer.set(one)))"
    )
    tab.settle()
    assert tab.page.get_attribute('[role="tab"][aria-selected="true"]', "id") == "tab-1"
    assert tab.page.locator(".frame canvas").count() == 3
    assert "windows zero" in text(tab, ".now")
