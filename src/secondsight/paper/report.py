"""All findings on one page: the claim, what was measured, the verdict and the pictures, in Markdown and in HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from secondsight.paper.finding import Finding
from secondsight.results.storage import write_whole

TITLE = "The paper, measured anew"
"""The heading of both files."""

STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em;line-height:1.5}img{max-width:100%}"
    "th,td{text-align:left;padding-right:1.5em}"
)
"""The style of report.html: one readable column, with pictures no wider than the column. It is part of the file."""

PARTS = ("measured", "verdict")
"""The parts of a finding that are written for each network; the place in the paper and the claim are written once."""

Entry = tuple[Path, Finding]
"""A finding and the folder that it was written to."""


def write_report(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Write report.md and report.html. Each result is followed by the findings for each network.

    Args:
        entries: the findings with their folders, which lie in `folder`.
        folder: where the report goes.

    Returns:
        The two files.

    Raises:
        SecondsightError: if a file cannot be written.
    """
    groups = _grouped(entries, folder)
    files = [folder / "report.md", folder / "report.html"]
    for file, text in zip(files, (_markdown(groups), _html(groups)), strict=True):
        content = text.encode()
        write_whole(file, lambda stream, content=content: stream.write(content))  # type: ignore[misc]
    return files


def report_markdown(entries: Sequence[Entry], folder: Path) -> str:
    """Return the text of report.md.

    Args:
        entries: the findings with their folders, which lie in `folder`.
        folder: the folder that the links to the pictures start from.
    """
    return _markdown(_grouped(entries, folder))


def _grouped(entries: Sequence[Entry], folder: Path) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for place, finding in entries:
        groups.setdefault(finding.name, []).append((place.relative_to(folder), finding))
    return groups


def _pictures(place: Path, finding: Finding) -> list[str]:
    return [(place / name).as_posix() for name in finding.pictures]


def _verdicts(group: Sequence[Entry]) -> str:
    """List the verdict for each network, named by its folder."""
    return "; ".join(f"{place.name}: {f.verdict}" if place.name else f.verdict for place, f in group)


def _markdown(groups: dict[str, list[Entry]]) -> str:
    rows = [f"| [{name}](#{name}) | {group[0][1].where} | {_verdicts(group)} |" for name, group in groups.items()]
    table = ["| result | in the paper | verdict |", "|---|---|---|", *rows]
    parts = [f"# {TITLE}", "\n".join(table)]
    for name, group in groups.items():
        parts += [f"## {name}", f"**Where**: {group[0][1].where}", f"**Claim**: {group[0][1].claim}"]
        for place, f in group:
            parts += [f"**{part.capitalize()}**: {getattr(f, part)}" for part in PARTS]
            parts += [f"![{name}]({picture})" for picture in _pictures(place, f)]
    return "\n\n".join(parts) + "\n"


def _html(groups: dict[str, list[Entry]]) -> str:
    parts = []
    for name, group in groups.items():
        first = group[0][1]
        parts.append(f'<h2 id="{name}">{name}</h2>{_paragraph("where", first.where)}{_paragraph("claim", first.claim)}')
        for place, f in group:
            parts += [_paragraph(part, getattr(f, part)) for part in PARTS]
            parts += [f'<img src="{html.escape(picture)}" alt="{name}">' for picture in _pictures(place, f)]
    rows = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td><td>{html.escape(group[0][1].where)}</td>'
        f"<td>{html.escape(_verdicts(group))}</td></tr>"
        for name, group in groups.items()
    )
    head = f'<meta charset="utf-8"><title>{TITLE}</title><style>{STYLE}</style>'
    table = f"<table><tr><th>result</th><th>in the paper</th><th>verdict</th></tr>{rows}</table>"
    return (
        f"<!doctype html><html lang=en><head>{head}</head><body><h1>{TITLE}</h1>{table}{''.join(parts)}</body></html>\n"
    )


def _paragraph(part: str, words: str) -> str:
    return f"<p><b>{part.capitalize()}</b>: {html.escape(words)}</p>"
