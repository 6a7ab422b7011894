"""`python -m rltui.client NAME`: start an experiment's supervisor, for a client that cannot do it itself.

The TUI cannot: inside Textual, `sys.stdout` is not a file, and libtmux changes the process's environment.
"""

from __future__ import annotations

import sys

from rltui.client import launch
from rltui.errors import RltuiError


def main() -> int:
    try:
        record = launch.choose(sys.argv[1])
        if not launch.has_supervisor(record):
            launch.start_supervisor(record)
    except RltuiError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
