"""Debian's Chromium, for tests, pictures and benchmarks that look at pages as a person does."""

from __future__ import annotations

import base64
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def chromium() -> str:
    """Find the browser. Without one, tests are skipped, but fail where `.ci/run` runs them."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        missing = "a browser is missing: apt-get install chromium"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return found


@contextmanager
def launched() -> Iterator[Any]:
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page in a window of its own, without a network. It notes every request and every complaint."""

    def __init__(self, browser: Any, file: Path, fragment: str = "", **window: Any) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        size = {"width": window.pop("width", 1280), "height": window.pop("height", 800)}
        self.context = browser.new_context(viewport=size, offline=True, accept_downloads=True, **window)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(f"{file.as_uri()}{fragment}")
        self.settle()

    def settle(self) -> None:
        settle(self.page)

    def pixels(self, number: int) -> NDArray[np.int16]:
        return pixels(self.page, number)

    def close(self) -> None:
        self.context.close()


def settle(page: Any) -> None:
    """Wait until a page, or a frame in a page, has started and has drawn twice."""
    page.evaluate(
        "() => Promise.resolve(window.viewer?.started).then("
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))"
    )


def pixels(page: Any, number: int) -> NDArray[np.int16]:
    """The colours of one canvas of the stage, in a page or in a frame."""
    uri = page.evaluate("(i) => document.querySelectorAll('.frame canvas')[i].toDataURL()", number)
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
        return np.asarray(picture.convert("RGB")).astype(np.int16)


def alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    """Whether two canvases show the same, up to how a browser rounds colours when it scales a picture."""
    return one.shape == other.shape and bool((np.abs(one - other) <= 2).all())
