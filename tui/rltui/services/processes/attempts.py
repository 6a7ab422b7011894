"""Attempts by the record of their shim, or by their living processes; and processes that outlived their
shim.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rltui.base.text import parse_whole_number
from rltui.paths import ATTEMPT_LOG, ATTEMPT_RECORD
from rltui.services.own_files import read_own
from rltui.services.processes.details import age_s, uid
from rltui.services.processes.identity import (
    PROC,
    ProcessId,
    ProcessStat,
    boot_identity,
    command_line,
    descendants,
    is_alive,
    living_processes,
    read_stat,
    variables_at_start,
)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The content of `attempt.json`, as `hosts/shim/record.py` writes it."""

    experiment: str
    component: str
    attempt: int
    """Attempts are counted from 1."""
    state: Literal["running", "exited"]
    boot: str
    """See `boot_identity`. The pids are meaningless under another one."""
    shim: ProcessId | None
    main: ProcessId | None
    """The process that was started; None if that failed."""
    session: int | None
    argv: tuple[str, ...]
    cwd: str
    log: str
    started_at: float
    ended_at: float | None
    """End of the main process; its descendants may live on until `state` is `exited`."""
    exit_code: int | None
    signal: str | None
    """Name of the signal that ended it, such as `SIGKILL`."""
    error: str | None
    """Reason why it could not be started."""
    stop_requested: bool
    """True if the main process was asked to stop before it ended."""
    descendants: tuple[ProcessId, ...]
    """Descendants of the main process, at most about 2 s old."""
    leftovers_kept: bool = False
    """True if the main process ended by itself, and by `stop.leftovers = "keep"` its descendants live on
    until a stop is requested. See `kept_leftovers`.
    """

    @property
    def is_of_this_boot(self) -> bool:
        """True if its pids can be looked up here: same machine, no reboot, same container."""
        return self.boot == boot_identity()

    @property
    def is_supervised(self) -> bool:
        return self.shim is not None and self.is_of_this_boot and is_alive(self.shim)

    @property
    def is_alive(self) -> bool:
        """True while its shim or its main process lives."""
        return self.is_supervised or self.living_main is not None

    @property
    def living_main(self) -> ProcessId | None:
        """The main process, if that lives, with or without the shim."""
        return self.main if self.main is not None and self.is_of_this_boot and is_alive(self.main) else None


def read_attempt(folder: Path) -> AttemptRecord | None:
    """None if there is no record yet, or it cannot be parsed."""
    try:
        return _parse(json.loads(read_own(folder / ATTEMPT_RECORD)))
    except (OSError, ValueError, LookupError, TypeError, RecursionError, AttributeError, OverflowError):
        # no file, half a file, or another version's
        return None


def has_record(folder: Path) -> bool:
    """True if an attempt has a record, readable or not: its shim has run."""
    return (folder / ATTEMPT_RECORD).exists()


def _parse(values: dict[str, Any]) -> AttemptRecord:
    return AttemptRecord(
        experiment=str(values["experiment"]),
        component=str(values["component"]),
        attempt=int(values["attempt"]),
        state="exited" if values["state"] == "exited" else "running",
        boot=str(values["boot"]),
        shim=_process(values["shim_pid"], values["shim_start"]),
        main=_process(values["pid"], values["pid_start"]),
        session=values["session"],
        argv=tuple(values["argv"]),
        cwd=str(values["cwd"]),
        log=str(values["log"]),
        started_at=float(values["started_at"]),
        ended_at=values["ended_at"],
        exit_code=values["exit_code"],
        signal=values["signal"],
        error=values["error"],
        stop_requested=bool(values["stop_requested"]),
        descendants=tuple(ProcessId(item["pid"], item["start"]) for item in values["descendants"]),
        leftovers_kept=bool(values.get("leftovers_kept", False)),  # a shim from before an upgrade writes none
    )


