"""`python -m rltui.client …`: starts what the TUI cannot start in its own process.

Inside Textual, `sys.stdout` is not a file, and libtmux changes the process's environment. `NAME` starts the
supervisor of an experiment, unless there is one that is not outdated; `--start` makes and starts the run of
the order on stdin, and prints its answer as `client/starting.py` reads it.
"""

from __future__ import annotations

import sys

from rltui.client import launch
from rltui.errors import RltuiError


def main() -> int:
    if sys.argv[1:] == ["--start"]:
        return _start()
    try:
        launch.connect_or_start(launch.choose(sys.argv[1])).close()
    except RltuiError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def _start() -> int:
    import json

    from rltui.client.starting import StartOrder, start_order
    from rltui.core.experiment.api import ErrorReply

    try:
        started = start_order(StartOrder.from_json(sys.stdin.read()))
        answer = {"result": started.to_plain()}
    except RltuiError as error:
        answer = {"error": ErrorReply.of(error).to_plain()}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
