"""Make the pictures of the documentation: the demo, the comparison of all methods, and the contact sheet.

python scripts/docs_images.py

The photographs come with secondsight and with scikit-image.
"""

from __future__ import annotations

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


def main() -> None:
    """Write all pictures."""
    command("demo", "--out", IMAGES / "demo.png")
    with tempfile.TemporaryDirectory() as folder:
        command("compare", ss.example_photograph(), "--out", folder)
        made = Path(folder) / f"{ss.example_photograph().stem}-compared.png"
        made.replace(IMAGES / "compare.png")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("astronaut", "chelsea", "coffee", "rocket"):
            Image.fromarray(getattr(skimage.data, name)()).save(Path(folder) / f"{name}.png")
        command("compare", folder, "--methods", ",".join(SHEET), "--sheet", IMAGES / "sheet.png")
    for name in ("demo", "compare", "sheet"):
        smaller(IMAGES / f"{name}.png")


def smaller(file: Path) -> None:
    """Take the time that a small file needs."""
    with Image.open(file) as image:
        image.convert("RGB").save(file, optimize=True)


if __name__ == "__main__":
    main()
