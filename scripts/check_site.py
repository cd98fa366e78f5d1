"""Look at a built site in a browser: screenshots of every page, and what must hold on each of them.

python -m scripts.check_site SITE [--screenshots DIR] [--only NAME]

Each page is opened as a file at 1280 and 390 pixels, light and dark. Nothing may be cut off or wider than the page, all
formulas must be rendered, and nothing may fail or be fetched from elsewhere. Search must find something from files and
over HTTP. axe must find no serious fault on five pages.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser import chromium, launched

WIDTHS = (1280, 390)
"""A laptop and a telephone."""

SCHEMES = ("light", "dark")

FIVE = ("index.html", "which-method.html", "first-steps.html", "mathematics.html", "reference/methods/caso.html")
"""The pages that axe reads: each has other things on it (pictures, tables, formulas, code, options)."""

SERIOUS = ("serious", "critical")
"""What axe calls faults that keep a person from using a page."""

WANTED = "eigenvalue"
"""A word that the pages have and that search must find."""

CUT_OFF = """() => {
  const width = document.documentElement.clientWidth, found = []
  if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways")
  const scrolls = (element) => element && (["auto", "scroll"].includes(getComputedStyle(element).overflowX)
    || scrolls(element.parentElement))
  for (const element of document.querySelectorAll(".md-content *")) {
    const box = element.getBoundingClientRect()
    const hidden = box.width <= 1 || box.height <= 1 || element.closest(".katex-mathml, svg")
    if (!hidden && box.right > width + 1 && !scrolls(element.parentElement))
      found.push(`<${element.localName}>${element.textContent.slice(0, 40)} ends at ${Math.round(box.right)}`)
  }
  for (const element of document.querySelectorAll(".arithmatex"))
    if (!element.querySelector(".katex") || element.querySelector(".katex-error"))
      found.push(`not rendered: ${element.textContent.slice(0, 60)}`)
  for (const image of document.images)
    if (image.complete && !image.naturalWidth) found.push(`no picture: ${image.src}`)
  return found.slice(0, 5)
}"""
"""What is cut off, in the words of a fault."""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder to this machine; gives the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def looked_at(browser: Any, site: Path, names: list[str], screenshots: Path | None) -> Iterator[str]:
    """Open every page in each width and scheme."""
    for scheme in SCHEMES:
        for width in WIDTHS:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            heard: list[str] = []
            page.on("pageerror", lambda error, heard=heard: heard.append(f"error: {error}"))
            page.on(
                "requestfailed",
                # A page that is left while something loads aborts that.
                lambda request, heard=heard: (
                    None if request.failure == "net::ERR_ABORTED" else heard.append(f"failed: {request.url}")
                ),
            )
            page.on(
                "request",
                lambda request, heard=heard: (
                    None
                    if request.url.startswith(("file:", "data:", "blob:"))
                    else heard.append(f"loads {request.url}")
                ),
            )
            for name in names:
                heard.clear()
                page.goto((site / name).as_uri())
                page.evaluate("document.fonts.ready")
                for fault in [*heard, *page.evaluate(CUT_OFF)]:
                    yield f"{name}, {width}, {scheme}: {fault}"
                if screenshots is not None:
                    file = screenshots / f"{width}-{scheme}" / f"{name.removesuffix('.html').replace('/', '.')}.png"
                    page.screenshot(path=file, full_page=True)
            context.close()


def searched(browser: Any, address: str) -> Iterator[str]:
    """Search from a page that is not the first one, and follow the first result."""
    page = browser.new_page()
    page.goto(f"{address}/how-to/memory.html")
    page.click("input.md-search__input")
    page.keyboard.type(WANTED)
    result = page.locator(".md-search-result__item a").first
    try:
        result.wait_for(timeout=60_000)
        found = result.get_attribute("href") or ""
        page.goto(found)
        if WANTED not in page.content():
            yield f"search at {address}: {found} has no {WANTED}"
    except Exception as error:
        yield f"search at {address} finds nothing: {error}"
    page.close()


def judged_by_axe(browser: Any, site: Path) -> Iterator[str]:
    """Let axe read five pages, light and dark."""
    from axe_playwright_python.sync_playwright import Axe

    for scheme in SCHEMES:
        page = browser.new_context(color_scheme=scheme).new_page()
        for name in FIVE:
            page.goto((site / name).as_uri())
            for fault in Axe().run(page).response["violations"]:
                if fault["impact"] in SERIOUS:
                    where = "; ".join(node["html"][:120] for node in fault["nodes"][:3])
                    yield f"{name}, {scheme}: axe: {fault['help']} ({len(fault['nodes'])} times): {where}"


def main() -> int:
    """Check the site that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--screenshots", type=Path, metavar="DIR")
    parser.add_argument("--only", metavar="NAME", help="pages whose address has this in it; no search, no axe")
    asked = parser.parse_args()
    site = asked.site.resolve()
    names = sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html"))
    # 404.html is for servers: its addresses begin at the root of a site.
    names = [name for name in names if name != "404.html" and (asked.only or "") in name]
    if chromium() is None:
        print("this needs chromium: apt-get install chromium", file=sys.stderr)
        return 2
    with launched() as browser, served(site) as address:
        found = list(looked_at(browser, site, names, asked.screenshots))
        if not asked.only:
            found += [*searched(browser, site.as_uri()), *searched(browser, address), *judged_by_axe(browser, site)]
    for fault in found:
        print(fault, file=sys.stderr)
    print(f"{len(names)} pages at {WIDTHS} pixels, {' and '.join(SCHEMES)}: {len(found)} faults")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
