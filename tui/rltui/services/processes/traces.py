"""Attempts found by their living processes, where what their shim wrote was deleted or damaged."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rltui.services.processes.attempts import AttemptRecord, attempt_tags, read_attempt
from rltui.services.processes.details import age_s
from rltui.services.processes.identity import (
    PROC,
    ProcessId,
    ProcessStat,
    boot_identity,
    descendants,
    living_processes,
    read_stat,
)

SHIM_PROGRAM = b"rltui/daemon/shim/__main__.py"
"""How the file that a shim runs ends; its only argument is the folder of the attempt."""
COMPONENT_LEVELS = 3
"""From the folder of an attempt up to the output folder: component, `components`, `.rltui`."""


class Traces:
    """What this user's processes tell of attempts. Looks at all of them when first asked, and only then."""

    def attempt(self, folder: Path, experiment: str) -> AttemptRecord | None:
        """The record of the attempt in `folder`, else what its living processes tell of it.

        `experiment` is what they carry as their tag. `None` where there is neither, and while the shim has
        not started the program yet.
        """
        record = read_attempt(folder)
        if record is not None:
            return record
        name, _, number = folder.name.rpartition("-")
        if name != "attempt" or not number.isdecimal():
            return None
        shim = self._shims.get(folder)
        below = descendants(shim.pid) if shim is not None else []
        main = _leader_below(shim, below) if shim is not None else None
        main = main or self._tagged_leader(experiment, folder.parent.name, number)
        if main is None and not below:
            return None
        return _as_found(folder, experiment, int(number), shim, main, below)

    def attempts(self, component: Path) -> list[int]:
        """Numbers of attempts with a living shim, whether or not their folders are there."""
        names = (folder.name.removeprefix("attempt-") for folder in self._shims if folder.parent == component)
        return [int(name) for name in names if name.isdecimal()]

    @functools.cached_property
    def _shims(self) -> dict[Path, ProcessId]:
        return dict(_living_shims())

    @functools.cached_property
    def _tagged(self) -> list[tuple[ProcessStat, dict[str, str]]]:
        return [(stat, tags) for stat in living_processes() if (tags := attempt_tags(stat.id.pid))]

    def _tagged_leader(self, experiment: str, component: str, attempt: str) -> ProcessId | None:
        """The leader of the session that a process with these tags is in; it may have lost its own."""
        wanted = {"RLTUI_EXPERIMENT": experiment, "RLTUI_COMPONENT": component, "RLTUI_ATTEMPT": attempt}
        for stat, tags in self._tagged:
            leader = read_stat(stat.session) if wanted.items() <= tags.items() else None
            if leader is not None and not leader.is_dead and leader.session == leader.id.pid:
                return leader.id
        return None


def living_output_dirs() -> frozenset[str]:
    """Output folders of the experiments of which a shim or a component of this user lives."""
    tags = (attempt_tags(stat.id.pid).get("RLTUI_EXPERIMENT", "") for stat in living_processes())
    of_tags = (tag.partition("@")[2] for tag in tags)
    above = (folder.parents[: COMPONENT_LEVELS + 1] for folder, _ in _living_shims())
    return frozenset([*of_tags, *(str(parents[-1]) for parents in above)])


def _living_shims() -> Iterator[tuple[Path, ProcessId]]:
    user = os.getuid()
    for stat in living_processes():
        try:
            with open(f"{PROC}/{stat.id.pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123 - twice as fast
                words = file.read().split(b"\0")
                is_ours = os.fstat(file.fileno()).st_uid == user
        except OSError:  # gone meanwhile
            continue
        if is_ours and len(words) > 3 and words[-3].endswith(SHIM_PROGRAM) and words[-2].startswith(b"/"):
            yield Path(os.fsdecode(words[-2])), stat.id


def _leader_below(shim: ProcessId, below: list[ProcessId]) -> ProcessId | None:
    """The main process: the shim's own child that leads a session, the oldest of several."""
    stats = [stat for process in below if (stat := read_stat(process.pid)) is not None]
    leaders = [stat.id for stat in stats if stat.parent == shim.pid and stat.session == stat.id.pid]
    return min(leaders, key=lambda process: process.start, default=None)


def _as_found(
    folder: Path,
    experiment: str,
    attempt: int,
    shim: ProcessId | None,
    main: ProcessId | None,
    below: list[ProcessId],
) -> AttemptRecord:
    oldest = main or min(below, key=lambda process: process.start)
    return AttemptRecord(
        experiment=experiment,
        component=folder.parent.name,
        attempt=attempt,
        state="running",
        boot=boot_identity(),
        shim=shim,
        main=main,
        session=main.pid if main is not None else None,
        argv=(),
        cwd="",
        log=str(folder / "output.log"),
        started_at=time.time() - age_s(oldest),
        ended_at=None,
        exit_code=None,
        signal=None,
        error=None,
        stop_requested=False,
        descendants=tuple(below),
    )
