"""What the command tells the shell at its end; 0 stands for success."""

from __future__ import annotations

USAGE_ERROR = 2
"""Something that was asked cannot be done; 2 is the usual code for wrong arguments, in Typer as well."""
