"""Turn a report of `secondsight paper all` into docs/paper.md, its figures shrunk to a palette of 64 colours.

python scripts/paper_page.py REPORT_FOLDER INTRODUCTION.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"
WIDEST, COLOURS, MOST_BYTES = 1200, 64, 5_000_000


def main(report: Path, introduction: Path) -> None:
    text = (report / "report.md").read_text("utf-8")
    folder = DOCS / "paper"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for link in dict.fromkeys(re.findall(r"\]\(([^)#]+\.png)\)", text)):
        name = link.replace("/", "-")
        with Image.open(report / link) as figure:
            picture = figure.convert("RGB")
        picture.thumbnail((WIDEST, 10 * WIDEST))
        picture.quantize(COLOURS).save(folder / name, optimize=True)
        text = text.replace(f"({link})", f"(paper/{name})")
    title, _, rest = text.partition("\n")
    words = introduction.read_text("utf-8").strip()
    (DOCS / "paper.md").write_text(f"{title}\n\n{words}\n{rest}", "utf-8")
    total = sum(path.stat().st_size for path in folder.glob("*.png"))
    if total > MOST_BYTES:
        raise SystemExit(f"{total / 1e6:.1f} MB of figures are too much for the repository")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
