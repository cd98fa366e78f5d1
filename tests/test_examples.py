"""The examples run as they stand, and write the pictures they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = example.read_text("utf-8")
    runpy.run_path(str(example))
    assert capsys.readouterr().out
    for name in ("first_steps.png", "sweep.png", "my_own_model.png", "features.png"):
        assert (tmp_path / name).exists() == (f'save("{name}")' in text)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4
