"""The supervisor of one experiment, over its processes, its config and the observation of its run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection

from rltui.core import hints
from rltui.core.api import EDITS, Alert, Down, Plan, Progress, Request, Status
from rltui.core.checkpoints import PrunePlan, Retention
from rltui.core.config_report import BatchUnit, Conversion, KnobTable
from rltui.core.lifecycle import Lifecycle
from rltui.core.refusal import refuse
from rltui.core.states import ComponentState
from rltui.daemon.checkpoints import CheckpointService
from rltui.daemon.component import ComponentRunner
from rltui.daemon.config import Config, Setup
from rltui.daemon.eval_servers import EvalServers
from rltui.daemon.eval_work import EvalWork
from rltui.daemon.evals import EvalScheduler
from rltui.daemon.events import EventBus, Message, config_alert, encode
from rltui.daemon.gpu_account import GpuAccount
from rltui.daemon.gpu_advice import RemedyAdvisor
from rltui.daemon.observation import Observation
from rltui.daemon.planner import Planned, Planner
from rltui.daemon.processes import Processes
from rltui.daemon.servers import Servers
from rltui.daemon.status import StatusBuilder
from rltui.daemon.tasks import spawn
from rltui.daemon.transactions import Retries, RollbackWatch, Transactions
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.step_times import conversion
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.processes import ProcessOwners
from rltui.services.runs.checkpoints import delete
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.intent import IntentFile, failures, intent_of
from rltui.services.runs.last_config import last_max_steps
from rltui.services.tmux import TmuxHost


class Supervisor:
    """Starts, watches and stops the components of `record`, and publishes events to subscribers.

    The only owner of process state. Built on the loop it lives on.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        self.setup = setup = Setup.of(record)
        self.events = events = EventBus(setup.control.journal_file, needs=setup.layout.needs)
        self.gpu_readings = GpuReadings()
        self.observation = Observation(setup, events)
        self.config = Config(
            setup, events, derive=self.observation.times.derive, choose=self.gpu_readings.chosen
        )
        forecaster = Forecaster(
            layout=setup.layout,
            framework=setup.framework,
            launcher=self.config.launcher,
            control=setup.control,
            workspace=setup.workspace,
        )
        self.servers = Servers(setup, self.config, self.observation, events)
        self.processes = run_processes = Processes(
            setup,
            events,
            self.config,
            self.observation,
            self.gpu_readings,
            forecaster,
            self.servers,
            tmux=tmux,
        )
        self.gpu_account = GpuAccount(
            record.name, run_processes.runners, run_processes.forecast, run_processes.reservations.others
        )
        remedies = RemedyAdvisor(self.config.document, self.config.launcher, forecaster, self.gpu_readings)
        self.builder = StatusBuilder(
            setup, self.config, self.observation, self.processes, remedies, self.servers
        )
        self._planner = Planner(
            setup, self.config, self.observation, self.processes, self.gpu_readings, self.servers
        )
        self._transactions = Transactions(
            self.processes,
            self.config,
            self.observation,
            events,
            on_change=self._pending_changed,
            resets=self.servers.resets,
            on_start=lambda: self.config.save_provenance(self.gpu_readings.newest.driver),
        )
        self.checkpoints = CheckpointService(setup, self.config, self.observation, self.processes, events)
        self._rollback = RollbackWatch(record.name, alert=events.alert)
        retries = Retries(self._transactions, self._planner)
        self.processes.listeners += [
            self._rollback.lifecycle_changed,
            lambda *_: self.save_intent(),
            retries.lifecycle_changed,
            self._announce_end,
        ]
        servers = EvalServers(setup, self.config, self.processes.runners, self.gpu_readings, forecaster)
        eval_work = EvalWork(
            setup,
            self.config,
            self.observation,
            self.processes,
            events,
            servers=servers,
            is_done=self.builder.is_done,
        )
        self.evals = EvalScheduler(
            eval_work, events, may_start=lambda: self._transactions.closed_reason is None
        )
        self._intent = IntentFile(setup.control.intent_file)
        self._down: Down | None = None
        """The last shutdown, until anything was started again."""
        self._shutdown_task: asyncio.Task[None] | None = None
        """Shuts everything down, for all who ask for that."""
        self.finished = asyncio.Event()
        """Set when everything was shut down: there is nothing more to do."""
        events.on_change("status", self._publish_status)
        events.on_change("knobs", self._publish_knobs)

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish its pending work."""
        journal, runners = self.events.journal, self.processes.runners
        self.config.reconcile()
        self._publish_knobs()
        self.observation.logs.poll()
        self.observation.progress.poll()
        journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        intent = self._intent.read()
        self._down = intent.down
        self._rollback.restore(intent.rollback, self.config.history.now().undoable)
        owners = ProcessOwners()
        for name, runner in runners.items():
            runner.adopt(owners, failures=failures(intent, name), was_alive=name in intent.alive)
            if runner.launch is not None:
                self.config.launcher.assign(name, runner.launch.given)
            if runner.log is not None:
                self.observation.follow(name, runner.log)
        self.processes.orphans.request_search()
        self.processes.reservations.adopt()
        if self._down is not None and not self._down.complete:
            journal.add("supervisor", "continuing the shutdown that the killed supervisor had started")
            self._start_shutdown(self._down)
        elif intent.transaction is not None:
            journal.add("plan", "continuing the plan that the killed supervisor had started")
            self._transactions.resume(intent.transaction)
        else:
            for name in (*intent.waiting, *intent.backoff):
                if name in runners and not runners[name].spec.is_manual:
                    runners[name].start(automatic=True)
        self.save_intent()

    @property
    def is_idle(self) -> bool:
        """True if nothing runs or is about to, and there is no run of somebody else to observe."""
        is_busy = self._transactions.busy or bool(self.evals.queue) or self.setup.record.observed
        return not is_busy and not self.builder.is_alive()

    async def shut_down(self, by: str, *, only_idle: bool = False) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left.

        From the first call on nothing can be started; whoever else calls waits for the same end. It comes
        whatever becomes of the callers.

        Raises:
            ConflictError: if it shall be `only_idle`, and something runs or is about to.
        """
        if self._shutdown_task is None or (
            self._shutdown_task.done() and self._shutdown_task.exception() is not None
        ):
            name = self.setup.record.name
            if only_idle and not self.is_idle:
                raise ConflictError(
                    f"{name} is running", hint=f"{hints.STATUS(name=name)} shows its components"
                )
            self.events.journal.add("supervisor", f"shut down by {by}", by=by)
            earlier = self._down if only_idle else None  # nothing was started since: that one did it
            self._start_shutdown(Down(by=by, at=time.time(), idle=only_idle) if earlier is None else earlier)
        assert self._shutdown_task is not None
        await asyncio.shield(self._shutdown_task)

    def _start_shutdown(self, down: Down) -> None:
        self._down = down = down.model_copy(update={"complete": False})
        self._shutdown_task = spawn(self._shut_everything_down(down), "down")
        self._pending_changed()

    async def _shut_everything_down(self, down: Down) -> None:
        unseen = self.processes.ssh_components(self.processes.alive())
        await self._transactions.close(f"{self.setup.record.name} is being shut down by {down.by}")
        await self.processes.stop(self.processes.runners)
        await self._transactions.wait()  # a stop that was asked for meanwhile
        orphans = self.processes.orphans
        await orphans.search()
        if orphans.orphans:
            await orphans.free(orphans.orphans)
        remaining = self.processes.remaining_processes()
        text = (
            f"stopped, but some processes cannot be ended: {'; '.join(remaining)}"
            if remaining
            else "stopped: no process is left"
        )
        if unseen:
            text += f" on this machine; commands run by ssh cannot be observed: {', '.join(unseen)}"
        self.events.journal.add("supervisor", text)
        self._down = down.model_copy(update={"complete": True, "left": remaining, "unseen": unseen})
        self._pending_changed()
        self.finished.set()

    async def close_terminal(self) -> None:
        """Close the tmux session, which this process's own terminal belongs to."""
        try:
            await self.processes.terminal.close()
        except RltuiError as error:
            text = f"its terminals remain: {' '.join(str(error).split())}"
            self.events.journal.add("supervisor", text)

    # --- requests of clients ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Everything about processes and progress, as of the last poll of the metrics."""
        down = self._down
        under_way = self._transactions.under_way
        if under_way is None and self.config.makes_configs:
            under_way = "the framework is writing the configs of the components to start"
        if down is not None and not down.complete:
            under_way = f"stop everything, requested by {down.by}"
        offer = self._rollback.offer
        if offer is None and under_way is None:
            offer = self.checkpoints.offer
        return self.builder.build(transaction=under_way, down=down, rollback=offer, evals=self.evals.queue)

    def _announce_end(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        """Tell everybody that the run is done, once its last job ends."""
        has_exited = runner.lifecycle.state is ComponentState.EXITED and not runner.spec.is_manual
        if has_exited and runner.lifecycle.state != previous.state and self.builder.is_done():
            self.events.alert(_done_alert(self.observation.progress.progress, self.processes.alive()))

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now. May raise ConfigError."""
        return self.config.knobs(self.processes.attempts())

    def convert(self, to: BatchUnit | None, mean_tokens: float | None) -> Conversion:
        """`mean_tokens` defaults to the mean that this run measured. May raise ConfigError."""
        progress = self.observation.progress
        progress.poll()
        table = self.knobs()
        files, framework = self.config.document.files, self.setup.framework
        return conversion(framework, files, table, progress.series, to=to, mean_tokens=mean_tokens)

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
            self._transactions.refuse_if_closed()
        request = await self._planner.validate_request(self._rollback.with_components(request))
        async with self._transactions.deciding(starts=starts):
            request = self._rollback.with_components(request)
            return await self._execute_plan(request, await self._planner.plan_with_edit(request))

    async def _execute_plan(self, request: Request, planned: Planned) -> Plan:
        """The caller holds the lock of decisions."""
        plan, edit = planned.plan, planned.edit
        refuse(plan, request)
        moves = request.action not in EDITS or request.restart
        if self._transactions.busy and moves and request.action != "stop":
            raise ConflictError(
                f"busy: {self._transactions.under_way or 'another request'} is in progress",
                hint=(
                    f"try again once that is done; {hints.STATUS(name=self.setup.record.name)} shows progress"
                ),
            )
        acts = moves and bool(plan.stop or plan.start or plan.free)
        if acts:
            await self._transactions.cancel()
        record = None
        if edit is not None:
            record = await asyncio.to_thread(self.config.document.commit, edit)
        if record is not None or request.action in ("start", "restart"):
            self._rollback.withdraw()
        if record is not None and acts:
            self._rollback.start(record, plan)
        if acts and plan.start:
            self.config.trust()
        if acts:
            self._down = None if plan.start else self._down
            self._transactions.start(plan, request)
        if record is not None:
            self._publish_knobs()
        self._pending_changed()
        return plan

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        """Delete checkpoints that `retention` leaves over, of those that a person was shown.

        Raises:
            ConflictError: if a start or restart is under way, which may need one of them.
            UsageError: if somebody else runs the experiment.
            RltuiError: if one cannot be deleted.
        """
        async with self._transactions.deciding(starts=False):
            if self._transactions.busy:
                raise ConflictError(
                    "a start or restart is in progress", hint="nothing was deleted; wait until that is done"
                )
            plan, folders = await self.checkpoints.remove(retention, only)
        await asyncio.to_thread(delete, folders)
        return plan

    # --- what subscribers receive -------------------------------------------------------------------------

    def current_state(self) -> list[Message]:
        """The messages that a new subscriber receives first."""
        messages: list[Message] = [
            ("status", encode(self.status())),
            ("gpus", encode(self.gpu_readings.newest)),
        ]
        try:
            messages.append(("knobs", encode(self.knobs())))
        except ConfigError as error:
            messages.append(("alert", encode(config_alert(error))))
        return messages

    def _publish_status(self) -> None:
        self.events.publish("status", self.status())

    def _publish_knobs(self) -> None:
        """Publish the files as they are now, and take knobs of health from them; `max_steps` is that of the
        last start.
        """
        setup = self.setup
        self.observation.progress.max_steps = last_max_steps(setup.record, setup.framework, setup.run_jobs)
        try:
            table = self.knobs()
        except ConfigError as error:
            self.events.config_error(error)
            return
        self.events.config_error(None)
        framework, files = setup.framework, self.config.document.files
        trainer = self.observation.progress.component_names.get("trainer", "")
        self.observation.health.set_knobs(
            framework.config.bottleneck_knobs(files),
            framework.config.advice(files),
            table.learning_rate(trainer),
        )
        self.events.publish("knobs", table)

    # --- what is in hand ----------------------------------------------------------------------------------

    def save_intent(self) -> None:
        """Write the pending work down, where it has changed or the file is damaged."""
        lives = {name: runner.lifecycle for name, runner in self.processes.runners.items()}
        pending, applied_edit = self._transactions.pending, self._rollback.applied_edit
        self._intent.write(intent_of(lives, pending, applied_edit, self._down))

    def _pending_changed(self) -> None:
        self.save_intent()
        self._publish_status()


def _done_alert(progress: Progress, still_running: Collection[str]) -> Alert:
    reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
    running_text = f"; still running: {', '.join(still_running)}" if still_running else ""
    text = f"step {progress.step}/{progress.max_steps}{reward}{running_text}"
    return Alert(kind="finished", severity="information", title="the run is done", text=text)
