"""Plans being executed: one at a time, to the end or a stated failure, whatever becomes of the client.

Also what follows from one: the starts that a restart policy promised, the offer to undo an edit.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rltui.core import hints
from rltui.core.api import Alert, Plan, Request, RollbackOffer
from rltui.core.edit_log import EditRecord
from rltui.core.lifecycle import Lifecycle
from rltui.core.refusal import refuse_blocked
from rltui.core.states import ComponentState
from rltui.core.text import duration
from rltui.daemon.component import ComponentRunner
from rltui.daemon.planner import Planner
from rltui.daemon.runtime import Runtime
from rltui.daemon.tasks import spawn
from rltui.errors import ConflictError, RltuiError
from rltui.frameworks.launch import ServiceCall
from rltui.services.http import post_json
from rltui.services.runs.experiments import name_if_needed
from rltui.services.runs.intent import AppliedEdit, Pending

_START_WINDOW_S = 60.0
"""A component that dies this soon after it was ready has not survived its start."""
_DEAD_STATES = (ComponentState.FAILED, ComponentState.BACKOFF)


class Transactions:
    """Executes plans on the components of `processes`. Has the lock that admits one decision at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._processes = runtime.processes
        self._runners = runtime.processes.runners
        self._config = runtime.config
        self._observation = runtime.observation
        self._events = runtime.events
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self._decision = asyncio.Lock()
        self.closed_reason: str | None = None
        """Why nothing is started any more, in words; `None` while something may be."""
        self.pending: Pending | None = None
        """The work that the next supervisor must finish, should this one be killed now."""

    @property
    def busy(self) -> bool:
        """True if something is being stopped, or about to be started."""
        return self._task is not None and not self._task.done()

    @property
    def under_way(self) -> str | None:
        return _describe(self.pending.plan) if self.pending is not None else None

    @asynccontextmanager
    async def deciding(self, *, starts: bool) -> AsyncIterator[None]:
        """Within this context, the inputs of a plan stay as they are until it is started: one decides at a
        time.

        Raises:
            ConflictError: if it `starts` something and nothing may start any more.
        """
        async with self._decision:
            if starts:
                self.refuse_if_closed()
            yield

    async def close(self, reason: str) -> None:
        """Start nothing from now on, and drop what is under way, once the present decision is made."""
        self.closed_reason = reason
        async with self._decision:
            await self.cancel()

    def refuse_if_closed(self) -> None:
        """Raise ConflictError after `close`."""
        if self.closed_reason is not None:
            raise ConflictError(self.closed_reason, hint="wait for the shutdown, then start again")

    def start(self, plan: Plan, request: Request, *, automatic: bool = False) -> None:
        """Execute `plan`; returns at once. `automatic`: by a restart policy, so that failures count on."""
        data = plan.model_dump(include={"action", "stop", "start", "keep"}) | {"by": request.by}
        self._events.journal.add("plan", _describe(plan), **data)
        # on disk, without the secrets of its edits
        saved_request = request.model_copy(update={"edits": {}, "texts": {}})
        self.resume(Pending(request=saved_request, plan=plan, automatic=automatic))

    def resume(self, pending: Pending) -> None:
        """Execute pending work, of this supervisor or of one that was killed."""
        self.pending = pending
        self._events.changed("pending")
        self._number += 1
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
                await self._call_services(plan)
        for name in plan.start:
            if request.given and self._runners[name].spec.is_manual:
                self._config.launcher.assign(name, request.given)
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


