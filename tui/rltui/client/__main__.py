"""`python -m rltui.client …`: starts what the TUI cannot start in its own process.

Inside Textual, `sys.stdout` is not a file, and libtmux changes the process's environment. `NAME` starts the
supervisor of an experiment; `fork ID` (the request as JSON on stdin) and `demo FOLDER` make a run and start
it, and print their answer as `client/starting.py` reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rltui.client import launch
from rltui.core.api import ErrorReply
from rltui.errors import RltuiError


def main() -> int:
    match sys.argv[1:]:
        case ["fork", id_]:
            return _answer(lambda: _fork(id_))
        case ["demo", folder]:
            return _answer(lambda: _demo(Path(folder)))
    try:
        record = launch.choose(sys.argv[1])
        if not launch.has_supervisor(record):
            launch.start_supervisor(record)
    except RltuiError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def _answer(work: Callable[[], Any]) -> int:
    try:
        answer = {"result": work()}
    except RltuiError as error:
        answer = {"error": ErrorReply.of(error).model_dump()}
    print(json.dumps(answer))
    return 0


def _fork(id_: str) -> tuple[str, ...]:
    from rltui.client.fork import carry_out, plan_fork
    from rltui.core.forks import ForkRequest
    from rltui.services.runs.index import RunIndex
    from rltui.services.runs.references import find_run

    request = ForkRequest(**json.load(sys.stdin))
    with plan_fork(find_run(RunIndex(), id_), request) as fork:
        return carry_out(fork)[1]


def _demo(folder: Path) -> str:
    from rltui.client.demo import start_demo

    return start_demo(folder).output_dir


if __name__ == "__main__":
    sys.exit(main())
