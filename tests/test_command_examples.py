"""The example of each command, as the reference and `--help` show it, is run; those of the paper by test_paper.py."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageOps

import secondsight as ss
from secondsight.cli import command_for, main

EXAMPLES = {
    name: command.epilog.removeprefix("Example: ")
    for name, command in command_for([]).commands.items()
    if name != "paper"
}
QUICK = ("batch", "report", "export", "explain", "sweep", "demo")
"""In this order: a run must be there before its report."""

SHARED = Path(os.environ.get("SECONDSIGHT_SHARED", "../shared")).resolve()
WEIGHTS = SHARED / "weights" / "resnet50.safetensors"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ss.example_photograph(), "cat.jpg")
    with Image.open("cat.jpg") as cat:
        ImageOps.mirror(cat).save("dog.jpg")
    Path("photos").mkdir()
    shutil.copy("cat.jpg", "photos")
    return tmp_path


def test_quick_examples(folder: Path) -> None:
    for name in QUICK:
        before = set(folder.rglob("*"))
        assert main(shlex.split(EXAMPLES[name])[1:]) == 0, EXAMPLES[name]
        assert set(folder.rglob("*")) > before, f"{EXAMPLES[name]} wrote nothing"


def test_every_example_is_run() -> None:
    assert set(EXAMPLES) == {*QUICK, "compare", "models"}


@pytest.mark.slow
def test_slow_example(folder: Path) -> None:
    assert main(shlex.split(EXAMPLES["compare"])[1:]) == 0


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS.exists(), reason="the weights do not come with the project")
def test_example_with_weights(folder: Path) -> None:
    Path("weights.safetensors").symlink_to(WEIGHTS)
    assert main(shlex.split(EXAMPLES["models"])[1:]) == 0