class Retries:
    """Starts that a restart policy promised, executed when they are due, as a plan of their own."""

    def __init__(self, transactions: Transactions, planner: Planner) -> None:
        self._transactions = transactions
        self._planner = planner

    def lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        del previous
        lifecycle = runner.lifecycle
        if lifecycle.state is ComponentState.BACKOFF and lifecycle.retry_at is not None:
            asyncio.get_running_loop().call_at(
                lifecycle.retry_at, lambda: spawn(self._retry(runner, lifecycle), f"retry {runner.spec.id}")
            )

    async def _retry(self, runner: ComponentRunner, lifecycle: Lifecycle) -> None:
        """Restart the component with its restart set, unless somebody did something else meanwhile."""
        request = Request(action="restart", components=(runner.spec.id,))
        while runner.lifecycle == lifecycle:
            await self._transactions.wait()
            try:
                async with self._transactions.deciding(starts=False):
                    if self._transactions.closed_reason is not None:
                        return
                    if self._transactions.busy:  # somebody was quicker
                        continue
                    plan = (await self._planner.plan_with_edit(request, automatic=True)).plan
                    if runner.lifecycle != lifecycle:
                        return
                    refuse_blocked(plan)
                    self._transactions.start(plan, request, automatic=True)
            except RltuiError as error:
                runner.give_up(f"not restarted: {str(error).replace(chr(10), ' ')}")
            return


class RollbackWatch:
    """Watches whether every component survives its start with the newest applied edit.

    Times are those of the wall clock, since a next supervisor may go on with them.
    """

    def __init__(
        self, experiment: str, *, alert: Callable[[Alert], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._experiment = experiment
        self._alert = alert
        self._clock = clock
        self.applied_edit: AppliedEdit | None = None
        """The edit that the next supervisor must go on watching, should this one be killed now."""

    @property
    def offer(self) -> RollbackOffer | None:
        """The edit that a component did not survive, and that nobody touched since."""
        return self.applied_edit.offer if self.applied_edit is not None else None

    def start(self, record: EditRecord, plan: Plan) -> None:
        """Watch the edit `record`, with which `plan` is about to be executed. After an undo there is nothing
        to watch: the next undo would take back another edit.
        """
        is_undo = record.action == "undo"
        self.applied_edit = (
            None if is_undo else AppliedEdit(number=record.number, words=record.words, components=plan.start)
        )

    def withdraw(self) -> None:
        """Stop watching: somebody went on with something else."""
        self.applied_edit = None

    def restore(self, applied_edit: AppliedEdit | None, undoable: EditRecord | None) -> None:
        """Go on watching an earlier supervisor's edit, if `undoable` is still that edit."""
        is_newest = (
            applied_edit is not None and undoable is not None and applied_edit.number == undoable.number
        )
        self.applied_edit = applied_edit if is_newest else None

    def with_components(self, request: Request) -> Request:
        """`request` with the component that died, if it is an undo that accepts the offer: that is started
        whether or not it reads what is undone.
        """
        if self.offer is None or self.applied_edit is None or request.action != "undo" or not request.restart:
            return request
        components = dict.fromkeys((*request.components, self.offer.component))
        return request.model_copy(update={"components": tuple(components)})

    def lifecycle_changed(self, component: ComponentRunner, previous: Lifecycle) -> None:
        applied_edit, lifecycle, name = self.applied_edit, component.lifecycle, component.spec.id
        if applied_edit is None or name not in applied_edit.components:
            return
        now = self._clock()
        if lifecycle.state is ComponentState.READY and previous.state is not lifecycle.state:
            recovered = applied_edit.offer is not None and applied_edit.offer.component == name
            self.applied_edit = applied_edit.model_copy(
                update={
                    "ready_at": {**applied_edit.ready_at, name: now},
                    "offer": None if recovered else applied_edit.offer,
                }
            )
            return
        is_starting = now - applied_edit.ready_at.get(name, now) <= _START_WINDOW_S
        if lifecycle.exit is not None and lifecycle.exit.from_outside:  # no edit's fault
            return
        if (
            applied_edit.offer is None
            and is_starting
            and lifecycle.state in _DEAD_STATES
            and previous.state not in _DEAD_STATES
        ):
            record = component.record
            after_text = f" after {duration(now - record.started_at)}" if record is not None else ""
            reason = f"{name} failed{after_text}: {lifecycle.reason or lifecycle.word}"
            offer = RollbackOffer(edit=applied_edit.words, component=name, reason=reason)
            self.applied_edit = applied_edit.model_copy(update={"offer": offer})
            undo = hints.UNDO_RESTART(name=name_if_needed(self._experiment))
            title = f"{name} failed after an edit"
            text = f"{applied_edit.words}: {reason}. To undo the edit: {undo}"
            self._alert(Alert(kind="config", severity="error", title=title, text=text, component=name))
