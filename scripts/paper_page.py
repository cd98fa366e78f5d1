"""Turn a report of `secondsight paper all` into docs/paper.md, its figures shrunk to a palette of 64 colours.

python scripts/paper_page.py REPORT_FOLDER INTRODUCTION.md
python scripts/paper_page.py REPORT_FOLDER --only NAME  # one result, of every network that has it there; the rest stays
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from secondsight.paper.finding import Finding
from secondsight.paper.report import report_markdown

DOCS = Path(__file__).parents[1] / "docs"
WIDEST, COLOURS, MOST_BYTES = 1200, 64, 6_000_000


def main(report: Path, introduction: Path) -> None:
    """Write the whole page."""
    for old in (DOCS / "paper").glob("*.png"):
        old.unlink()
    title, _, rest = with_figures((report / "report.md").read_text("utf-8"), report).partition("\n")
    words = introduction.read_text("utf-8").strip()
    (DOCS / "paper.md").write_text(f"{title}\n\n{words}\n{rest}", "utf-8")


def only(report: Path, name: str, widest: int = WIDEST) -> None:
    """Replace one result on the page: its verdicts, its section and its figures."""
    files = sorted(report.glob(f"*/{name}.json"))
    if not files:
        raise SystemExit(f"{report} has no {name}.json of any network")
    for old in [*(DOCS / "paper").glob(f"*-{name}.png"), *(DOCS / "paper").glob(f"*-{name}-[0-9].png")]:
        old.unlink()
    new = with_figures(report_markdown([(file.parent, finding(file)) for file in files], report), report, widest)
    page = (DOCS / "paper.md").read_text("utf-8")
    for part in (rf"^\| \[{name}\]\(.*\n", rf"^## {name}\n(?:(?!## ).*\n)*"):
        (text,) = re.findall(part, new, re.MULTILINE)
        # The last section of a page has no empty line after it.
        text = text.rstrip("\n") + ("\n\n" if text.startswith("## ") else "\n")
        page, replaced = re.subn(part, lambda _, text=text: text, page, flags=re.MULTILINE)
        if replaced != 1:
            raise SystemExit(f"docs/paper.md has {replaced} places for {name}, not one")
    (DOCS / "paper.md").write_text(page.rstrip("\n") + "\n", "utf-8")


def finding(file: Path) -> Finding:
    """Read the words of a result again. Its figures lie beside it, so that only their number matters."""
    words = json.loads(file.read_text("utf-8"))
    pictures = [file.with_suffix(".png"), *file.parent.glob(f"{file.stem}-[0-9].png")]
    return Finding(**words | {"numbers": {}}, figures=[Figure() for _ in pictures])


def with_figures(text: str, report: Path, widest: int = WIDEST) -> str:
    """Shrink the figures of a report into docs/paper, and let its links lead there."""
    folder = DOCS / "paper"
    folder.mkdir(exist_ok=True)
    for link in dict.fromkeys(re.findall(r"\]\(([^)#]+\.png)\)", text)):
        name = link.replace("/", "-")
        with Image.open(report / link) as figure:
            picture = figure.convert("RGB")
        picture.thumbnail((widest, 10 * widest))
        picture.quantize(COLOURS).save(folder / name, optimize=True)
        text = text.replace(f"({link})", f"(paper/{name})")
    total = sum(path.stat().st_size for path in folder.glob("*.png"))
    if total > MOST_BYTES:
        raise SystemExit(f"{total / 1e6:.1f} MB of figures are too much for the repository")
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("introduction", type=Path, nargs="?")
    what.add_argument("--only", metavar="NAME")
    parser.add_argument("--widest", type=int, default=WIDEST, help="with --only: pixels of the widest figure")
    arguments = parser.parse_args()
    if arguments.only:
        only(arguments.report, arguments.only, arguments.widest)
    else:
        main(arguments.report, arguments.introduction)
