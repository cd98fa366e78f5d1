"""Write docs/reference/ from the code, so that the pages say what the code does.

python -m scripts.reference_pages          # write the pages, and remove those that are no more
python -m scripts.reference_pages --check  # change nothing; list the pages that are stale, and exit with 1

Signatures, options and defaults come from the configs and from the command line; words, formulas and examples come from
docstrings, which mkdocstrings puts into the pages when the site is built.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from scripts.reference_index import ERRORS, FUNCTIONS, METHOD, OPERATORS, RESULTS, Entry

from secondsight.cli import command_for
from secondsight.config import METHODS, Method, described
from secondsight.option_types import flag

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

CONFIGS = """```python
import secondsight as ss

method = ss.CASO(c1=1, groups="patch:8")
assert method == ss.Method.from_string("caso(c1=1,groups=patch:8)") == ss.Method.from_json(method.to_json())
print(repr(method), str(method))
```
"""
"""A config in its three forms."""

Pages = dict[str, str]
"""Texts of pages by their paths below docs/reference."""


def pages() -> Pages:
    """Make all pages."""
    made = {f"methods/{name}.md": method_page(method) for name, method in METHODS.items()}
    made["methods/index.md"] = options_page()
    made["methods/method.md"] = object_page(METHOD)
    for folder, entries in (("functions", FUNCTIONS), ("results", RESULTS), ("operators", OPERATORS)):
        made |= {f"{folder}/{entry.file}.md": object_page(entry) for entry in entries}
    made |= {f"commands/{name}.md": command_page(name) for name in command_for([]).commands}
    made["captum.md"], made["errors.md"] = captum_page(), errors_page()
    made["quantus.md"] = object_page(Entry("Quantus", "secondsight.quantus.explain_func"))
    made["index.md"] = index_page()
    return {name: text.rstrip("\n") + "\n" for name, text in made.items()}


def method_page(method: type[Method]) -> str:
    """Describe a config: its string, its signature and each of its options. The docstring has formula and example."""
    parts = [
        object_of(f"secondsight.config.{method.__name__}", signature=False),
        f"## Signature\n\n```text\n{signature(method)}\n```\n",
        f'As a string: `"{method.name}"`. On the command line: `secondsight explain PHOTO --method {method.name}`.\n',
        "## Options\n",
    ]
    for name in method.options():
        parts.append(f"### {name}\n\n{option_words(name, [method])}\n")
    return "\n".join(parts)


def signature(method: type[Method]) -> str:
    """Write what Python takes, one option a line."""
    lines = [f"    {name}={default!r}," for name, default in method.defaults().items()]
    return "\n".join([f"ss.{method.__name__}(", "    *,", *lines, ")"])


def option_words(name: str, owners: list[type[Method]]) -> str:
    """Say what an option does, what it takes and what it is by default, from its declaration."""
    option, default = described(name, owners)
    takes = "`True|False`" if option.check is flag else f"`{option.metavar}`"
    return f"{escaped(option.help)}\n\nTakes {takes}. Default: {escaped(str(default))}."


def options_page() -> str:
    """Describe all methods in a table, and each option once, with the methods that have it."""
    parts = [
        "# Methods and options\n",
        "Each method is a config, and owns its options. In Python an option is an argument of the config, "
        '`ss.CASO(c1=1)`. In a string it stands in parentheses, `"caso(c1=1)"`. On the command line it is `--c1 1`. '
        "The classes for Captum take it in their constructor. An option that a method does not have is an error that "
        "names the methods that have it.\n",
        "Configs compare, print as Python that can be pasted, and go to JSON and back. `str` gives the short string "
        "that the command line takes. Every config is a [`Method`](method.md).\n",
        CONFIGS,
        "| method | config | what it is |\n|---|---|---|",
    ]
    for name, method in METHODS.items():
        parts[-1] += f"\n| `{name}` | [`{method.__name__}`]({name}.md) | {escaped(summary(method))} |"
    parts[-1] += "\n"
    names = list(dict.fromkeys(option for method in METHODS.values() for option in method.options()))
    for option in names:
        owners = [name for name, method in METHODS.items() if option in method.options()]
        links = "all methods" if len(owners) == len(METHODS) else ", ".join(f"[`{o}`]({o}.md)" for o in owners)
        parts.append(f"## {option}\n\n{option_words(option, list(METHODS.values()))} Of {links}.\n")
    return "\n".join(parts)


def object_page(entry: Entry) -> str:
    """Make the page of a class or a function; what it says is in docstrings."""
    return "\n".join([object_of(entry.path, entry.members), entry.more])


def object_of(path: str, members: str = "false", level: int = 1, signature: bool = True) -> str:
    """Let mkdocstrings describe an object below a heading of this level, and some of its members."""
    options = {
        "heading_level": level,
        "members": members,
        "show_signature": str(signature).lower(),
        "separate_signature": str(signature).lower(),
        "show_bases": "false",
    }
    lines = "\n".join(f"      {name}: {value}" for name, value in options.items())
    return f"::: {path}\n    options:\n{lines}\n"


def command_page(name: str) -> str:
    """Describe a command, from what `--help` prints."""
    command: Any = command_for([name]).commands[name]
    parts = [f"# secondsight {name}\n", *command_parts(command, f"secondsight {name}", 2)]
    for inner, one in getattr(command, "commands", {}).items():
        parts += [f"## {inner}\n", *command_parts(one, f"secondsight {name} {inner}", 3)]
    return "\n".join(parts)


def command_parts(command: Any, words: str, level: int) -> Iterator[str]:
    """Usage, what the command does, an example, and its arguments and options with their help."""
    context = command.make_context(words, [], resilient_parsing=True)
    yield f"```text\nUsage: {words} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield escaped(inspect.cleandoc(command.help or "")) + "\n"
    if command.epilog:
        yield f"```sh\n{command.epilog.removeprefix('Example: ')}\n```\n"
    panels: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            panel = "Options" if isinstance(parameter, typer.core.TyperOption) else "Arguments"
            # A default that is given in words has parentheses of its own.
            words = re.sub(r"\[default: \((.*?)\)(; .*?)?\]$", r"[default: \1\2]", record[1])
            entry = f"`{record[0].partition(' <')[0]}`\n:   {escaped(words)}\n"
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or panel, []).append(entry)
    for panel, entries in panels.items():
        yield f"{'#' * level} {panel}\n" if level == 2 else f"**{panel}**\n"
        yield "\n".join(entries)


def captum_page() -> str:
    """Describe the four attributions: their constructors, from the configs, and the one `attribute`."""
    from secondsight.captum import ATTRIBUTIONS

    parts = [
        "# Captum\n",
        "In `secondsight.captum`. [Come from Captum](../how-to/captum.md) has their code and ours side by side. The "
        "four classes take `forward_func` (a module, a `Classifier`, or a function from a batch, or several, to "
        "logits of shape (N, classes)), `sign`, `seed`, and the options of their methods. A module is used in eval "
        "mode with frozen parameters and given back as it was.\n",
    ]
    for name, attribution in ATTRIBUTIONS.items():
        kind = attribution.__name__
        own = "    forward_func,\n    *,\n    sign='loss',\n    seed=0,\n"
        options = "".join(f"    {option}={value!r},\n" for option, value in METHODS[name].defaults().items())
        parts.append(object_of(f"secondsight.captum.{kind}", level=2, signature=False))
        parts.append(
            f"```text\nsecondsight.captum.{kind}(\n{own}{options})\n```\n\nOptions: [{kind}](methods/{name}.md).\n"
        )
    parts.append("The four classes have the same `attribute`:\n")
    parts.append(object_of("secondsight.captum._Penalised.attribute", level=2))
    return "\n".join(parts)


def errors_page() -> str:
    """Describe the errors and the warning."""
    parts = [
        "# Errors and warnings\n",
        "What is asked wrongly, and what cannot be read or explained, raises a `SecondsightError` with one line that "
        "says what to do. The command prints that line and exits with code 2.\n",
    ]
    return "\n".join([*parts, *(object_of(path, level=2) for path in ERRORS)])


def index_page() -> str:
    """List all pages, with the first line of each docstring."""
    parts = [
        "# Reference\n",
        "Made from the code by `scripts/reference_pages.py`. Everything without a module's name is in the package "
        "itself: `import secondsight as ss`, then `ss.explain`, `ss.Classifier` and so on. `ss.__version__` is the "
        "version.\n",
        "## Methods\n\nWith all [options](methods/index.md).\n\n"
        + listed((method.__name__, f"methods/{name}.md", summary(method)) for name, method in METHODS.items()),
    ]
    for title, folder, entries in (
        ("Functions and models", "functions", FUNCTIONS),
        ("Results", "results", RESULTS),
        ("Operators", "operators", OPERATORS),
    ):
        rows = ((entry.title, f"{folder}/{entry.file}.md", entry.words or summary(entry.object)) for entry in entries)
        parts.append(f"## {title}\n\n{listed(rows)}")
    commands = {name: (command.help or "").partition(".")[0] for name, command in command_for([]).commands.items()}
    rows = ((f"secondsight {name}", f"commands/{name}.md", " ".join(help.split())) for name, help in commands.items())
    parts.append(f"## Commands\n\n{listed(rows)}")
    others = (
        ("Captum", "captum.md", "The methods as Captum attributions"),
        ("Quantus", "quantus.md", "The methods for the metrics of Quantus"),
        ("Errors and warnings", "errors.md", "What is raised, and what warns"),
    )
    parts.append(f"## Other libraries, errors\n\n{listed(iter(others))}")
    return "\n".join(parts)


def listed(rows: Iterator[tuple[str, str, str]]) -> str:
    """A table of links."""
    lines = [f"| [`{title}`]({link}) | {escaped(words.rstrip('.'))} |" for title, link, words in rows]
    return "\n".join(["| name | what it is |", "|---|---|", *lines]) + "\n"


def summary(what: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(what) or "").partition("\n")[0]


def escaped(text: str) -> str:
    """Keep the bars, stars, underscores and brackets of formulas and names from becoming markup."""
    entities = {"<": "&lt;", ">": "&gt;"}
    return re.sub(r"(`[^`]*`)|([|_*<>])", lambda found: found[1] or entities.get(found[2], f"\\{found[2]}"), text)


def stale(made: Pages) -> list[str]:
    """List the files whose text differs from what the code says now, and those that it does not know."""
    there = {file.relative_to(FOLDER).as_posix(): file.read_text("utf-8") for file in FOLDER.rglob("*.md")}
    return sorted(name for name in {*made, *there} if made.get(name) != there.get(name))


def main() -> int:
    """Write the pages, or check them."""
    made = pages()
    old = stale(made)
    if "--check" in sys.argv[1:]:
        for name in old:
            print(f"docs/reference/{name} is stale: run python -m scripts.reference_pages", file=sys.stderr)
        return bool(old)
    for name in old:
        file = FOLDER / name
        if name in made:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(made[name], "utf-8")
        else:
            file.unlink()
    print(f"{len(made)} pages, {len(old)} written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
