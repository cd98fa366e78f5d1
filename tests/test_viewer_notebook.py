"""The viewer in a real JupyterLab: after its cell has run, opened again, and in a notebook that is not trusted."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.browser import alike, launched, pixels, settle

import secondsight as ss

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("jupyterlab") is None, reason="JupyterLab is missing: pip install jupyterlab"),
]

CELL = "import secondsight as ss\n\ne = ss.explain(ss.load_model(), ss.example_photograph())\ne"

OPTIONS = ("--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--KernelManager.transport=ipc")
"""The kernel uses no TCP, because other users of this machine could connect to it."""

MOST_SECONDS = 120
"""Limit of the start of the server, and of one step in the browser. A busy machine may need much of it."""


class Notebook:
    """A notebook in a tab of JupyterLab. It records every request, and every error as a complaint."""

    def __init__(self, browser: Any, address: str) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page(viewport={"width": 1280, "height": 1100})
        self.page.set_default_timeout(1000 * MOST_SECONDS)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        # JupyterLab shows a kernel as idle before it is connected, and ignores cells that are run then.
        with self.page.expect_websocket(lambda socket: "/api/kernels/" in socket.url):
            self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")

    def check_that_the_slider_moves(self) -> None:
        """Drag the slider of the viewer to its end, and step back by a key. The photograph stays as it is."""
        frame = self.page.wait_for_selector(".jp-OutputArea-output iframe").content_frame()
        frame.wait_for_selector(".now:has-text('certified, gap')")
        slider = frame.locator(".path-slider")
        slider.scroll_into_view_if_needed()
        settle(frame)
        seen = [[pixels(frame, i) for i in range(3)]]
        box, last = slider.bounding_box(), int(slider.get_attribute("max"))
        self.page.mouse.move(box["x"] + box["width"] * int(slider.input_value()) / last, box["y"] + box["height"] / 2)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2, steps=6)
        self.page.mouse.up()
        for place in (last, last - 1):
            settle(frame)
            assert slider.input_value() == str(place)
            seen.append([pixels(frame, i) for i in range(3)])
            assert [alike(*both) for both in zip(*seen[-2:], strict=True)] == [True, False, False]
            self.page.keyboard.press("ArrowLeft")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and token of a server for the folder. It neither reads nor writes the settings of this user's Jupyter."""
    own, token = tmp_path_factory.mktemp("jupyter"), secrets.token_hex()
    places = {f"JUPYTER_{name}_DIR": str(own / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    (own / "CONFIG" / "labconfig").mkdir(parents=True)
    # Otherwise it would look for news and updates on the internet.
    disabled = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (own / "CONFIG" / "labconfig" / "page_config.json").write_text(json.dumps(disabled), "utf-8")
    env = os.environ | places | {"IPYTHONDIR": str(own / "ipython"), "JUPYTER_TOKEN": token}
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={folder}"]
    with (own / "log").open("wb") as log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as process:
        try:
            address, latest = None, time.monotonic() + MOST_SECONDS
            while address is None and process.poll() is None and time.monotonic() < latest:
                time.sleep(0.1)
                with suppress(FileNotFoundError, json.JSONDecodeError):
                    address = json.loads((own / "RUNTIME" / f"jpserver-{process.pid}.json").read_bytes())["url"]
            assert address is not None, (own / "log").read_text("utf-8")
            yield address, token
        finally:
            # The server ends its kernels, and then itself.
            process.terminate()


@pytest.fixture
def opened(server: tuple[str, str], folder: Path) -> Iterator[Callable[..., Notebook]]:
    """A function that opens a notebook. At the end, every request must have gone to the server, without an error."""
    address, token = server
    with launched() as browser:
        notebooks: list[Notebook] = []

        def open_notebook(name: str) -> Notebook:
            notebooks.append(Notebook(browser, f"{address}lab/tree/{name}?token={token}&reset"))
            return notebooks[-1]

        yield open_notebook
        for one in notebooks:
            assert [url for url in one.requests if not url.startswith((address, "data:", "blob:"))] == []
            assert one.complaints == []


def write_notebook(file: Path, *outputs: dict[str, Any]) -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": CELL, "outputs": outputs, "execution_count": None}
    kernel = {"name": "python3", "display_name": "Python 3"}
    whole = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(whole), "utf-8")


def test_a_cell_shows_the_viewer_now_and_when_it_is_opened_again(opened: Callable[..., Notebook], folder: Path) -> None:
    write_notebook(folder / "run.ipynb")
    one = opened("run.ipynb")
    one.page.click(".jp-Cell .cm-content")
    one.page.keyboard.press("Control+Enter")
    one.check_that_the_slider_moves()
    one.page.click(".jp-Cell .cm-content")
    with one.page.expect_response(lambda saved: saved.request.method == "PUT" and "run.ipynb" in saved.url):
        one.page.keyboard.press("Control+S")
    opened("run.ipynb").check_that_the_slider_moves()


def test_a_notebook_that_is_not_trusted_says_what_to_do(opened: Callable[..., Notebook], folder: Path) -> None:
    data = {"text/html": ss.explain(ss.load_model(), ss.example_photograph())._repr_html_()}
    write_notebook(folder / "other.ipynb", {"output_type": "display_data", "metadata": {}, "data": data})
    one = opened("other.ipynb")
    assert one.page.inner_text(".jp-OutputArea-output").startswith("The viewer is not shown here. Trust this notebook")
    one.page.keyboard.press("Control+Shift+C")
    one.page.fill(".lm-CommandPalette-input", "Trust Notebook")
    one.page.wait_for_selector(".lm-CommandPalette-item.lm-mod-active[data-command='notebook:trust']")
    one.page.keyboard.press("Enter")
    one.page.click(".jp-Dialog button:has-text('Trust')")
    one.check_that_the_slider_moves()
