"""Make the pictures of the documentation: the demo, the comparison of all methods, the contact sheet, and those of the
tutorial, by the tutorial's own lines.

python -m scripts.docs_images [NAME...]   # demo, compare, sheet, first-steps; by default all

The photographs come with secondsight and with scikit-image.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import skimage.data
from PIL import Image

import secondsight as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHEET = ("picture", "smooth-cafo", "caso", "smoothgrad")


def command(*words: str | Path) -> None:
    """Run a command of secondsight."""
    subprocess.run([Path(sys.executable).parent / "secondsight", *map(str, words)], check=True)


def demo() -> None:
    """The picture at the top of the README."""
    command("demo", "--out", IMAGES / "demo.png")
    smaller(IMAGES / "demo.png")


def compare() -> None:
    """All methods on one photograph."""
    with tempfile.TemporaryDirectory() as folder:
        command("compare", ss.example_photograph(), "--out", folder)
        made = Path(folder) / f"{ss.example_photograph().stem}-compared.png"
        shutil.move(made, IMAGES / "compare.png")
    smaller(IMAGES / "compare.png")


def sheet() -> None:
    """Some methods on four photographs."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("astronaut", "chelsea", "coffee", "rocket"):
            Image.fromarray(getattr(skimage.data, name)()).save(Path(folder) / f"{name}.png")
        command("compare", folder, "--methods", ",".join(SHEET), "--sheet", IMAGES / "sheet.png")
    smaller(IMAGES / "sheet.png")


def first_steps() -> None:
    """What the Python of the tutorial saves."""
    text = (IMAGES.parent / "first-steps.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile("".join(blocks), "first-steps.md", "exec"), {})
        for made in Path().glob("*.png"):
            shutil.move(made, IMAGES / "first-steps" / made.name)
    for file in (IMAGES / "first-steps").glob("*.png"):
        smaller(file, colours=128)


def main() -> None:
    """Make the pictures that are named."""
    (IMAGES / "first-steps").mkdir(exist_ok=True)
    makers = {"demo": demo, "compare": compare, "sheet": sheet, "first-steps": first_steps}
    for name in sys.argv[1:] or makers:
        makers[name]()


def smaller(file: Path, colours: int | None = None) -> None:
    """Take the time that a small file needs; with a palette of this many colours, if wanted."""
    with Image.open(file) as image:
        picture = image.convert("RGB")
    (picture if colours is None else picture.quantize(colours)).save(file, optimize=True)


if __name__ == "__main__":
    main()
