"""`python -m secondsight`: the same as the command `secondsight`."""

import sys

from secondsight.command import main

if __name__ == "__main__":
    sys.exit(main())
