"""The documentation holds: its Python runs, its commands exist, and the site builds and needs no network."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import secondsight as ss
from secondsight.cli import command_for

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def shell_lines(page: Path) -> list[str]:
    """The lines of shell blocks, and what stands indented and begins with the command's name."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return lines + re.findall(r"^    (secondsight .*)$", text, flags=re.MULTILINE)


SNIPPETS = [page for page in PAGES if python_blocks(page)]
CALLS = [(page, line) for page in PAGES for line in shell_lines(page)]


def test_pages_have_snippets_and_commands() -> None:
    names = {name_of(page) for page in SNIPPETS}
    assert {"index.md", "first-steps.md", "faq.md"} <= names
    assert {name_of(page) for page in PAGES if page.parent.name == "how-to"} <= names
    assert len(CALLS) > 10


@pytest.mark.parametrize("page", SNIPPETS, ids=name_of)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ss.example_photograph(), tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    with torch.random.fork_rng([]):
        for number, block in enumerate(python_blocks(page), 1):
            exec(compile(block, f"{name_of(page)}, block {number}", "exec"), names)
    written = re.findall(r'save\("([\w.-]+)"\)', "".join(python_blocks(page)))
    assert all((tmp_path / name).stat().st_size > 1000 for name in written)


@pytest.mark.parametrize(("page", "line"), CALLS, ids=lambda value: value if isinstance(value, str) else value.stem)
def test_commands_exist(page: Path, line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "pip":
        return
    assert words[0] == "secondsight"
    command, args = command_for(words[1:]), words[1:]
    while hasattr(command, "commands"):
        name, *args = args
        assert name in command.commands
        command = command.commands[name]
    # Parsing refuses unknown options and values; nothing runs.
    command.make_context(name, [word for word in args if word != "--help"])


def test_the_page_of_options_says_what_the_configs_say() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "options_page.py"))
    assert page["PAGE"].read_text("utf-8") == page["page"](), "run python scripts/options_page.py"


def test_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for page in PAGES:
        named = re.findall(r"(?:secondsight|'\.)\[([\w,-]+)\]", page.read_text("utf-8"))
        wanted = {extra for names in named for extra in names.split(",")}
        assert wanted <= set(project["optional-dependencies"]), page


class Loaded(HTMLParser):
    """What a page makes a browser fetch, and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag != "a" and given.get("rel") not in ("canonical", "next", "prev"):
            self.fetched += [given[name] for name in ("src", "href", "srcset", "data") if name in given]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


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


def test_site_has_every_page(site: Path) -> None:
    assert {page.with_suffix(".html").name for page in PAGES} <= {page.name for page in site.rglob("*.html")}


def test_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not [address for address in Loaded(page).fetched if re.match(r"(?:[a-z]+:)?//", address)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import\s*)[\"']?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def test_every_public_name_is_on_the_page_of_the_api(site: Path) -> None:
    page = Loaded(site / "api.html")
    documented = {anchor.rpartition(".")[2] for anchor in page.ids if anchor.startswith("secondsight.")}
    assert set(ss.__all__) - documented == {"__version__"}
    assert {"CAFO", "CASO", "SmoothCAFO", "SmoothCASO", "attribute", "explain_func"} <= documented
    assert "ss.__version__" in page.text


def test_no_formula_was_taken_for_markup(site: Path) -> None:
    """Formulas are plain text: none of their underscores and stars may have become emphasis."""
    for page in site.rglob("*.html"):
        emphasised = re.findall(r"<em>(.*?)</em>", page.read_text("utf-8"), flags=re.DOTALL)
        assert not [words for words in emphasised if re.search(r"[|=^_*+]", re.sub(r"<code>.*?</code>", "", words))]
