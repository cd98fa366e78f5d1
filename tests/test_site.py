"""The built site: it builds without a warning, links lead somewhere, it needs no network, and a browser agrees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import check_site
from scripts.check_links import Page, faults
from tests.browser import launched

import secondsight as ss

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    built = subprocess.run(
        [*command, "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        cwd=folder.parent,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_there_and_every_link_leads_somewhere(site: Path) -> None:
    sources = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert sources <= {page.relative_to(site) for page in site.rglob("*.html")}
    assert faults(site) == []


def test_links_that_are_broken_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="top">Other</h1>')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://elsewhere.org/a.css"><script src="a.js"></script>'
        '<a href="https://elsewhere.org">fine</a> <a href="other.html#top">fine</a> <a href="other.html#gone">x</a>'
        '<a href="gone.html">x</a> <img src="//elsewhere.org/a.png">'
    )
    (tmp_path / "a.css").write_text('a { background: url("gone.png") } @import "https://elsewhere.org/b.css";')
    assert faults(tmp_path) == [
        "index.html loads https://elsewhere.org/a.css",
        "index.html loads //elsewhere.org/a.png",
        "index.html: other.html has no anchor #gone",
        "index.html: there is no gone.html",
        "index.html: there is no a.js",
        "a.css: there is no gone.png",
        "a.css loads https://elsewhere.org/b.css",
    ]


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [Page(file) for file in (site / "reference").rglob("*.html")]
    documented = {
        anchor.rpartition(".")[2] for page in pages for anchor in page.ids if anchor.startswith("secondsight.")
    }
    assert set(ss.__all__) - documented == {"__version__"}
    assert {"CAFO", "CASO", "SmoothCAFO", "SmoothCASO", "attribute", "explain_func", "TargetError"} <= documented
    assert any("ss.__version__" in page.text for page in pages)


def test_no_formula_was_taken_for_markup(site: Path) -> None:
    """None of the underscores and stars of a formula may have become emphasis, in TeX or in plain text."""
    for page in site.rglob("*.html"):
        emphasised = re.findall(r"<em>(.*?)</em>", page.read_text("utf-8"), flags=re.DOTALL)
        assert not [words for words in emphasised if re.search(r"[|=^_*+$]", re.sub(r"<code>.*?</code>", "", words))]


def test_formulas_are_rendered_and_search_finds(site: Path) -> None:
    with launched() as browser, check_site.served(site) as address:
        names = ["mathematics.html", "symbols.html", "reference/methods/caso.html"]
        assert list(check_site.looked_at(browser, site, names, None)) == []
        for where in (site.as_uri(), address):
            assert list(check_site.searched(browser, where)) == []


def test_what_a_browser_would_show_wrongly_is_found(tmp_path: Path) -> None:
    (tmp_path / "wide.html").write_text(
        '<body><div class="md-content"><p style="width: 2000px">wide</p><span class="arithmatex">x^2</span>'
        '<div style="overflow-x: auto"><p style="width: 2000px">scrolls</p></div><img src="gone.png"></div>'
    )
    with launched() as browser:
        found = "\n".join(check_site.looked_at(browser, tmp_path, ["wide.html"], None))
    assert all(words in found for words in ("sideways", ">wide ends at", "not rendered: x^2", "failed", "no picture"))
    assert "scrolls ends" not in found
