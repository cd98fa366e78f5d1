"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import secondsight as ss

README = Path(__file__).parents[1] / "README.md"


def test_readme_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    shutil.copy(ss.example_photograph(), tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("picture.png", "map.png", "map.npz"))


def test_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) < 160


def test_readme_leads_to_files_that_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README.read_text("utf-8"))
    assert len(links) > 15
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_public_names_are_there() -> None:
    assert all(hasattr(ss, name) for name in ss.__all__)
    public = {name for name in vars(ss) if not name.startswith("_")}
    modules = {name for name in public if type(getattr(ss, name)).__name__ == "module"}
    assert public - modules == {name for name in ss.__all__ if not name.startswith("_")}
    # A module of the same name would take the place of a function as soon as it is imported.
    assert not {path.stem for path in Path(ss.__file__).parent.iterdir()} & set(ss.__all__)
