"""GPU seconds of all runs of this machine by who used them, from their journals, whoever supervised them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rltui.core.experiment.gpu_use import GpuUser, OpenAttempt, gpu_seconds
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import read_entries
from rltui.services.processes import read_attempt
from rltui.services.runs.index import RunIndex


class GpuUseReader:
    """Reads a journal again only where it has grown, or something of the run lives. Blocking."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Mapping[GpuUser, float]]] = {}
        """Control folder → fingerprint of the journal, and what it says; without runs that live."""

    def by_run(self) -> dict[str, Mapping[GpuUser, float]]:
        """Name of the run → its users; only runs that used GPUs.

        Raises:
            RltuiError: if the index of runs cannot be read.
        """
        uses = {row.name: self._of(Path(row.control)) for row in RunIndex().rows() if row.control}
        return {name: use for name, use in uses.items() if use}

    def hours_of(self, agent: str) -> float:
        """GPU hours of an agent, over all runs. Raises as `by_run`."""
        user = GpuUser(agent, is_agent=True)
        return sum(use.get(user, 0.0) for use in self.by_run().values()) / 3600

    def _of(self, path: Path) -> Mapping[GpuUser, float]:
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
