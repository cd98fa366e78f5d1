"""What a start imports: heavy packages only where they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from secondsight.version import __version__

HEAVY = ("torch", "matplotlib", "captum", "scipy", "numpy", "PIL")


def imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import secondsight",
        "import secondsight as ss; ss.CASO(c1=1, groups='pixel'); dir(ss)",
        "from secondsight.cli import main; main(['--help'])",
        "from secondsight.cli import main; main(['explain', '--help'])",
        "from secondsight.cli import main; main(['--version'])",
    ],
)
def test_what_needs_no_network_imports_nothing_heavy(code: str) -> None:
    assert imported(code) & set(HEAVY) == set()


def test_a_map_needs_neither_captum_nor_matplotlib() -> None:
    code = """
import secondsight as ss, torch
ss.explain(ss.Classifier(torch.nn.Linear(4, 3), input_shape=(4,)), torch.ones(4))
"""
    found = imported(code)
    assert found & {"matplotlib", "captum", "scipy"} == set()
    assert "torch" in found


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "secondsight", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"secondsight {__version__}\n", "")


def test_a_name_that_is_not_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import secondsight; secondsight.explian"], capture_output=True, text=True, check=False
    )
    assert "module 'secondsight' has no attribute 'explian'" in done.stderr
