"""The documentation holds: its Python runs, its commands exist, and generated pages say what the code says."""

from __future__ import annotations

import inspect
import pkgutil
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from scripts import reference_pages

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


# The pages of the notebooks are run as notebooks, by tests/test_examples.py.
SNIPPETS = [page for page in PAGES if python_blocks(page) and page.parent.name != "examples"]
CALLS = [(page, line) for page in PAGES for line in shell_lines(page)]


def test_pages_have_snippets_and_commands() -> None:
    names = {name_of(page) for page in SNIPPETS}
    assert {"index.md", "which-method.md", "first-steps.md", "faq.md"} <= names
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


def test_the_generated_pages_say_what_the_code_says() -> None:
    made = reference_pages.pages()
    assert reference_pages.stale(made) == [], "run python -m scripts.reference_pages"
    made["methods/caso.md"] += "another word"
    assert reference_pages.stale({**made, "new.md": ""}) == ["methods/caso.md", "new.md"]


def test_every_page_of_the_reference_has_an_example_that_runs() -> None:
    """In the docstring, as a doctest; or on the page, as a block of Python or a command."""
    without = []
    for page in (ROOT / "docs" / "reference").rglob("*.md"):
        text = page.read_text("utf-8")
        shown = [pkgutil.resolve_name(name) for name in re.findall(r"^::: (\S+)", text, re.M)]
        doctests = any(">>>" in (inspect.getdoc(one) or "") for one in shown if not isinstance(one, dict))
        if not doctests and "```python" not in text and "```sh" not in text:
            without.append(page.stem)
    assert sorted(without) == ["PRESETS", "index"]


def test_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for page in PAGES:
        named = re.findall(r"(?:secondsight|'\.)\[([\w,-]+)\]", page.read_text("utf-8"))
        wanted = {extra for names in named for extra in names.split(",")}
        assert wanted <= set(project["optional-dependencies"]), page
