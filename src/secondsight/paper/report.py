"""All findings on one page: the claim, what was measured, the verdict and the picture, in Markdown and in HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from secondsight.explanation import write_whole
from secondsight.paper.finding import Finding

STYLE = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em;line-height:1.5}img{max-width:100%}"
PARTS = ("where", "claim", "measured", "verdict")


def write_report(findings: Sequence[Finding], folder: Path) -> list[Path]:
    """report.md and report.html beside the pictures that they show."""
    files = [folder / "report.md", folder / "report.html"]
    for file, text in zip(files, (_markdown(findings), _html(findings)), strict=True):
        content = text.encode()
        write_whole(file, lambda stream, content=content: stream.write(content))  # type: ignore[misc]
    return files


def _markdown(findings: Sequence[Finding]) -> str:
    rows = [f"| [{f.name}](#{f.name}) | {f.where} | {f.verdict} |" for f in findings]
    table = ["| result | in the paper | verdict |", "|---|---|---|", *rows]
    parts = ["# The paper, measured anew", "\n".join(table)]
    for f in findings:
        words = [f"**{part.capitalize()}**: {getattr(f, part)}" for part in PARTS]
        parts += [f"## {f.name}", *words, f"![{f.name}]({f.name}.png)"]
    return "\n\n".join(parts) + "\n"


def _html(findings: Sequence[Finding]) -> str:
    parts = []
    for f in findings:
        words = "".join(f"<p><b>{part.capitalize()}</b>: {html.escape(getattr(f, part))}</p>" for part in PARTS)
        parts.append(f'<h2 id="{f.name}">{f.name}</h2>{words}<img src="{f.name}.png" alt="{f.name}">')
    rows = "".join(
        f'<tr><td><a href="#{f.name}">{f.name}</a></td><td>{html.escape(f.where)}</td><td>{f.verdict}</td></tr>'
        for f in findings
    )
    head = f'<meta charset="utf-8"><title>The paper, measured anew</title><style>{STYLE}</style>'
    table = f"<table><tr><th>result</th><th>in the paper</th><th>verdict</th></tr>{rows}</table>"
    body = f"<h1>The paper, measured anew</h1>{table}{''.join(parts)}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"
