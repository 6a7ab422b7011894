"""What services that stay are told before the jobs of a run start against them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from rltui.core.api import Plan
from rltui.daemon.component import ComponentRunner
from rltui.daemon.telling import Teller
from rltui.errors import RltuiError
from rltui.frameworks.base import ServiceCall
from rltui.services.http import post_json


class ServiceCalls:
    """Carries out the framework's calls. `calls` says which there are now."""

    def __init__(
        self,
        runners: Mapping[str, ComponentRunner],
        teller: Teller,
        *,
        calls: Callable[[], Sequence[ServiceCall]],
        jobs: Callable[[], Sequence[ComponentRunner]],
    ) -> None:
        """`jobs`: those of the run; without one of them among the starts nobody is called."""
        self._runners = runners
        self._teller = teller
        self._calls = calls
        self._jobs = jobs

    async def make(self, plan: Plan) -> None:
        """Call the services that live through `plan`, and journal what came of it.

        Raises:
            RltuiError: if a required call fails.
        """
        if not {job.spec.id for job in self._jobs()} & set(plan.start):
            return
        for call in self._calls():
            runner = self._runners.get(call.component)
            if runner is not None and runner.life.alive and call.component not in plan.start:
                await self._make(call)

    async def _make(self, call: ServiceCall) -> None:
        fault = await asyncio.to_thread(post_json, call.url, call.body, timeout_s=call.timeout_s)
        if fault is not None and call.required:
            raise RltuiError(f"{call.component} could not be told to {call.why}: {fault}")
        outcome = "done" if fault is None else f"not done: {fault}"
        self._teller.journal.add(
            "call", f"{call.component}: {call.why}: {outcome}", component=call.component, url=call.url
        )
