"""The notebooks of examples/ run in a kernel, and their pages in the documentation show what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from scripts.notebook_pages import EXAMPLES, PAGES, page, source_only

NOTEBOOKS = sorted(file.stem for file in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook(name: str) -> None:
    """In a process of its own, because sockets to kernels are closed only as it ends."""
    checked = subprocess.run(
        [sys.executable, "-m", "scripts.notebook_pages", "--check", name],
        capture_output=True,
        text=True,
        cwd=EXAMPLES.parent,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_there_is_a_page_for_each_notebook() -> None:
    assert len(NOTEBOOKS) == 5
    assert sorted(path.stem for path in PAGES.glob("*.md")) == NOTEBOOKS


def test_outputs_are_left_out_where_a_page_is_compared(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("# %% [markdown]\n# # Title\n\n# %%\nprint(1)\n")
    notebook = jupytext.read(tmp_path / "some.py")
    before, _ = page(notebook, "some")
    notebook.cells[1].outputs = [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    after, _ = page(notebook, "some")
    assert "```text\n1\n```" in after
    assert source_only(before) == source_only(after)
    assert source_only(before)[:3] == ["# Title", "```python", "print(1)"]
