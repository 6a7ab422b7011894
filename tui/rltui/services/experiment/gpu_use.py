"""GPU seconds of all runs of this machine by who used them, from their journals, whoever supervised them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from rltui import paths
from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.gpu_use import GpuUser, OpenAttempt, gpu_seconds
from rltui.core.runs.row import RunRow
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import read_entries
from rltui.services.own_files import append_line, read_own
from rltui.services.processes import read_attempt
from rltui.services.runs.index import RunIndex


class KeptUse(Value):
    """What an agent used in a run that is deleted: a line of `gpu_use.jsonl` in the state folder."""

    id: str
    run: str
    agent: str
    seconds: float


def keep_use(row: RunRow) -> None:
    """Call it before a run is deleted for good: its agents have used what they used. Blocking.

    Raises:
        RltuiError: if that cannot be written.
    """
    use = GpuUseReader().of(row)
    try:
        for user, seconds in use.items():
            if user.is_agent:
                kept = KeptUse(id=row.id, run=row.name, agent=user.name, seconds=seconds)
                append_line(_kept_file(), kept.to_json())
    except OSError as error:
        raise RltuiError(f"cannot write {_kept_file()}: {error.strerror}") from error


def _kept_uses() -> Iterable[KeptUse]:
    """Each agent's in each run once: a deletion may be tried again."""
    try:
        lines = read_own(_kept_file()).splitlines()
        uses = [KeptUse.from_json(line) for line in lines]
    except FileNotFoundError:
        return ()
    except (OSError, InvalidValueError) as error:
        raise RltuiError(f"cannot read {_kept_file()}: {error}", hint="remove what is damaged") from error
    return {(use.id, use.agent): use for use in uses}.values()


def _kept_file() -> Path:
    return paths.state_dir() / "gpu_use.jsonl"


class GpuUseReader:
    """Reads a journal again only where it has grown, or something of the run lives. Blocking."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Mapping[GpuUser, float]]] = {}
        """Control folder → fingerprint of the journal, and what it says; without runs that live."""

    def by_run(self) -> dict[str, Mapping[GpuUser, float]]:
        """Name of the run → its users; only runs that used GPUs. Of those deleted for good, the agents.

        Raises:
            RltuiError: if the index of runs, or the uses of deleted ones, cannot be read.
        """
        uses: defaultdict[str, defaultdict[GpuUser, float]] = defaultdict(lambda: defaultdict(float))
        rows = {row.id: row for row in RunIndex().rows()}
        for row in rows.values():
            for user, seconds in self.of(row).items():
                uses[row.name][user] += seconds
        for kept in _kept_uses():
            if kept.id not in rows:
                uses[kept.run][GpuUser(kept.agent, is_agent=True)] += kept.seconds
        return {**uses}

    def hours_of(self, agent: str) -> float:
        """GPU hours of an agent, over all runs. Raises as `by_run`."""
        user = GpuUser(agent, is_agent=True)
        return sum(use.get(user, 0.0) for use in self.by_run().values()) / 3600

    def of(self, row: RunRow) -> Mapping[GpuUser, float]:
        """The users of one run. Blocking."""
        if not row.control:
            return {}
        path = Path(row.control)
        control = ControlFolder(path.parent)
        try:
            stat = control.journal_file.stat()
        except OSError:
            return {}
        fingerprint = (stat.st_size, stat.st_mtime_ns)
        known = self._known.get(str(path))
        if known is not None and known[0] == fingerprint:
            return known[1]
        is_running = False

        def end_of(attempt: OpenAttempt, latest: float) -> float:
            nonlocal is_running
            record = read_attempt(control.attempt_dir(attempt.component, attempt.attempt))
            if record is None:
                return latest
            is_running = is_running or record.is_alive
            return time.time() if record.is_alive else record.ended_at or latest

        use = gpu_seconds(read_entries(control.journal_file), end_of)
        if not is_running:
            self._known[str(path)] = fingerprint, use
        return use
