"""The command's pictures: `--method picture`, shades and blurs, folders and contact sheets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import secondsight as ss
from secondsight.cli import main
from test_cli import files, photograph, run


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of a command that exits with 2."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_folder_on_one_sheet(tmp_path: Path) -> None:
    for name in ("coffee", "rocket"):
        photograph(tmp_path / "photos", name)
    (tmp_path / "photos/notes.txt").write_text("no photograph")
    done = run(tmp_path, "compare", "photos", "--methods", "cafo,cafo(groups=window:8)", "--sheet", "made/sheet.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert files(tmp_path) == {
        "photos",
        "photos/coffee.png",
        "photos/rocket.png",
        "photos/notes.txt",
        "made",
        "made/sheet.png",
    }
    with Image.open(tmp_path / "made/sheet.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    # Two rows of three panels, of which the photographs have colours and most of a map is black.
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 600
    assert done.stdout.splitlines()[-1] == "  figure: made/sheet.png"


def test_a_picture_on_the_command_line(tmp_path: Path) -> None:
    cup = photograph(tmp_path, "coffee")
    done = run(tmp_path, "explain", cup, "--method", "picture", "--n", 4, "--blur", 2, "--format", "png,npz")
    assert (done.returncode, done.stderr) == (0, "")
    e = ss.Explanation.load(tmp_path / "out/coffee-picture.npz")
    assert isinstance(e, ss.PictureExplanation)
    assert e.method == ss.Picture(n=4, c1=10.0)
    assert f"  {e.second_order.sentence}" in done.stdout.splitlines()
    assert e.smoothing is not None
    assert e.smoothing.copies == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--show", "pixels"], "--show must be entries or groups, not 'pixels'"),
        (["--show", "groups"], "--show must be entries, because caso has no groups here, not groups"),
        (["--blur", "-1"], "--blur must be a finite number of at least 0, not -1.0"),
        (["--groups", "window:0"], "groups must be none, pixel, patch:SIDE, window:SIDE"),
        (["--groups", "window:x"], "groups must be none, pixel, patch:SIDE, window:SIDE"),
        (["--groups", "window:225"], "a window of at most 224 pixels for an input of 224 x 224, not 'window:225'"),
        (["--method", "picture", "--n", "some"], "n must be auto or a whole number of at least 1, not 'some'"),
    ],
)
def test_explain_refuses(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cup = photograph(tmp_path, "coffee")
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, "explain", cup, *words)
    assert files(tmp_path) == {"coffee.png"}


def test_sheets_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    cup = photograph(tmp_path, "coffee")
    monkeypatch.chdir(tmp_path)
    assert "PHOTO must be a photograph, or a folder with files" in refused(capsys, "compare", "empty")
    said = refused(capsys, "compare", cup, "--sheet", "sheet.jpg")
    assert "--sheet must be the name of a .png file, not 'sheet.jpg'" in said
    said = refused(capsys, "compare", *[cup] * 101, "--sheet", "sheet.png")
    assert "--sheet must be of at most 100 photographs times networks, not 101" in said
    assert files(tmp_path) == {"coffee.png", "empty"}
