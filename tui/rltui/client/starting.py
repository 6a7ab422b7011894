"""Runs that are made and started by a program of their own: the TUI must not load libtmux."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rltui.client.transports.unix import result_of
from rltui.core.forks import ForkRequest
from rltui.core.interpreter import module_command
from rltui.services import subprocesses

_TIMEOUT_S = 6 * 3600.0
"""A large checkpoint may be copied."""


def fork_run(id_: str, request: ForkRequest) -> tuple[str, ...]:
    """Fork a run of the index and start the fork. Returns what a person should know of it.

    Raises:
        ConfigError, ConflictError, RltuiError: as `fork.plan_fork` and `fork.carry_out`.
    """
    return tuple(_ask("fork", id_, json.dumps(asdict(request)).encode()))


def start_demo(folder: Path) -> str:
    """Make and start the demo. Returns its output folder.

    Raises:
        RltuiError: as `demo.start_demo`.
    """
    return str(_ask("demo", str(folder)))


def _ask(verb: str, argument: str, stdin: bytes = b"") -> Any:  # noqa: ANN401 - JSON
    command = module_command("rltui.client", verb, argument)
    answer: Any = result_of(json.loads(subprocesses.check_output(command, timeout_s=_TIMEOUT_S, stdin=stdin)))
    return answer
