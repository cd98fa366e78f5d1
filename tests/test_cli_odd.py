"""The command where things are odd: Ctrl-C at any moment, poor terminals, long names, unusual photographs."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

import secondsight as ss
from secondsight.cli import main
from test_cli import COMMAND, ENVIRONMENT, started

LINE_WIDTH = 80


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2, 0.4, 0.8, 1.2, 1.7, 2.3])
def test_ctrl_c_at_any_moment_is_one_line(seconds: float, tmp_path: Path) -> None:
    """Python starts, typer and torch are loaded, the network is read, maps are computed and drawn."""
    with started(tmp_path, "explain", *[ss.example_photograph()] * 40) as process:
        # Before its own code runs, nothing of ours can answer.
        _wait_for_python(process.pid)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, "", "secondsight: interrupted\n")
    assert all(file.suffix == ".png" for file in tmp_path.rglob("*.*"))


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("library", ["typer", "rich", "torch"])
def test_ctrl_c_while_a_library_is_loaded_is_one_line(library: str, tmp_path: Path) -> None:
    """The library presses Ctrl-C itself, and takes the interrupt for an error of its own."""
    (tmp_path / f"{library}.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(10)\n"
        "except BaseException as error:\n"
        "    raise ImportError from error\n"
    )
    with started(tmp_path, "demo", PYTHONPATH=str(tmp_path)) as process:
        printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, "", "secondsight: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_that_python_drops_comes_again() -> None:
    """Python drops what a destructor raises, and goes on."""
    script = """
import time
from secondsight.interrupts import begin_work, leave_at_once

class Dropping:
    def __del__(self):
        raise KeyboardInterrupt

leave_at_once()
begin_work()
Dropping()
try:
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def _wait_for_python(pid: int) -> None:
    """Wait until Python catches the signal, and some more for the first lines of the package."""
    status = Path(f"/proc/{pid}/status")
    while status.exists() and not _caught(status.read_text()) & 1 << (signal.SIGINT - 1):
        time.sleep(0.005)
    time.sleep(0.3)


def _caught(status: str) -> int:
    return int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)


def test_a_terminal_without_the_character_shows_another_one(tmp_path: Path) -> None:
    path = tmp_path / "Käse 猫.jpg"
    Image.fromarray(skimage.data.chelsea()).save(path)
    done = subprocess.run(
        [str(COMMAND), "explain", path.name, "--method", "cafo"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"K?se ?.jpg" in done.stdout
    assert (tmp_path / "out" / "Käse 猫-cafo.png").exists()


@pytest.mark.parametrize("letter", ["a", "ä", "猫"])
def test_names_as_long_as_names_can_be(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stem = letter * ((255 - len(".jpg")) // len(letter.encode()))
    Image.fromarray(skimage.data.chelsea()).save(f"{stem}.jpg")
    assert main(["explain", f"{stem}.jpg", "--method", "cafo", "--format", "png,npz"]) == 0
    assert main(["compare", f"{stem}.jpg", "--methods", "cafo,gradient"]) == 0
    assert capsys.readouterr().err == ""
    written = sorted(path.name for path in Path("out").iterdir())
    assert len(written) == 3
    assert all(len(name.encode()) <= 255 and name.startswith(letter * 50) for name in written)
    (arrays,) = Path("out").glob("*.npz")
    assert ss.Explanation.load(arrays).label == "tiger cat"


@pytest.mark.parametrize("words", [["explain"], ["compare"], ["sweep"], ["demo"], ["models"], [], ["paper"]])
def test_help_is_readable_at_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(LINE_WIDTH))
    assert main([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= LINE_WIDTH
    assert not any("..." in line and "OPTION=VALUE" not in line and "Usage" not in line for line in lines)
    texts = [line.strip() for line in lines if line.startswith("      ") and not line.startswith("       ")]
    # A text of several lines fills them.
    full = [text for text, after in itertools.pairwise(texts) if after[:1].islower()]
    assert all(len(text) > 50 for text in full)


def test_limit_of_pixels_and_grey_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = (skimage.data.camera().astype(np.float64) / 255 * 4095).astype(np.uint16)
    Image.fromarray(levels).save("deep.png")
    assert main(["explain", "deep.png", "--method", "cafo", "--max-pixels", "262143"]) == 2
    assert "262,144 pixels, more than max_pixels = 262,143" in capsys.readouterr().err
    assert main(["explain", "deep.png", "--method", "cafo"]) == 0
    assert "value_range = (0, 4095)" in capsys.readouterr().out
    assert (
        main(
            [
                "explain",
                "deep.png",
                "--method",
                "cafo",
                "--value-range",
                "0,4095",
                "--max-pixels",
                "262144",
                "--overwrite",
            ]
        )
        == 0
    )
    assert "value_range" not in capsys.readouterr().out
    for bad in ("5", "a,b", "3,2", "0,nan"):
        assert main(["explain", "deep.png", "--value-range", bad]) == 2
        assert "--value-range must be" in capsys.readouterr().err


def test_a_note_of_all_methods_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(ss.example_photograph()), "--methods", "cafo,gradient,caso"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("the network sees the middle") == 1
    assert "  note: the network sees the middle 262 x 262 of the photograph's 451 x 300 pixels" in printed
