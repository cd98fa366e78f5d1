"""The page of `--help`: the text of each option stands below its name, as wide as the terminal and SETTINGS allow."""

from __future__ import annotations

from typing import Any

import typer.core

SETTINGS = {"max_content_width": 100}
"""Characters of a line at most: longer lines are hard to read, however wide the terminal is."""

LONGEST = 1000
"""Characters of a first sentence at most: more than any has, so that none is cut."""


class Command(typer.core.TyperCommand):
    """A command whose help has one column. In two columns, options with long names leave their texts no room."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and the options of methods, each with its text."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            entry = parameter.get_help_record(ctx)
            default = "Options" if isinstance(parameter, typer.core.TyperOption) else "Arguments"
            if entry is not None:
                # The entry of an argument also has its Python type, after " <".
                words = entry[0].partition(" <")[0]
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append((words, entry[1]))
        for name, entries in panels.items():
            with formatter.section(name):
                for words, text in entries:
                    formatter.write_text(words)
                    with formatter.indentation(), formatter.indentation():
                        formatter.write_text(text)


class Group(typer.core.TyperGroup):
    """Commands with the whole first sentence of each. By default sentences end in the middle, with three dots."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(limit=LONGEST)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
