"""Starts that will never be ready: the output names a fatal error, or has ended, while the process lives on.

vLLM 0.32 does so: where its engine is killed while the model loads, the API server stays and is never ready.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from rltui.core.api import ComponentState
from rltui.core.failure_cause import FailurePattern, find_cause
from rltui.core.stalls import phase_of
from rltui.core.text import duration
from rltui.daemon.component import ComponentRunner
from rltui.daemon.stalls import log_size
from rltui.daemon.supervisor import Supervisor
from rltui.services.failure_log import last_lines

INTERVAL_S = 3.0
"""Between two looks."""


async def watch_starts(supervisor: Supervisor) -> None:
    """Look at every component that is starting, for ever."""
    watched: dict[str, _Start] = {}
    while True:
        for name, runner in supervisor.runners.items():
            if runner.life.state is not ComponentState.STARTING:
                if watched.pop(name, None) and runner.life.state is ComponentState.READY:
                    supervisor.set_stall(name, None)
                continue
            known = watched.get(name)
            if known is None or known.epoch != runner.life.epoch:
                known = watched[name] = _Start(runner)
            phase, evidence = runner.phase, await known.look(supervisor.failure_patterns)
            if known.epoch == runner.life.epoch and runner.life.state is ComponentState.STARTING:
                supervisor.set_stall(name, evidence)
                if runner.phase != phase:
                    supervisor.publish_status()
        await asyncio.sleep(INTERVAL_S)


class _Start:
    """One start of one component."""

    def __init__(self, runner: ComponentRunner) -> None:
        self.epoch = runner.life.epoch
        self._runner = runner
        self._size: int | None = None
        self._grew_at = time.monotonic()
        self._fatal: str | None = None

    async def look(self, patterns: Sequence[FailurePattern]) -> str | None:
        """Why it will not be ready, as far as can be seen. Also tells the component how far it is."""
        log = self._runner.log
        size = log_size(log)
        now = time.monotonic()
        if log is not None and size != self._size:
            self._size, self._grew_at = size, now
            lines = await asyncio.to_thread(last_lines, log)
            self._runner.phase = phase_of(lines) or self._runner.phase
            cause = find_cause(lines, patterns)
            self._fatal = f"its output says: {cause.text}" if cause is not None else None
        patience_s = self._runner.spec.stall.silence_s
        if self._fatal is None and patience_s and now - self._grew_at > patience_s:
            return f"not ready, and no output for {duration(now - self._grew_at)}"
        return self._fatal
