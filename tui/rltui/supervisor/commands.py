"""The commands of clients to an experiment: planned, and executed one decision at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from rltui.base.tasks import spawn
from rltui.core import hints
from rltui.core.config.data import deep_leaves
from rltui.core.experiment.api import Down, Plan, Request, RollbackOffer
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.plan import carried_out
from rltui.core.experiment.refusal import refuse, refuse_blocked
from rltui.core.experiment.rights import Act
from rltui.core.experiment.states import ComponentState
from rltui.core.runs.checkpoints import PrunePlan, Retention
from rltui.errors import ConflictError, RltuiError
from rltui.services.actor import acting_as, requester
from rltui.services.experiment.intent import AppliedEdit, Intent, Pending
from rltui.services.runs.checkpoints import delete
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.planner import Planned, Planner
from rltui.supervisor.rights import AgentRights
from rltui.supervisor.rollback import RollbackWatch
from rltui.supervisor.runs.checkpoints import CheckpointService
from rltui.supervisor.runtime import Runtime
from rltui.supervisor.transactions import Transactions


class Commands:
    """Decides, under one lock, and executes. The work in hand is a topic of the bus, `pending`."""

    def __init__(self, runtime: Runtime, checkpoints: CheckpointService) -> None:
        self._runtime = runtime
        self._name = runtime.setup.record.name
        self._processes = runtime.processes
        self._checkpoints = checkpoints
        self._planner = Planner(runtime)
        self._transactions = Transactions(runtime)
        self.rights = AgentRights(runtime, self.plan)
        self._rollback = RollbackWatch(self._name, alert=runtime.events.alert)
        runtime.events.on_lifecycle(self._rollback.lifecycle_changed)
        runtime.events.on_lifecycle(self._promise_retry)
        self._decision = asyncio.Lock()
        self._closed_reason = ""
        """Why nothing is started any more, in words; empty while something may be."""
        self.down: Down | None = None
        """The last shutdown, until anything was started again."""
        self._shutdown_task: asyncio.Task[None] | None = None
        """Shuts everything down, for all who ask for that."""
        self.finished = asyncio.Event()
        """Set when everything was shut down: there is nothing more to do."""

    def restore(self, intent: Intent) -> None:
        """Know what an earlier supervisor had in hand, before its components are adopted."""
        self.down = intent.down
        self._rollback.restore(intent.rollback, self._runtime.config.history.now().undoable)

    def resume(self, intent: Intent) -> None:
        """Finish the work that an earlier supervisor had in hand, once its components are adopted."""
        journal, runners = self._runtime.events.journal, self._processes.runners
        if self.down is not None and not self.down.complete:
            journal.add("supervisor", "continuing the shutdown that the killed supervisor had started")
            self._start_shutdown(self.down)
        elif intent.transaction is not None:
            journal.add("plan", "continuing the plan that the killed supervisor had started")
            self._transactions.resume(intent.transaction)
        else:
            for name in (*intent.waiting, *intent.backoff):
                if name in runners and not runners[name].spec.is_manual:
                    with acting_as(intent.actors.get(name)):
                        runners[name].start(automatic=True)

    # --- what is in hand ----------------------------------------------------------------------------------

    @property
    def pending(self) -> Pending | None:
        """The plan that the next supervisor must finish, should this one be killed now."""
        return self._transactions.pending

    @property
    def applied_edit(self) -> AppliedEdit | None:
        """The edit that the next supervisor must go on watching."""
        return self._rollback.applied_edit

    @property
    def is_busy(self) -> bool:
        """True if something is being stopped, or about to be started."""
        return self._transactions.busy

    @property
    def is_closed(self) -> bool:
        """True once everything is being shut down: nothing may start any more."""
        return bool(self._closed_reason)

    @property
    def under_way(self) -> str | None:
        """Describe the work in hand; `None` if there is none."""
        if self.down is not None and not self.down.complete:
            return f"stop everything, requested by {self.down.by}"
        under_way = self._transactions.under_way
        if under_way is None and self._runtime.config.makes_configs:
            return "the framework is writing the configs of the components to start"
        return under_way

    @property
    def offer(self) -> RollbackOffer | None:
        """The way back, from an edit or a run that has gone bad."""
        offer = self._rollback.offer
        return self._checkpoints.offer if offer is None and self.under_way is None else offer

    # --- requests of clients ------------------------------------------------------------------------------

    async def plan(self, request: Request) -> Plan:
        return await self._planner.plan(self._rollback.with_components(request))

    async def execute(self, request: Request) -> Plan:
        """Begin what `request` asks and return its plan. It goes on whatever becomes of the client.

        Raises:
            ConfigError: if an error forbids it; nothing was done.
            ConflictError: if another transaction is under way, everything is being shut down, a port is
                taken, or a config file is not what the person saw.
        """
        starts = request.action not in ("stop", "free")
        if starts:
            self._refuse_if_closed()
        request = await self._planner.validate_request(self._rollback.with_components(request))
        async with self._deciding(starts=starts):
            request = self._rollback.with_components(request)
            return await self._execute_plan(request, await self._planner.plan_with_edit(request))

    @asynccontextmanager
    async def _deciding(self, *, starts: bool) -> AsyncIterator[None]:
        """Within this context, the inputs of a plan stay as they are until it is started: one decides at a
        time.

        Raises:
            ConflictError: if it `starts` something and nothing may start any more.
        """
        async with self._decision:
            if starts:
                self._refuse_if_closed()
            yield

    def _refuse_if_closed(self) -> None:
        if self._closed_reason:
            raise ConflictError(
                self._closed_reason, hint="wait for the shutdown, then start again", code="shut_down"
            )

    async def _execute_plan(self, request: Request, planned: Planned) -> Plan:
        """The caller holds the lock of decisions."""
        plan, edit = planned.plan, planned.edit
        refuse(plan, request)
        act, is_first = self._act(request, planned)
        effects = carried_out(plan, request)
        await self.rights.check(act, "execute", request.to_plain(), plan=effects, first=is_first)
        if self._transactions.busy and request.moves and request.action != "stop":
            raise ConflictError(
                f"busy: {self._transactions.under_way or 'another request'} is in progress",
                hint=f"try again once that is done; {hints.STATUS(name=self._name)} shows progress",
                code="busy",
            )
        acts = request.moves and bool(plan.stop or plan.start or plan.free)
        if acts:
            await self._transactions.cancel()
        record = None
        if edit is not None:
            record = await asyncio.to_thread(self._runtime.config.document.commit, edit)
        if record is not None or request.action in ("start", "restart"):
            self._rollback.withdraw()
        if record is not None and acts:
            self._rollback.start(record, plan)
        if acts and plan.start:
            self._runtime.config.trust()
        if acts:
            self.down = None if plan.start else self.down
            self._transactions.start(plan, request)
        if record is not None:
            self._runtime.events.changed("knobs")
        self._runtime.events.changed("pending")
        return plan

    def _act(self, request: Request, planned: Planned) -> tuple[Act, bool]:
        """The request as rights see it; and whether it is the first start of a new run."""
        plan, edit, document = planned.plan, planned.edit, self._runtime.config.document
        starts = bool(plan.start) and request.moves
        is_first = request.is_first and not any(runner.attempt for runner in self._processes.runners.values())
        files = () if edit is None else edit.changes.values()
        changes = {key: new for file in files for key, (_, new) in file.values.items()}
        config = {}
        if request.action in ("undo", "redo"):  # without the key it was as somebody else had it
            changes = {key: new for key, new in changes.items() if new is not None}
        elif is_first:
            tables = (deep_leaves(file.data) for file in document.files.values())
            config = {key: value for table in tables for key, value in table.items()}
        elif starts:
            running = self._runtime.config.running(self._processes.attempts())
            config = {knob.key: knob.value for knob in document.pending(running, document.files)}
        act = Act(
            request.action,
            changes=changes,
            config=config,
            restarts=starts and not is_first,
            creates=starts and not self._processes.alive(),
        )
        return act, is_first

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        """Delete checkpoints that `retention` leaves over, of those that a person was shown.

        Raises:
            ConflictError: if a start or restart is under way, which may need one of them.
            UsageError: if somebody else runs the experiment.
            RltuiError: if one cannot be deleted.
        """
        async with self._deciding(starts=False):
            if self._transactions.busy:
                raise ConflictError(
                    "a start or restart is in progress",
                    hint="nothing was deleted; wait until that is done",
                    code="busy",
                )
            plan, folders = await self._checkpoints.remove(retention, only)
        await asyncio.to_thread(delete, folders)
        return plan

    # --- starts that a restart policy promised ------------------------------------------------------------

    def _promise_retry(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        del previous
        lifecycle = runner.lifecycle
        if lifecycle.state is ComponentState.BACKOFF and lifecycle.retry_at is not None:
            asyncio.get_running_loop().call_at(
                lifecycle.retry_at, lambda: spawn(self._retry(runner, lifecycle), f"retry {runner.spec.id}")
            )

    async def _retry(self, runner: ComponentRunner, lifecycle: Lifecycle) -> None:
        """Restart the component with its restart set, as a plan of its own, unless somebody did something
        else meanwhile.
        """
        request = Request(action="restart", components=(runner.spec.id,))
        while runner.lifecycle == lifecycle:
            await self._transactions.wait()
            try:
                async with self._deciding(starts=False):
                    if self.is_closed:
                        return
                    if self._transactions.busy:  # somebody was quicker
                        continue
                    plan = (await self._planner.plan_with_edit(request, automatic=True)).plan
                    if runner.lifecycle != lifecycle:
                        return
                    refuse_blocked(plan)
                    with acting_as(runner.actor):
                        self._transactions.start(plan, request, automatic=True)
            except RltuiError as error:
                runner.give_up(f"not restarted: {str(error).replace(chr(10), ' ')}")
            return

    # --- the end ------------------------------------------------------------------------------------------

    @property
    def is_shutting_down(self) -> bool:
        """True if everything is being shut down, or was; false where that failed."""
        task = self._shutdown_task
        return task is not None and not (task.done() and task.exception() is not None)

    async def shut_down(self, by: str, *, is_idle: bool = False) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left.

        From the first call on nothing can be started; whoever else calls waits for the same end. It comes
        whatever becomes of the callers. `is_idle`: nothing runs, or is about to.
        """
        if not self.is_shutting_down:
            self._runtime.events.journal.add("supervisor", f"shut down by {by}")
            earlier = self.down if is_idle else None  # nothing was started since: that one did it
            down = Down(by=by, actor=requester(), at=time.time(), idle=is_idle)
            self._start_shutdown(down if earlier is None else earlier)
        assert self._shutdown_task is not None
        await asyncio.shield(self._shutdown_task)

    def _start_shutdown(self, down: Down) -> None:
        self.down = down = down.replace(complete=False)
        self.rights.expire("the run was shut down")
        with acting_as(down.actor):
            self._shutdown_task = spawn(self._shut_everything_down(down), "down")
        self._runtime.events.changed("pending")

    async def _shut_everything_down(self, down: Down) -> None:
        unseen = self._processes.ssh_components(self._processes.alive())
        self._closed_reason = f"{self._name} is being shut down by {down.by}"
        async with self._decision:  # whoever decides now is let finish
            await self._transactions.cancel()
        await self._processes.stop(self._processes.runners)
        await self._transactions.wait()  # a stop that was asked for meanwhile
        orphans = self._processes.orphans
        await orphans.search()
        if orphans.orphans:
            await orphans.free(orphans.orphans)
        remaining = self._processes.remaining_processes()
        text = (
            f"stopped, but some processes cannot be ended: {'; '.join(remaining)}"
            if remaining
            else "stopped: no process is left"
        )
        if unseen:
            text += f" on this machine; commands run by ssh cannot be observed: {', '.join(unseen)}"
        self._runtime.events.journal.add("supervisor", text)
        self.down = down.replace(complete=True, left=remaining, unseen=unseen)
        self._runtime.events.changed("pending")
        self.finished.set()
