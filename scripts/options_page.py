"""Write docs/options.md from the configs, so that the page says what the code does.

python scripts/options_page.py
"""

from __future__ import annotations

from pathlib import Path

from secondsight.config import METHODS, described

PAGE = Path(__file__).parents[1] / "docs" / "options.md"

HEAD = """# Options

Each method is a config, and owns its options. In Python an option is an argument of the config, `ss.CASO(c1=1)`. In a
string it stands in parentheses, `"caso(c1=1)"`. On the command line it is `--c1 1`. The classes for Captum take it in
their constructor. An option that a method does not have is an error that names the methods that have it.
`scripts/options_page.py` writes this page.
"""


def page() -> str:
    """Describe each option once, with the methods that have it."""
    parts = [HEAD, "\n| method | config |\n|---|---|\n"]
    parts += [f"| `{name}` | `{method.__name__}`: {summary(method)} |\n" for name, method in METHODS.items()]
    seen: set[str] = set()
    for method in METHODS.values():
        for name in method.options():
            if name in seen:
                continue
            seen.add(name)
            option, default = described(name, list(METHODS.values()))
            owners = [owner for owner, other in METHODS.items() if name in other.options()]
            whose = "all methods" if len(owners) == len(METHODS) else ", ".join(f"`{owner}`" for owner in owners)
            takes = f"Takes `{option.metavar}`. " if option.metavar else ""
            parts.append(f"\n## {name}\n\n{escaped(option.help)}\n\n{takes}Default: {default}. Of {whose}.\n")
    return "".join(parts)


def summary(method: type) -> str:
    """The first line of a config's docstring, for a cell of a table."""
    return escaped((method.__doc__ or "").splitlines()[0])


def escaped(text: str) -> str:
    """Keep bars and underscores of formulas from becoming markup."""
    return text.replace("|", "\\|").replace("_", "\\_")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
