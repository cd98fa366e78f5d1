"""How long the pages of the viewer take: from a step of the slider to new pixels on the screen, and to open.

    python -m bench.viewer [--json FILE]

In Chromium without a graphics card, at 1280 x 800 dots. A step ends when the browser begins the frame after the
one that has the new pixels. That they are new is checked. The report is of a thousand photographs: one again and again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table
from tests.browser import Tab, launched

import secondsight as ss
from bench import record
from bench.measure import console
from bench.page_tables import VIEWER
from bench.row import Figures
from secondsight.runs.run_report import save_report

STEPS = """async () => {
  const slider = document.querySelector(".path-slider");
  const canvas = document.querySelector(".picked canvas") ?? document.querySelectorAll(".frame canvas")[1];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const last = Number(slider.max);
  const walk = [...Array(last + 1).keys(), ...[...Array(last).keys()].reverse()];
  const found = [];
  let before = "";
  for (const k of walk) {
    slider.value = k;
    await frame();
    const start = performance.now();
    slider.dispatchEvent(new Event("input"));
    await frame();
    const drawn = performance.now();
    await frame();
    found.push([performance.now() - start, drawn - start]);
    const now = canvas.toDataURL();
    if (now === before) throw new Error(`step ${k} changed nothing`);
    before = now;
  }
  return found;
}"""
"""Goes through the path and back. Gives the milliseconds until the next frame, and until everything was drawn."""


def step_figures(browser: Any, page: Path) -> Figures:
    """Time the steps of the slider of a page."""
    tab = Tab(browser, page)
    # The first step also compiles the script.
    tab.page.evaluate(STEPS)
    steps = tab.page.evaluate(STEPS)
    tab.close()
    until_frame = sorted(step[0] for step in steps)
    return {
        "median": statistics.median(until_frame),
        "worst": until_frame[-1],
        "drawn": statistics.median(step[1] for step in steps),
        "steps": len(steps),
    }


def page_figures(browser: Any, page: Path) -> Figures:
    """Measure the bytes of a page, and the seconds until it has started and has drawn."""
    start = time.perf_counter()
    tab = Tab(browser, page)
    seconds = time.perf_counter() - start
    tab.close()
    return {"mb": page.stat().st_size / 1e6, "open": seconds}


def repeated(run: Any, folder: Path, count: int) -> Any:
    """Make a run of `count` items that has the rows of another one again and again.

    Args:
        run: the other run, of a single file.
        folder: where to.
        count: how many.
    """
    (folder / "maps").mkdir(parents=True)
    settings = json.loads((run.path / "run.json").read_text("utf-8"))
    settings["settings"] |= {"items": count, "chunk": count}
    (folder / "run.json").write_text(json.dumps(settings), "utf-8")
    table = pq.read_table(next((run.path / "maps").glob("*.parquet")))
    rows = [row for row in table.to_pylist() if row["error"] is None]
    with pq.ParquetWriter(folder / "maps" / "part-000000.parquet", table.schema) as writer:
        for start in range(0, count, 16):
            some = [
                rows[i % len(rows)] | {"position": i, "id": f"{i:04d}-{rows[i % len(rows)]['id']}"}
                for i in range(start, min(start + 16, count))
            ]
            writer.write_table(pa.Table.from_pylist(some, table.schema))
    return ss.open_run(folder)


def write_pages(folder: Path) -> dict[str, Path]:
    """Write the pages that are measured."""
    model, photograph = ss.load_model("efficientnet-lite0"), ss.example_photograph()
    pages = {name: folder / f"{name}.html" for name in VIEWER}
    ss.explain(model, photograph).save(pages["explain"])
    ss.compare(model, photograph, n=5).save(pages["compare"])
    run = ss.run(model, [photograph], "caso", out=folder / "run")
    save_report(repeated(run, folder / "many", 1000), pages["report"])
    return pages


def table(figures: dict[str, Figures]) -> Table:
    shown = Table("", "MB", "seconds to open", "ms, median", "ms, worst", title="the viewer")
    for name, words in VIEWER.items():
        one = figures[name]
        steps = [f"{one[key]:.0f}" if key in one else "" for key in ("median", "worst")]
        shown.add_row(words, f"{one['mb']:.2f}", f"{one['open']:.2f}", *steps)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        pages = write_pages(Path(folder))
        figures = {name: page_figures(browser, page) for name, page in pages.items()}
        for name in ("explain", "compare"):
            figures[name] |= step_figures(browser, pages[name])
    console.print(table(figures))
    record.write(arguments.json, "viewer", figures)


if __name__ == "__main__":
    main()
