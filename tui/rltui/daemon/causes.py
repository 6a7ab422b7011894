"""Why a component ended: its output, and whether the kernel killed for want of memory while it ran."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from rltui.core.failure_cause import FailurePattern
from rltui.core.lifecycle import ExitInfo
from rltui.daemon.component import ComponentRunner
from rltui.services.failure_log import cause_of_end
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
        if exit_info.on_request or runner.is_asked_to_stop or runner.log is None:
            return exit_info
        if exit_info.code == 0 and runner.spec.kind == "job":
            return exit_info
        before, now = self._kills_before.get(runner.spec.id), oom_kills()
        cause = await asyncio.to_thread(
            cause_of_end,
            runner.log,
            exit_code=exit_info.code,
            signal=exit_info.signal,
            patterns=self._patterns,
            host_oom=before is not None and now is not None and now > before,
        )
        if cause is None:
            return exit_info
        memory = cause.memory and cause.memory.model_copy(update={"component": runner.spec.id})
        return replace(exit_info, cause=cause.text, hopeless=cause.hopeless, memory=memory)
