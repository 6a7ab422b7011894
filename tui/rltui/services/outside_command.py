"""Commands of the user's that the supervisor runs: how they start, and their failures in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from rltui.core.lines import decode_line, plain_text

OUTER_VARIABLES = frozenset({"TMUX", "TMUX_PANE", "RLTUI_EXPERIMENT", "RLTUI_COMPONENT", "RLTUI_ATTEMPT"})
"""Say where rltui was called from: the user's own tmux, or a component of another experiment."""


def runnable(command: Sequence[str]) -> list[str]:
    """With `~` of the program filled in."""
    return [os.path.expanduser(command[0]), *command[1:]]  # noqa: PTH111  (a name stays a name)


def outside_environment() -> dict[str, str]:
    """This environment without the private tmux server, which the supervisor lives in."""
    return {name: value for name, value in os.environ.items() if name not in OUTER_VARIABLES}


def failure_text(code: int, errors: bytes) -> str | None:
    """`exited 255: ssh: connect to host …`, with the last line of its stderr; `None` for code 0.

    `code` is asyncio's: of a signal, its number below zero.
    """
    if code == 0:
        return None
    said = plain_text(decode_line(errors.strip().rpartition(b"\n")[2]))
    how = f"exited {code}" if code > 0 else f"was killed by {_signal_name(-code)}"
    return f"{how}: {said}" if said else how


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
