"""What the command tells the shell at its end; 0 stands for success."""

from __future__ import annotations

ITEMS_FAILED = 1
"""A run over a dataset is complete, but some of its items have an error instead of a map."""

USAGE_ERROR = 2
"""Something that was asked cannot be done; 2 is the usual code for wrong arguments, in Typer as well."""
