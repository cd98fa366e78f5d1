"""The measured figures on the pages: they come from bench/figures.json, and none is written by hand.

    python -m bench.publish                 # write the figures into the pages
    python -m bench.publish --check         # change nothing; list every place that disagrees, and exit with 1
    python -m bench.publish --take FILE...  # take what commands wrote with --json into bench/figures.json, then write

A page says in comments, which no reader sees, where a figure comes from and how it is formatted:

    CASO costs <!-- figure run.resnet50.caso.ge .1f -->5.3<!-- /figure --> gradients.

    <!-- table run.resnet50 -->
    <!-- /table -->

The check also finds what looks like a measured figure outside of these comments: a number in g.e., seconds or bytes. A
line that ends in `<!-- by hand: REASON -->` may have one: a figure of the paper, a limit, an experiment of the past.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import figures
from bench.page_tables import table

ROOT = Path(__file__).parents[1]
PLACES = re.compile(
    r"^(?P<fence> *```).*?^(?P=fence) *$"
    r"|(?P<code>`[^`\n]+`)"
    r"|(?P<figure><!-- figure (?P<key>\S+)(?: (?P<format>\S+))? -->)(?P<shown>.*?)<!-- /figure -->"
    r"|(?P<table><!-- table (?P<name>\S+) -->\n)(?P<rows>.*?)<!-- /table -->",
    re.DOTALL | re.MULTILINE,
)
"""What is no plain text: code, which is left alone, and the two kinds of markers."""
BY_HAND = re.compile(r"<!-- by hand: \S.*?-->")
MARKER = re.compile(r"<!-- /?(?:figure|table|by hand)\b.*?(?:-->|$)", re.MULTILINE)
MEASURED = re.compile(
    r"(?<![\w.])\d[\d.,]*\s*(?:g\.e\.|(?:m?s|milliseconds?|seconds?|minutes?|hours?|[KMG]i?B|(?:kilo|mega|giga)bytes?"
    r"|gradients|times\s+as\s+(?:long|much|fast|slow)|times\s+one\s+gradient)\b)"
)
"""A number with a unit that only measuring gives."""


@dataclass(frozen=True)
class Finding:
    """A place of a page that is wrong."""

    line: int
    text: str


def pages(root: Path) -> list[Path]:
    """The pages that quote figures. The reference quotes none: it is made from the code, limits and all."""
    docs = root / "docs"
    written = [page for page in sorted(docs.rglob("*.md")) if docs / "reference" not in page.parents]
    return [root / "README.md", root / "bench" / "README.md", *written]


def value(data: figures.Data, place: re.Match[str]) -> str:
    """What the data has for a marker.

    Raises:
        KeyError: if it has nothing.
        ValueError: if the format does not fit.
    """
    if place["table"]:
        return f"\n{table(data, place['name'])}\n\n"
    found = figures.lookup(data, place["key"])
    if isinstance(found, dict):
        raise KeyError(place["key"])
    return format(found, place["format"] or "")


def rewritten(text: str, data: figures.Data) -> str:
    """The page with the figures of the data. A marker without data stays as it is."""

    def filled(place: re.Match[str]) -> str:
        opening = place["figure"] or place["table"]
        if opening is None:
            return place[0]
        try:
            return f"{opening}{value(data, place)}<!-- /{'figure' if place['figure'] else 'table'} -->"
        except (KeyError, ValueError):
            return place[0]

    return PLACES.sub(filled, text)


def findings(text: str, data: figures.Data) -> Iterator[Finding]:
    """Everything on a page that disagrees with the data or is outside of it."""
    for place in PLACES.finditer(text):
        if place["figure"] or place["table"]:
            yield from _wrong(text, place, data)
    # What is left is plain text, in which a number and a unit are never joined across a place.
    plain = PLACES.sub(lambda place: re.sub(r"[^\n]", "\0", place[0]), text)
    for marker in MARKER.finditer(plain):
        if not BY_HAND.match(marker[0]):
            yield Finding(_line(plain, marker.start()), f"{marker[0]} is not closed, or has no reason")
    lines = plain.splitlines()
    for match in MEASURED.finditer(plain):
        first, last = _line(plain, match.start()), _line(plain, match.end())
        if not any(BY_HAND.search(line) for line in lines[first - 1 : last]):
            yield Finding(first, f'says "{" ".join(match[0].split())}" outside of any marker')


def _wrong(text: str, place: re.Match[str], data: figures.Data) -> Iterator[Finding]:
    """What is wrong with one marker."""
    line = _line(text, place.start())
    key = place["key"] or f"table {place['name']}"
    if place["figure"] and text[: place.start()].rpartition("\n")[2].strip() == "":
        yield Finding(line, f"{key}: a line cannot begin with a marker, because Markdown would end the paragraph there")
    shown = place["shown"] if place["figure"] else place["rows"]
    try:
        right = value(data, place)
    except KeyError as error:
        yield Finding(line, f"{key}: bench/figures.json has no {error.args[0]}")
    except ValueError as error:
        yield Finding(line, f"{key}: {error}")
    else:
        yield from _differences(line, key, shown, right)


def _differences(line: int, key: str, shown: str, right: str) -> Iterator[Finding]:
    """Compare what a page shows with what it should show, row by row where it has as many rows."""
    ours, theirs = shown.splitlines(), right.splitlines()
    if len(ours) != len(theirs):
        yield Finding(line, f"{key}: says {len(ours)} lines, the data says {len(theirs)}")
        return
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            yield Finding(line + number + (len(ours) > 1), f"{key}: says {one.strip()}, the data says {other.strip()}")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check(root: Path, data: figures.Data) -> list[str]:
    """One line for each finding on each page."""
    return [
        f"{page.relative_to(root)}:{finding.line}: {finding.text}"
        for page in pages(root)
        for finding in sorted(findings(page.read_text("utf-8"), data), key=lambda finding: finding.line)
    ]


def publish(root: Path, data: figures.Data) -> None:
    """Write the figures into the pages."""
    for page in pages(root):
        before = page.read_text("utf-8")
        after = rewritten(before, data)
        if after != before:
            page.write_text(after, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--check", action="store_true", help="change nothing")
    actions.add_argument("--take", type=Path, nargs="+", default=[], metavar="FILE", help="what commands wrote")
    arguments = parser.parse_args()
    data = figures.read()
    for file in arguments.take:
        data = figures.take(data, json.loads(file.read_text("utf-8")))
    if arguments.take:
        figures.write(data)
    if not arguments.check:
        publish(ROOT, data)
    found = check(ROOT, data)
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