def _process(pid: int | None, start: int | None) -> ProcessId | None:
    return None if pid is None or start is None else ProcessId(pid, start)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A living process that outlived the main process of its attempt."""

    id: ProcessId
    component: str | None
    attempt: int | None
    evidence: Literal["descendant", "session", "recorded", "environment"]
    """Kind of evidence; never the name. `descendant`: its shim lives and keeps it."""
    command: str
    """Command line or title, for display."""


def kept_leftovers(record: AttemptRecord) -> list[Leftover]:
    """Current descendants of a living shim whose main process ended by itself, by pid.

    Listed until the last one is gone, also while they are being stopped. A signal to the shim stops them:
    SIGTERM gracefully, SIGUSR1 at once. Empty if the shim stops the leftovers itself, as is the default.
    """
    if not record.leftovers_kept or record.shim is None or not record.is_supervised:
        return []
    children = sorted(descendants(record.shim.pid))
    return [
        Leftover(process, record.component, record.attempt, "descendant", command_line(process.pid))
        for process in children
    ]


def leftovers(
    experiment: str, records: Iterable[AttemptRecord], *, exclude: Collection[ProcessId] = ()
) -> list[Leftover]:
    """Processes of `experiment` that outlived their shim, by pid.

    `records` are its attempts, of any age; a living shim takes care of its own. `exclude` names processes to
    spare with all their descendants, such as the supervisor. This process and its ancestors are spared, too.

    The tag in the environment finds processes that left their session before they were recorded. Its absence
    proves nothing: `setproctitle` (vLLM, prime-rl) overwrites it.
    """
    current = [record for record in records if record.is_of_this_boot]
    shims = {record.shim for record in current if record.is_supervised}
    dead = [record for record in current if record.shim not in shims]
    living = {stat.id.pid: stat for stat in living_processes()}
    own_chain = _with_ancestors(os.getpid(), living)
    exempt = {*exclude, *shims, living[os.getpid()].id}
    candidates = (
        stat
        for pid, stat in sorted(living.items())
        if stat.id not in own_chain and not (_with_ancestors(pid, living) & exempt)
    )
    recognised = (_recognise(stat, experiment, dead) for stat in candidates)
    return [leftover for leftover in recognised if leftover is not None]


def _with_ancestors(pid: int, living: dict[int, ProcessStat]) -> set[ProcessId]:
    chain: set[ProcessId] = set()
    while pid in living and living[pid].id not in chain:
        chain.add(living[pid].id)
        pid = living[pid].parent
    return chain


def _recognise(stat: ProcessStat, experiment: str, dead: list[AttemptRecord]) -> Leftover | None:
    pid = stat.id.pid
    for record in dead:
        if stat.id in (record.main, *record.descendants):
            return Leftover(stat.id, record.component, record.attempt, "recorded", command_line(pid))
        if _is_in_session(stat, record):
            return Leftover(stat.id, record.component, record.attempt, "session", command_line(pid))
    tags = attempt_tags(pid)
    if tags.get("RLTUI_EXPERIMENT") != experiment:
        return None
    number = parse_whole_number(tags.get("RLTUI_ATTEMPT", ""))
    return Leftover(stat.id, tags.get("RLTUI_COMPONENT"), number, "environment", command_line(pid))


def _is_in_session(stat: ProcessStat, record: AttemptRecord) -> bool:
    """A session's number is not reused while a member lives, and members are younger than its leader.

    An attempt that its shim recorded as exited had no member left, so the number may be anyone's by now.
    """
    if record.main is None or stat.session != record.session or record.state == "exited":
        return False
    leader = read_stat(record.main.pid)
    return stat.id.start >= record.main.start and (leader is None or leader.id == record.main)


def attempt_tags(pid: int) -> dict[str, str]:
    """The `RLTUI_…` variables of a process at its start; empty for other users' processes, and if a title
    overwrote them.
    """
    variables = variables_at_start(pid)
    return {name: value for name, value in variables.items() if name.startswith("RLTUI_")}


SHIM_PROGRAMS = ("rltui/hosts/shim/__main__.py", "rltui/daemon/shim/__main__.py")
"""Ends of the path of the program that a shim runs; its only argument is the folder of the attempt. Shims
that an rltui of before December 2026 started have the second.
"""
_COMPONENT_LEVELS = 3
"""Levels from the folder of an attempt to the output folder: component, `components`, `.rltui`."""


class ProcessOwners:
    """Attempts as evident from this user's processes. Reads all of them on first use, and only then."""

    def records(self, folders: Iterable[Path], experiment: str) -> list[AttemptRecord]:
        """Return the records of the attempts in these folders, as far as there are any."""
        return [record for folder in folders if (record := self.attempt(folder, experiment)) is not None]

    def attempt(self, folder: Path, experiment: str) -> AttemptRecord | None:
        """The record of the attempt in `folder`, else one made from its living processes.

        `experiment` is the tag of its processes. `None` if there is neither, and while the shim has not
        started the program yet.
        """
        record = read_attempt(folder)
        if record is not None:
            return record
        name, _, number = folder.name.rpartition("-")
        if name != "attempt" or parse_whole_number(number) is None:
            return None
        shim = self._shims.get(folder)
        children = descendants(shim.pid) if shim is not None else []
        main = _leader_below(shim, children) if shim is not None else None
        main = main or self._tagged_leader(experiment, folder.parent.name, number)
        if main is None and not children:
            return None
        oldest_process = main or min(children, key=lambda process: process.start)
        return AttemptRecord(
            experiment=experiment,
            component=folder.parent.name,
            attempt=int(number),
            state="running",
            boot=boot_identity(),
            shim=shim,
            main=main,
            session=main.pid if main is not None else None,
            argv=(),
            cwd="",
            log=str(folder / ATTEMPT_LOG),
            started_at=time.time() - age_s(oldest_process),
            ended_at=None,
            exit_code=None,
            signal=None,
            error=None,
            stop_requested=False,
            descendants=tuple(children),
        )

    def attempts(self, component: Path) -> list[int]:
        """Numbers of attempts with a living shim, whether or not their folders exist."""
        names = (folder.name.removeprefix("attempt-") for folder in self._shims if folder.parent == component)
        return [number for name in names if (number := parse_whole_number(name)) is not None]

    @functools.cached_property
    def _shims(self) -> dict[Path, ProcessId]:
        return dict(_shims_among(living_processes()))

    @functools.cached_property
    def _tagged(self) -> list[tuple[ProcessStat, dict[str, str]]]:
        return [(stat, tags) for stat in living_processes() if (tags := attempt_tags(stat.id.pid))]

    def _tagged_leader(self, experiment: str, component: str, attempt: str) -> ProcessId | None:
        """Leader of the session of a process with these tags; the leader may have lost its own."""
        required = {"RLTUI_EXPERIMENT": experiment, "RLTUI_COMPONENT": component, "RLTUI_ATTEMPT": attempt}
        for stat, tags in self._tagged:
            leader = read_stat(stat.session) if required.items() <= tags.items() else None
            if leader is not None and not leader.is_dead and leader.session == leader.id.pid:
                return leader.id
        return None


