"""Where the command `secondsight` starts. The commands are in secondsight.cli, which takes a moment to load."""

from __future__ import annotations

import sys

from secondsight.interrupts import INTERRUPTED, MESSAGE, end_work, leave_at_once


def main() -> int:
    """Run the command with the words of the command line, and return its exit code."""
    leave_at_once()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one. An error would lose all that comes after it.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        from secondsight.cli import main as run

        code = run()
        end_work()
    except KeyboardInterrupt:
        sys.stderr.write(MESSAGE)
        return INTERRUPTED
    return code
