"""Run the notebooks of examples/ and write them with what they show to docs/examples/.

python -m scripts.notebook_pages [NAME...]          # by default all
python -m scripts.notebook_pages --check [NAME...]  # write nothing; exit with 1 if a page says something else
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbclient
from jupyter_client import KernelManager
from PIL import Image

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "examples"
COLOURS, WIDEST = 128, 1200
"""Figures have few colours beside the photograph, and no page is wider. That keeps the files small."""

FOOT = """
---

`jupytext --to ipynb examples/{name}.py` makes this page a notebook. Python runs the file as it is.
"""


def run(example: Path) -> Any:
    """Run a notebook in a kernel of its own, in an empty folder."""
    notebook = jupytext.read(example)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        # Not over TCP, where others on this machine could read along.
        kernel = KernelManager(kernel_name="python3", transport="ipc", ip=str(Path(folder) / "kernel"))
        try:
            nbclient.NotebookClient(notebook, kernel, timeout=300, coalesce_streams=True, resources=resources).execute()
        finally:
            kernel.shutdown_kernel(now=True)
    return notebook


def page(notebook: Any, name: str) -> tuple[str, list[bytes]]:
    """Write a notebook as Markdown. Returns the text, and the pictures in the order in which it shows them."""
    parts, pictures = [], []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                raise RuntimeError(output["evalue"])
            if output.get("name") == "stderr":
                # Warnings of other libraries name files of this machine.
                continue
            shown = output.get("data", {})
            if "image/png" in shown:
                pictures.append(base64.b64decode(shown["image/png"]))
                heading = [line for line in "\n".join(parts).splitlines() if line.startswith("#")][-1].lstrip("# ")
                parts.append(f"![What the lines above show: {heading}]({name}-{len(pictures)}.png)")
            else:
                parts.append(f"```text\n{(output.get('text') or shown['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n" + FOOT.format(name=name), pictures


def source_only(text: str) -> list[str]:
    """The lines of a page that come from the notebook itself, and not from running it."""
    kept, output = [], False
    for line in text.splitlines():
        output = line == "```text" or (output and line != "```")
        if not output and line not in ("", "```") and not line.startswith("!["):
            kept.append(line)
    return kept


def fault(name: str, text: str, pictures: list[bytes]) -> str:
    """Say how the page that is there differs. Numbers may differ in their last digits from machine to machine."""
    file = PAGES / f"{name}.md"
    if not file.exists() or source_only(file.read_text("utf-8")) != source_only(text):
        return f"{file.name} does not say what the notebook says"
    if len(list(PAGES.glob(f"{name}-*.png"))) != len(pictures):
        return f"{file.name} has another number of pictures than the notebook"
    return ""


def write(name: str, text: str, pictures: list[bytes]) -> None:
    """Write a page and its pictures."""
    for old in PAGES.glob(f"{name}-*.png"):
        old.unlink()
    for number, picture in enumerate(pictures, 1):
        with Image.open(io.BytesIO(picture)) as image:
            small = image.convert("RGB")
        small.thumbnail((WIDEST, 10 * WIDEST))
        small.quantize(COLOURS).save(PAGES / f"{name}-{number}.png", optimize=True)
    (PAGES / f"{name}.md").write_text(text, "utf-8")


def main() -> int:
    """Write or check the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    found = ""
    for name in asked.names or sorted(file.stem for file in EXAMPLES.glob("*.py")):
        made = page(run(EXAMPLES / f"{name}.py"), name)
        if not asked.check:
            write(name, *made)
        elif wrong := fault(name, *made):
            print(f"{wrong}: run python -m scripts.notebook_pages {name}", file=sys.stderr)
            found = wrong
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