def living_output_dirs() -> frozenset[str]:
    """Output folders of experiments with a living shim or component of this user."""
    processes = living_processes()
    tags = (attempt_tags(stat.id.pid).get("RLTUI_EXPERIMENT", "") for stat in processes)
    tagged_dirs = (tag.partition("@")[2] for tag in tags)
    shim_parents = (folder.parents[: _COMPONENT_LEVELS + 1] for folder, _ in _shims_among(processes))
    return frozenset([*tagged_dirs, *(str(parents[-1]) for parents in shim_parents)])


def _shims_among(processes: Iterable[ProcessStat]) -> Iterator[tuple[Path, ProcessId]]:
    """The shims of this user, each with the folder of its attempt."""
    user = os.getuid()
    for stat in processes:
        if (folder := shim_folder(stat.id.pid)) is not None and uid(stat.id.pid) == user:
            yield folder, stat.id


def shim_folder(pid: int) -> Path | None:
    """The folder of the attempt whose shim the process is; `None` for any other process."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123 - twice as fast
            argv = file.read().split(b"\0")
    except OSError:  # gone meanwhile
        return None
    program = argv[-3].decode(errors="replace") if len(argv) > 3 else ""
    is_shim = program.endswith(SHIM_PROGRAMS) and argv[-2].startswith(b"/")
    return Path(os.fsdecode(argv[-2])) if is_shim else None


def _leader_below(shim: ProcessId, children: list[ProcessId]) -> ProcessId | None:
    """The main process: the shim's own child that leads a session, the oldest of several."""
    stats = [stat for process in children if (stat := read_stat(process.pid)) is not None]
    leaders = [stat.id for stat in stats if stat.parent == shim.pid and stat.session == stat.id.pid]
    return min(leaders, key=lambda process: process.start, default=None)
