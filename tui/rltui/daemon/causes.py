"""Why a component ended: its output, and whether the kernel killed for want of memory while it ran."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rltui.core.failure_cause import FailurePattern
from rltui.core.lifecycle import ExitInfo
from rltui.daemon.component import ComponentRunner
from rltui.services.attempt_life import explained
from rltui.services.host_memory import oom_kills


class Causes:
    """Adds causes to exits, by the failure patterns of the framework."""

    def __init__(self, patterns: Sequence[FailurePattern]) -> None:
        self._patterns = patterns
        self._kills_before: dict[str, int | None] = {}

    def began(self, component: str) -> None:
        """A process of it runs from now on."""
        self._kills_before[component] = oom_kills()

    async def explain(self, runner: ComponentRunner, exit_info: ExitInfo) -> ExitInfo:
        """`exit_info` with what is known of its cause. One that was asked for, or went well, needs none."""
        if runner.is_asked_to_stop or runner.log is None:
            return exit_info
        before, now = self._kills_before.get(runner.spec.id), oom_kills()
        host_oom = before is not None and now is not None and now > before
        return await asyncio.to_thread(
            explained, exit_info, runner.spec, runner.log, self._patterns, host_oom=host_oom
        )
