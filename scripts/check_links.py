"""Check a built site: every link leads to a file and an anchor that exist, and no page loads anything from elsewhere.

python -m scripts.check_links SITE
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ELSEWHERE = re.compile(r"(?:[a-z][a-z+.-]*:)?//|(?:mailto|javascript):", re.IGNORECASE)
IN_A_STYLE_SHEET = re.compile(r"""(?:url\(|@import\s*)\s*["']?([^"')\s]+)""")


class Page(HTMLParser):
    """The links of a page, what it makes a browser fetch, its anchors and its words."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the anchor of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        addresses = [given[name] for name in ("src", "href", "data", "poster") if name in given]
        addresses += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        if tag == "a" or given.get("rel") in ("canonical", "next", "prev"):
            self.links += addresses
        else:
            self.fetched += addresses

    def handle_data(self, data: str) -> None:
        """Keep the words."""
        self.text.append(data)


def faults(site: Path) -> list[str]:
    """List what is wrong with the links of a built site, page by page."""
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for address in page.fetched:
            if ELSEWHERE.match(address):
                found.append(f"{name} loads {address}")
        for address in [*page.links, *page.fetched]:
            if not ELSEWHERE.match(address) and not address.startswith("data:"):
                found += [f"{name}: {fault}" for fault in _broken(site, file, address, pages)]
    for sheet in sorted(site.rglob("*.css")):
        for address in IN_A_STYLE_SHEET.findall(sheet.read_text("utf-8")):
            if ELSEWHERE.match(address):
                found.append(f"{sheet.relative_to(site)} loads {address}")
            elif not address.startswith(("data:", "#")) and not (sheet.parent / urlsplit(address).path).exists():
                found.append(f"{sheet.relative_to(site)}: there is no {address}")
    return found


def _broken(site: Path, file: Path, address: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(address)
    base = site if parts.path.startswith("/") else file.parent
    target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        yield f"there is no {address}"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        yield f"{target.name} has no anchor #{parts.fragment}"


def main() -> int:
    """Print the faults of the site that is named."""
    site = Path(sys.argv[1])
    found = faults(site)
    for fault in found:
        print(fault, file=sys.stderr)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(found)} faults")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
