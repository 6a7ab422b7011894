"""The command that must succeed before a component starts, run where it starts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services.experiment.launch import Launch
from rltui.services.hosts.nodes import command_input, reach_argv, sent_variables
from rltui.services.processes import subprocesses

_TIMEOUT_S = 60.0


async def run_check(launch: Launch) -> None:
    """Run the launch's check, if it has one: on its host if that takes commands, else here, where a job is
    submitted.

    Raises:
        RltuiError: if it fails or takes too long.
    """
    if not launch.check:
        return
    host = launch.host
    if host is not None and "reach" in host:
        script = command_input(
            launch.check,
            cwd=launch.cwd,
            env={**host["env"], **launch.env},
            sent=sent_variables(host),
            login=host["login"],
        )
        argv = [*reach_argv(host["reach"]), "sh"]
        result = await subprocesses.run(argv, timeout_s=_TIMEOUT_S, stdin=script, leaves_nothing=True)
    else:
        result = await subprocesses.run(
            launch.check,
            timeout_s=_TIMEOUT_S,
            variables=launch.env,
            cwd=Path(launch.cwd),
            leaves_nothing=True,
        )
    failure = f"took longer than {_TIMEOUT_S:g} s" if result.code is None else result.failure
    if failure is not None:
        raise RltuiError(f"`{shlex.join(_without_variables(launch.check))}` {failure}")


def _without_variables(command: Sequence[str]) -> list[str]:
    """The program and its arguments, where `env` starts it with variables."""
    return [*(dropwhile(lambda word: "=" in word, command[1:]) if command[0] == "env" else command)]
