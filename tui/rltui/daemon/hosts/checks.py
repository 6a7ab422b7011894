"""The command that must succeed before a component starts, run where it starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltui.errors import RltuiError
from rltui.services import subprocesses
from rltui.services.launch import Launch
from rltui.services.nodes import command_input, reach_argv
from rltui.services.subprocesses import Outcome

_TIMEOUT_S = 60.0


async def check_here(launch: Launch) -> None:
    """Run the launch's check on this machine.

    Raises:
        RltuiError: if it fails or takes too long.
    """
    variables, cwd = launch.env, Path(launch.cwd)
    _refuse_failed(
        launch,
        await subprocesses.run(
            launch.check, timeout_s=_TIMEOUT_S, variables=variables, cwd=cwd, leaves_nothing=True
        ),
    )


async def check_there(launch: Launch, host: Mapping[str, Any]) -> None:
    """Run the launch's check on its host, which commands reach.

    Raises:
        RltuiError: if it fails or takes too long.
    """
    script = command_input(
        launch.check, cwd=launch.cwd, env={**host["env"], **launch.env}, login=host["login"]
    )
    argv = [*reach_argv(host["reach"]), "sh"]
    _refuse_failed(
        launch, await subprocesses.run(argv, timeout_s=_TIMEOUT_S, stdin=script, leaves_nothing=True)
    )


def _refuse_failed(launch: Launch, result: Outcome) -> None:
    failure = f"took longer than {_TIMEOUT_S:g} s" if result.code is None else result.failure
    if failure is not None:
        raise RltuiError(f"`{shlex.join(launch.check)}` {failure}")
