"""Take a picture of each state of the viewer and of the report, to be looked at.

python scripts/viewer_screenshots.py [FOLDER]

The pictures go to out/viewer, unless another folder is named. The photographs come with secondsight and scikit-image.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import skimage.data
import torch
from PIL import Image
from tests.browser import Tab, launched

import secondsight as ss
from secondsight.runs.run_report import save_report

OUT = Path(__file__).parents[1] / "out" / "viewer"
NARROW: dict[str, Any] = {"width": 390, "height": 844}

STATES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "caso": ("caso", "", {}),
    "caso-dark": ("caso", "", {"color_scheme": "dark"}),
    "caso-narrow": ("caso", "", NARROW),
    "caso-not-chosen": ("caso", "#point=8", {}),
    "caso-zoomed-sign": ("caso", "#zoom=6&x=0.5&y=0.75&signed=true", {}),
    "caso-viridis-half": ("caso", "#colours=viridis&opacity=0.5", {}),
    "picture": ("picture", "", {}),
    "picture-entries": ("picture", "#kind=entries", {}),
    "picture-sign-light": ("picture", "#signed=true&signedColours=RdBu_r", {}),
    "picture-dark-narrow": ("picture", "", {**NARROW, "color_scheme": "dark"}),
    "superpixels": ("superpixels", "", {}),
    "uncertified": ("uncertified", "", {}),
    "compared": ("compared", "", {}),
    "compared-maps-dark": ("compared", "#shows=map", {"color_scheme": "dark"}),
    "compared-one": ("compared", "#all=false&method=1", {}),
    "compared-narrow": ("compared", "", NARROW),
    "table": ("table", "", {}),
    "notebook": ("notebook", "", {"width": 1000, "height": 1800}),
    "report": ("report", "", {}),
    "report-dark": ("report", "", {"color_scheme": "dark"}),
    "report-narrow": ("report", "", NARROW),
    "report-open": ("report", "#item=0", {}),
    "report-open-narrow": ("report", "#item=0", NARROW),
}
"""Each state: the page, the fragment of its address, and the window."""


def write_pages(folder: Path) -> None:
    """Write the pages that are photographed."""
    model, photograph = ss.load_model("efficientnet-lite0"), ss.example_photograph()
    methods = {
        "caso": ss.CASO(),
        "picture": ss.Picture(),
        "superpixels": ss.CASO(groups="superpixels"),
        "uncertified": ss.CASO(max_products=2),
    }
    found = {name: ss.explain(model, photograph, method) for name, method in methods.items()}
    for name, e in found.items():
        e.save(folder / f"{name}.html")
    ss.compare(model, photograph, n=5).save(folder / "compared.html")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3))
    ss.explain(ss.Classifier(net, input_shape=(30,)), torch.randn(30)).save(folder / "table.html")
    cells = "<hr>".join(found[name]._repr_html_() for name in ("caso", "picture"))
    (folder / "notebook.html").write_text(f"<!doctype html><title>notebook</title>{cells}", "utf-8")
    source = folder / "photographs"
    source.mkdir()
    for name in ("astronaut", "cat", "chelsea", "coffee", "rocket"):
        Image.fromarray(getattr(skimage.data, name)()).save(source / f"{name}.png")
    (source / "broken.jpg").write_bytes(b"no picture")
    run = ss.run(model, source, "caso", out=folder / "run", store_path=True)
    save_report(run, folder / "report.html")


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, launched() as browser:
        folder = Path(name)
        write_pages(folder)
        for state, (page, fragment, window) in STATES.items():
            tab = Tab(browser, folder / f"{page}.html", fragment, **window)
            tab.page.wait_for_timeout(400)
            tab.page.screenshot(path=out / f"{state}.png", full_page="#item" not in fragment)
            for complaint in tab.complaints:
                raise RuntimeError(f"{state}: {complaint}")
            tab.close()


if __name__ == "__main__":
    main()
