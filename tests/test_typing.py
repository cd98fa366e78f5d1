"""Users who type their own code: the README passes mypy in strict mode, and results have the type of their method."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"

TYPES = """
import torch
import secondsight as ss

model = ss.load_model()
reveal_type(ss.explain(model, "a.jpg"))
reveal_type(ss.explain(model, torch.rand(3, 8, 8), ss.SmoothCASO(n=3), target="cat"))
reveal_type(ss.explain(model, "a.jpg", "smooth-cafo"))
reveal_type(ss.explain(model, "a.jpg", ss.CAFO()))
reveal_type(ss.explain(model, "a.jpg", ss.Gradient()))
reveal_type(ss.explain(model, "a.jpg", "caso(c1=1)"))
reveal_type(ss.explain(model, ["a.jpg", "b.jpg"]))
reveal_type(ss.explain(model, ["a.jpg"], "cafo", target=[1]))
reveal_type(ss.explain(model, [torch.rand(3, 8, 8)], ss.SmoothGrad()))
reveal_type(ss.explain(model, (torch.rand(3), torch.rand(4))))
reveal_type(ss.explain(model, "a.jpg").certificate.holds)
reveal_type(ss.explain(model, "a.jpg", "picture"))
reveal_type(ss.explain(model, ["a.jpg"], ss.Picture()))
ss.explain(model, "a.jpg", ss.Gradient()).certificate
ss.CASO(c2=1)
ss.explain(model, "a.jpg", c1=1)
"""
REVEALED = [
    "SecondOrderExplanation",
    "SecondOrderExplanation",
    "SparseExplanation",
    "SparseExplanation",
    "Explanation",
    "Explanation",
    "list[SecondOrderExplanation]",
    "list[SparseExplanation]",
    "list[Explanation]",
    "SecondOrderExplanation",
    "bool",
    "PictureExplanation",
    "list[PictureExplanation]",
]
"""One for each `reveal_type`."""


def strict(file: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={file.parent}", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)
    return done.stdout + done.stderr


def test_the_readme_is_typed_and_results_have_the_type_of_their_method(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    file = tmp_path / "readme.py"
    file.write_text("\n".join(blocks), "utf-8")
    assert strict(file) == ""
    file.write_text(TYPES, "utf-8")
    lines = strict(file).splitlines()
    revealed = [re.sub(r"\b\w+\.", "", line.split('"')[1]) for line in lines if "Revealed type" in line]
    assert revealed == REVEALED
    wrong = {number for number, line in enumerate(TYPES.splitlines(), 1) if "reveal_type" not in line and number > 18}
    assert {int(line.split(":")[1]) for line in lines if "error:" in line} == wrong
