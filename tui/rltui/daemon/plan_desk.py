"""Plans for people who wait: made when all is known that takes time to learn."""

from __future__ import annotations

import asyncio

from rltui.core.api import Plan, Request
from rltui.daemon.launches import Launches
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.planner import Planned, Planner
from rltui.services.config.models import FrameworkModels
from rltui.services.config.store import ConfigStore
from rltui.services.gpu.sampling import GpuReadings


class PlanDesk:
    """Waits for leftovers, GPUs and the framework's own word. Lives on the supervisor's loop."""

    def __init__(
        self,
        planner: Planner,
        store: ConfigStore,
        orphans: OrphanWatch,
        readings: GpuReadings,
        launches: Launches,
        models: FrameworkModels,
    ) -> None:
        self._planner = planner
        self._store = store
        self._orphans = orphans
        self._readings = readings
        self._launches = launches
        self._models = models
        self._asking = asyncio.Lock()
        """One who waits for the framework takes one of the supervisor's few threads, others none."""

    async def plan(self, request: Request) -> Plan:
        """What `request` would do; what the framework's own models say too, where it is thorough.

        Raises:
            ConfigError: if a config file, a name or an edited value cannot be understood.
            UsageError: if somebody else runs the experiment.
        """
        planned = await self.planned(request)
        if request.thorough:
            return await self._with_their_problems(planned)
        if planned.edit is None:
            return planned.plan
        paths = [source.path for source in planned.edit.after.sources.values()]
        asks_more = await asyncio.to_thread(self._models.can_be_asked, paths)
        return planned.plan.model_copy(update={"asks_more": asks_more})

    async def rehearsed(self, request: Request) -> Request:
        """The request to plan and carry out, once the framework has resolved the config of what it stops and
        starts. That may take seconds.

        Raises:
            ConfigError, UsageError: as `plan`, or if the framework refuses the config; nothing was written
                or stopped.
            RltuiError: if the framework cannot be asked, or the disk is full.
        """
        planned = await self.planned(request)
        plan, edit = planned.plan, planned.edit
        if plan.blocked or not (plan.stop and plan.start) or (edit is not None and not request.restart):
            return request
        files = edit.after.files if edit is not None else self._store.files
        await self._launches.rehearse(plan.start, files, resume_step=planned.resume_step)
        # Another may write before it is carried out.
        return request.model_copy(update={"base": plan.base}) if edit is not None else request

    async def planned(self, request: Request) -> Planned:
        """The plan, and what an edit would write.

        Raises:
            ConfigError, UsageError: as `plan`.
        """
        await self._orphans.settled()
        if request.action == "free" and request.pids:
            await self._readings.fresh()  # may name what only the GPUs know
        else:
            await self._readings.first()
        planned = self._planner.planned(request)
        if not any(problem.severity == "error" and problem.file for problem in planned.plan.problems):
            return planned
        loaded = planned.edit.after if planned.edit is not None else self._store.load_sources()
        async with self._asking:
            accepted = await asyncio.to_thread(self._models.accepts, loaded)
        if not accepted:
            return planned
        self._store.accept(loaded)
        return self._planner.planned(request)

    async def _with_their_problems(self, planned: Planned) -> Plan:
        """The plan with what the framework's own models say of the files; seconds may pass."""
        loaded = planned.edit.after if planned.edit is not None else self._store.load_sources()
        ours = planned.plan.problems
        async with self._asking:
            theirs = await asyncio.to_thread(self._models.problems, loaded, ours)
        return planned.plan.model_copy(update={"problems": (*ours, *theirs)})
