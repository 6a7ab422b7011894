"""Guards of a running experiment: they repair its folder and its socket, end an idle supervisor, and have one
replaced that an update of rltui has outdated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rltui import paths
from rltui.base.interpreter import module_command
from rltui.base.tasks import tick
from rltui.core.experiment.api import Alert
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.launch import read_launch
from rltui.services.own_files import FileLock, file_fingerprint, make_folder, may_exist
from rltui.supervisor.api_server import ApiServer
from rltui.supervisor.supervisor import Supervisor

IDLE_S = 120.0
"""A supervisor that has nothing to do stays for so long: commands come in a row."""
logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0
"""Pause between two checks of the folder, the socket, or idleness."""
_UPDATE_INTERVAL_S = 10.0
"""Pause between two looks at the code."""
_RENEWAL_INTERVAL_S = 600.0
"""Pause between two attempts to have a new supervisor started after an update."""


async def guard_folder(supervisor: Supervisor, lock: FileLock) -> None:
    """Repair the control folder for ever. `lock` is the one that keeps other supervisors away.

    The shims write their own `attempt.json` again. Output of the components goes on into the deleted files,
    which nobody can read; it is seen again from their next start on.
    """
    is_alerted, problem, sound_files = False, "", _SoundFiles()
    while True:
        await tick(_INTERVAL_S)
        if lock.is_held() and may_exist(supervisor.runtime.setup.control.record_file):
            is_alerted, problem = False, _repair(supervisor, problem, sound_files)
            continue
        try:
            control, record = supervisor.runtime.setup.control, supervisor.runtime.setup.record
            record_there = None if _is_damaged(control) else control.read_record()
            make_folder(control.path)
            if (record_there is not None and record_there.name != record.name) or not lock.acquire():
                raise ConflictError("another experiment uses the folder now")
            control.write_record(record)
            _repair(supervisor, "", sound_files)
        except RltuiError as error:
            if not is_alerted:
                supervisor.runtime.events.alert(
                    _alert(supervisor, f"the folder cannot be recreated: {error.title}")
                )
            is_alerted = True
        else:
            supervisor.runtime.events.alert(
                _alert(supervisor, "existing logs are lost, and so is all output until a restart")
            )


class _SoundFiles:
    """The files that were found sound: they are read again only where they have changed."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int, int]] = {}

    def has(self, path: Path, is_sound: Callable[[], bool]) -> bool:
        """`is_sound` reads the file."""
        state = file_fingerprint(path)
        if state is None or self._seen.get(path) != state:
            if not is_sound():
                return False
            if state is not None:
                self._seen[path] = state
        return True


def _repair(supervisor: Supervisor, problem: str, sound_files: _SoundFiles) -> str:
    """Write damaged files again, so that the next supervisor finds them complete, and can adopt what lives.

    Returns why that cannot be done now, as on a full disk; logged where it differs from `problem`.
    """
    control, reason = supervisor.runtime.setup.control, ""
    try:
        if not sound_files.has(control.record_file, lambda: not _is_damaged(control)):
            control.write_record(supervisor.runtime.setup.record)
            supervisor.runtime.events.journal.add(
                "notice", f"{control.record_file} was damaged and has been restored"
            )
        for runner in supervisor.runtime.processes.runners.values():
            handle, launch = runner.handle, runner.launch
            if runner.lifecycle.alive and handle is not None and launch is not None:
                folder = handle.attempt.folder
                make_folder(folder)
                if not sound_files.has(folder / paths.ATTEMPT_SPEC, partial(_has_launch, folder)):
                    handle.write_spec(launch)
    except RltuiError as error:
        reason = error.title
        if reason != problem:
            logger.error("%s", error)
    supervisor.intent.save()
    return reason


def _has_launch(folder: Path) -> bool:
    return read_launch(folder) is not None


def _is_damaged(control: ControlFolder) -> bool:
    try:
        control.read_record()
    except ConfigError as error:
        # A file system in trouble is left alone.
        return isinstance(error.__cause__, ValueError | IsADirectoryError)
    return False


def _alert(supervisor: Supervisor, consequence: str) -> Alert:
    return Alert(
        kind="notice",
        severity="error",
        title="the output folder was deleted",
        text=(
            f"{supervisor.runtime.setup.record.output_dir} is gone while the experiment runs. The components"
            f" keep running; {consequence}."
        ),
    )


async def leave_when_idle(supervisor: Supervisor, server: ApiServer, *, after_s: float = IDLE_S) -> None:
    """Shut the supervisor down once nothing has run and no client was connected for `after_s`.

    The next command starts another one; until then the run is read from its files.
    """
    clock = asyncio.get_running_loop().time
    busy_at = clock()
    while True:
        await tick(min(_INTERVAL_S, after_s))
        has_orphans = bool(supervisor.runtime.processes.orphans.orphans)  # ended only where somebody says so
        if server.has_clients or has_orphans or not supervisor.is_idle:
            busy_at = clock()
        elif clock() - busy_at >= after_s:
            with contextlib.suppress(ConflictError):  # somebody has just started something
                await supervisor.shut_down("itself (idle)", only_idle=True)


async def guard_socket(server: ApiServer) -> None:
    """Open the socket again for ever: no client could reach this supervisor without it. Its time says that
    the supervisor works.

    systemd-logind removes `$XDG_RUNTIME_DIR` when its user's last session ends, an SSH session for example.
    """
    problem: str | None = None
    while True:
        await tick(_INTERVAL_S)
        if server.beat():
            continue
        try:
            await server.open()
        except (OSError, RltuiError) as error:
            if str(error) != problem:
                problem = str(error)
                logger.error("the socket is gone and cannot be made anew: %s", problem)
        else:
            problem = None
            logger.info("the socket was gone and has been made anew")


async def leave_when_updated(supervisor: Supervisor, server: ApiServer) -> None:
    """Have a new supervisor take over once an update has replaced the code of this one, and is complete.

    The program that ends this one and starts the new one is of the new version: if it cannot run, this one
    stays, and tries again later.
    """
    while True:
        await tick(_UPDATE_INTERVAL_S)
        if supervisor.commands.is_busy or not server.code.is_update_complete():
            continue
        logger.info("rltui was updated; starting a new supervisor")
        with supervisor.runtime.setup.control.supervisor_log.open("ab") as log:
            program = await asyncio.create_subprocess_exec(
                *module_command("rltui.client", supervisor.runtime.setup.record.name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # it outlives this process and its terminal
            )
        await program.wait()
        await asyncio.sleep(_RENEWAL_INTERVAL_S)
