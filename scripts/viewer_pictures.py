"""Make the pictures of the viewer at the top of the README: the slider as an animation, and methods side by side.

python -m scripts.viewer_pictures

It needs a browser: the extra `browser`, and Chromium. The photograph comes with secondsight.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from tests.browser import Tab, launched

import secondsight as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES = 2_000_000
STEP, PAUSE = 160, 1400
"""Milliseconds of a map, and of the chosen one."""
MARGIN = 14


def picture(tab: Tab) -> Image.Image:
    """Photograph the page down to the curves below the slider."""
    tab.settle()
    box = tab.page.locator(".walk").bounding_box()
    clip = {"x": 0, "y": 0, "width": tab.page.viewport_size["width"], "height": box["y"] + box["height"] + MARGIN}
    return Image.open(io.BytesIO(tab.page.screenshot(clip=clip, full_page=True))).convert("RGB")


def animation(browser: Any, page: Path) -> None:
    """Walk the slider to the densest map, to the sparsest, and back to the chosen one."""
    tab = Tab(browser, page, width=1080, height=760)
    slider = tab.page.locator(".path-slider")
    chosen, last = int(slider.input_value()), int(slider.get_attribute("max"))
    walk = [chosen, *range(chosen + 1, last + 1), *range(last - 1, -1, -1), *range(1, chosen)]
    frames = []
    for k in walk:
        tab.page.evaluate("(k) => viewer.set({ point: k })", k)
        frames.append(picture(tab))
    tab.close()
    times = [PAUSE, *[STEP] * (len(frames) - 1)]
    file = IMAGES / "viewer.webp"
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=78, method=6)
    if file.stat().st_size >= MOST_BYTES:
        raise RuntimeError(f"{file} has {file.stat().st_size:,} bytes: too many for the top of a page")


def main() -> None:
    model, photograph = ss.load_model("efficientnet-lite0"), ss.example_photograph()
    with tempfile.TemporaryDirectory() as name, launched() as browser:
        folder = Path(name)
        ss.explain(model, photograph, "picture").save(folder / "picture.html")
        animation(browser, folder / "picture.html")
        ss.compare(model, photograph, n=16).save(folder / "compared.html")
        tab = Tab(browser, folder / "compared.html", "#opacity=0.9", color_scheme="dark", device_scale_factor=1.5)
        picture(tab).save(IMAGES / "viewer-compared.webp", quality=82, method=6)
        tab.close()


if __name__ == "__main__":
    main()
