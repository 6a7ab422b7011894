"""Plans being executed: one at a time, to the end or a stated failure, whatever becomes of the client."""

from __future__ import annotations

import asyncio
import os
import time

from rltui.base.tasks import spawn
from rltui.base.text import duration
from rltui.core.experiment.api import Alert, Plan, Request
from rltui.core.experiment.states import ComponentState
from rltui.errors import RltuiError
from rltui.frameworks.launch import ServiceCall
from rltui.services.actor import acting_as, requester
from rltui.services.experiment.intent import Pending
from rltui.services.http import post_json
from rltui.supervisor.runs.dashboard import enter_run
from rltui.supervisor.runtime import Runtime


class Transactions:
    """Executes plans on the components."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._processes = runtime.processes
        self._runners = runtime.processes.runners
        self._config = runtime.config
        self._observation = runtime.observation
        self._events = runtime.events
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self.pending: Pending | None = None
        """The work that the next supervisor must finish, should this one be killed now."""

    @property
    def busy(self) -> bool:
        """True if something is being stopped, or about to be started."""
        return self._task is not None and not self._task.done()

    @property
    def under_way(self) -> str | None:
        return _describe(self.pending.plan) if self.pending is not None else None

    def start(self, plan: Plan, request: Request, *, automatic: bool = False) -> None:
        """Execute `plan`; returns at once. `automatic`: by a restart policy, so that failures count on."""
        self._events.journal.add("plan", _describe(plan), **plan.part("action", "stop", "start", "keep"))
        # on disk, without the secrets of its edits
        saved_request = request.replace(edits={}, texts={})
        self.resume(Pending(request=saved_request, plan=plan, automatic=automatic, actor=requester()))

    def resume(self, pending: Pending) -> None:
        """Execute pending work, of this supervisor or of one that was killed."""
        self.pending = pending
        self._events.changed("pending")
        self._number += 1
        with acting_as(pending.actor):
            self._task = spawn(self._execute(pending, self._number), pending.request.action)

    async def wait(self) -> None:
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Drop the rest of the present one. A process that was asked to stop goes on stopping."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        self._clear_pending()

    def _clear_pending(self) -> None:
        self.pending = None
        self._events.changed("pending")

    async def _execute(self, pending: Pending, number: int) -> None:
        """Execute one plan. Cancelled, it stays pending: `cancel` clears it, a supervisor that
        ends does not.
        """
        started_at = time.monotonic()
        try:
            await self._stop_and_start(pending)
        except Exception as error:
            self._events.alert(
                Alert(kind="config", severity="error", title="an unfinished plan remains", text=str(error))
            )
            self._clear_pending()
            for name in pending.plan.start:
                self._runners[name].refuse_start(f"not started: {' '.join(str(error).split())}")
            if not isinstance(error, RltuiError):
                raise
            return
        self._clear_pending()
        spawn(self._report_outcome(pending.plan, started_at, number), f"outcome {number}")

    async def _stop_and_start(self, pending: Pending) -> None:
        plan, request = pending.plan, pending.request
        survivors = await self._processes.stop(plan.stop, kill=request.kill)
        if plan.free and not pending.automatic:
            survivors += [f"pid {orphan.pid}" for orphan in await self._processes.orphans.free(plan.free)]
        if plan.start:
            if survivors:
                raise RltuiError(f"nothing was started: {', '.join(survivors)} cannot be ended")
            self._prepare_run(plan, request)
            if self._run_jobs_of(plan):
                driver = self._runtime.gpu_readings.newest.driver
                spawn(self._config.save_provenance(driver), "begun")
                spawn(enter_run(self._runtime.setup, self._config, self._events), "dashboard")
                await self._call_services(plan)
        for name in plan.start:
            if request.given and self._runners[name].spec.is_manual:
                self._config.launcher.assign(name, request.given)
            else:
                self._runtime.part_servers.place(name, self._config.document.files)
            self._runners[name].start(automatic=pending.automatic)

    def _prepare_run(self, plan: Plan, request: Request) -> None:
        """Choose the resume point, where the jobs of the run begin; a job that goes on uses the files.

        Raises:
            RltuiError: if the checkpoint is gone, or files cannot be moved.
        """
        if not self._run_jobs_of(plan) or any(job.lifecycle.busy for job in self._processes.run_jobs()):
            return
        folder = self._observation.folder
        checkpoints = folder.checkpoints()
        if plan.resume_from is None:
            step = checkpoints[-1] if checkpoints and request.resume == "latest" else None
        elif plan.resume_from in checkpoints or plan.resume_from == 0:
            step = plan.resume_from if plan.resume_from in checkpoints else None
        else:
            raise RltuiError(f"checkpoint {plan.resume_from} is gone; {folder.path} has: {checkpoints}")
        self._observation.resume_from(step)

    def _run_jobs_of(self, plan: Plan) -> set[str]:
        return {job.spec.id for job in self._processes.run_jobs()} & set(plan.start)

    async def _call_services(self, plan: Plan) -> None:
        """Call services that live through `plan` before the jobs of the run start.

        Raises:
            ConfigError: if the config cannot be understood.
            RltuiError: if a required call fails.
        """
        context = self._config.launcher.context(
            self._config.document.files, resume_step=self._observation.resume_step
        )
        for call in context.service_calls():
            runner = self._runners.get(call.component)
            if runner is not None and runner.lifecycle.alive and call.component not in plan.start:
                await self._call(call)
        for call in self._runtime.servers.resets():
            await self._call(call)

    async def _call(self, call: ServiceCall) -> None:
        key = os.environ.get(call.key_variable, "")
        error = await asyncio.to_thread(post_json, call.url, call.body, timeout_s=call.timeout_s, key=key)
        if error is not None and call.required:
            raise RltuiError(f"{call.component} failed to {call.why}: {error}")
        outcome = "done" if error is None else f"not done: {error}"
        self._events.journal.add(
            "call", f"{call.component}: {call.why}: {outcome}", component=call.component, url=call.url
        )

    async def _report_outcome(self, plan: Plan, started_at: float, number: int) -> None:
        """Journal how it came out, unless another transaction took over."""
        runners = {name: self._runners[name] for name in plan.start}
        epochs = {name: runner.lifecycle.epoch for name, runner in runners.items()}
        while any(
            runner.lifecycle.busy and runner.lifecycle.state is not ComponentState.READY
            for runner in runners.values()
        ):
            await self._processes.changes.wait()
        took_s = time.monotonic() - started_at
        lifecycles = {name: runner.lifecycle for name, runner in runners.items()}
        if number != self._number or any(
            lifecycle.epoch != epochs[name] for name, lifecycle in lifecycles.items()
        ):
            self._events.journal.add("plan", f"superseded: {_describe(plan)}")
            return
        failures = [
            f"{name} {lifecycle.word}" + (f": {lifecycle.reason}" if lifecycle.reason else "")
            for name, lifecycle in lifecycles.items()
            if lifecycle.state not in (ComponentState.READY, ComponentState.EXITED)
            and not (lifecycle.state is ComponentState.STOPPED and self._processes.is_made(name))
        ]
        if failures:
            self._events.journal.add(
                "plan", f"failed after {duration(took_s)}: {'; '.join(failures)}", failed=True
            )
        else:
            self._events.journal.add("plan", f"done in {duration(took_s)}: {_describe(plan)}", plan_s=took_s)


def _describe(plan: Plan) -> str:
    """The steps as text: `stop trainer, orchestrator; start orchestrator, trainer`."""
    steps = (
        ("stop", plan.stop),
        ("end", tuple(f"pid {orphan.pid}" for orphan in plan.free)),
        ("start", plan.start),
    )
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in steps if names)
