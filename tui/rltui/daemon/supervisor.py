"""The supervisor of one experiment: the only owner of process state. Lives on one asyncio loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rltui.core.api import EDITS, ComponentState, Down, Plan, Request, Status
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.report import GpuReport
from rltui.core.lifecycle import ExitInfo, Life
from rltui.core.stalls import InferenceActivity
from rltui.daemon.broadcast import Message
from rltui.daemon.causes import Causes
from rltui.daemon.component import ComponentRunner
from rltui.daemon.config_desk import ConfigDesk
from rltui.daemon.forecast import MemoryOutlook, RemedyDesk
from rltui.daemon.gpu import GpuPicture
from rltui.daemon.launches import Launches
from rltui.daemon.obstacles import Obstacles
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.picture import Picture
from rltui.daemon.plan_desk import PlanDesk
from rltui.daemon.planner import Planner, refuse_blocked
from rltui.daemon.resolved_configs import ResolvedConfigs
from rltui.daemon.retries import Retries
from rltui.daemon.rollback import RollbackWatch
from rltui.daemon.run_news import done_alert, keeper_alert, stall_alert
from rltui.daemon.run_start import RunStart
from rltui.daemon.service_calls import ServiceCalls
from rltui.daemon.setup import Setup
from rltui.daemon.start_times import StartTimes
from rltui.daemon.tasks import spawn
from rltui.daemon.telling import Teller, config_alert, encoded
from rltui.daemon.terminal import Terminal
from rltui.daemon.transactions import Transactions
from rltui.daemon.wiring import memory_plan_of, progress_of
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services import processes
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.intent import IntentFile, failures, intent_of
from rltui.services.launch import Launch, Launcher
from rltui.services.logs.followed import FollowedLogs
from rltui.services.models import OwnModels
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.run_folder import ResumePoints, RunFolder
from rltui.services.tmux import TmuxHost


class Supervisor:
    """Starts, watches and stops the components of `record`, and tells subscribers what happens.

    Built on the loop it lives on.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        setup = Setup.of(record)
        self.record = record
        self.control = setup.control
        self.failure_patterns: Sequence[FailurePattern] = setup.framework.failures
        """What its components print when they fail."""
        self.teller = Teller(self.control.journal_file, needs=setup.layout.needs)
        self.gpu_readings = GpuReadings()
        self.runners = {spec.id: ComponentRunner(spec=spec, around=self) for spec in setup.layout.component}
        self._stop_order = tuple(reversed(setup.layout.start_order()))
        recipe = Launcher(record, setup.layout, setup.framework, choose=self.gpu_readings.chosen)
        self.config = ConfigDesk(setup, recipe, self.runners, self.teller, progress=lambda: self.progress)
        store = self.config.store
        self.folder = RunFolder(Path(record.run_dir), self.config.run_files(), Path(record.output_dir))
        self.logs = FollowedLogs(Path(record.run_dir), setup.layout.log)
        self.progress = progress_of(setup, self.folder, self.logs, self.runners)
        self._rollback = RollbackWatch(alert=self.teller.alert)
        self.orphans = OrphanWatch(
            record,
            self.control,
            self.runners,
            self.teller,
            gpus=lambda: self.gpu_readings.newest,
            changed=self._orphans_changed,
        )
        self.activities: dict[str, InferenceActivity] = {}
        """What the living inference servers were last seen doing."""
        memory = memory_plan_of(setup, recipe)
        outlook = MemoryOutlook(setup.layout, self.runners, store, memory, self.gpu_readings)
        self.gpu_picture = GpuPicture(record.name, self.runners, outlook)
        self._picture = Picture(
            setup=setup,
            store=store,
            rollback=self._rollback,
            recipe=recipe,
            progress=self.progress,
            logs=self.logs,
            runners=self.runners,
            orphans=self.orphans,
            activities=self.activities,
            outlook=outlook,
            remedies=RemedyDesk(store, recipe, memory, self.control, self.gpu_readings),
            transaction=lambda: self._end_under_way() or self._transactions.under_way,
            down=lambda: self._down,
        )
        run_start = RunStart(self._picture, self.folder, self.control.run_id_file, self.teller)
        resolved = ResolvedConfigs(record, self.control, recipe, self.teller)
        self._launches = Launches(
            store, recipe, resolved, run_start, self.gpu_readings, own=self.control.path
        )
        points = ResumePoints(setup.framework, self.control, self.folder, setup.run_jobs)
        planner = Planner(self._picture, self.config, points, StartTimes(self.control.journal_file))
        self._own = OwnModels(setup.framework, setup.workspace)
        self._plans = PlanDesk(planner, store, self.orphans, self.gpu_readings, self._launches, self._own)
        self._obstacles = Obstacles(self.orphans, self.gpu_readings.fresh)
        self._causes = Causes(self.failure_patterns)
        self._intent = IntentFile(self.control.intent_file)
        calls = ServiceCalls(
            self.runners, self.teller, calls=self._launches.service_calls, jobs=self._picture.run_jobs
        )
        self._transactions: Transactions = Transactions(
            self.runners,
            self.teller,
            prepare_run=run_start.prepare,
            call_services=calls.make,
            free=self.orphans.free,
            changed=self._transaction_changed,
            next_change=self.next_change,
        )
        self._retries = Retries(self._transactions, self._plans.plan)
        self._terminal = Terminal(tmux, record)
        self._changed = asyncio.Event()
        self._down: Down | None = None
        """Since the last start of anything."""
        self._ending: asyncio.Task[None] | None = None
        """Takes everything down, for all who ask for that."""
        self.ended = asyncio.Event()
        """Everything was taken down: there is nothing more to do."""

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish what it had begun."""
        self.config.settle()
        self.config.publish()
        self.logs.look()
        self.progress.poll()
        self.teller.journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        intent = self._intent.read()
        self._down = intent.down
        self._rollback.restore(intent.rollback)
        traces = processes.Traces()
        for name, runner in self.runners.items():
            runner.adopt(traces, failures=failures(intent, name), was_alive=name in intent.alive)
        self.orphans.look()
        if self._down is not None and not self._down.complete:
            self.teller.journal.add(
                "supervisor", "going on with taking it down, as the killed supervisor had begun"
            )
            self._begin_end(self._down)
        elif intent.transaction is not None:
            self.teller.journal.add("plan", "going on with what the killed supervisor had begun")
            self._transactions.resume(intent.transaction)
        else:
            for name in (*intent.waiting, *intent.backoff):
                if name in self.runners:
                    self.runners[name].start(automatic=True)
        self.keep_intent()

    async def shut_down(self, by: str, *, only_idle: bool = False) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left.

        From the first call on nothing can be started; whoever else calls waits for the same end. It comes
        whatever becomes of the callers.

        Raises:
            ConflictError: if it shall be `only_idle`, and something runs or is about to.
        """
        if self._ending is None or (self._ending.done() and self._ending.exception() is not None):
            if only_idle and (self._transactions.busy or self._picture.status().state == "running"):
                raise ConflictError(f"{self.record.name} is running", hint="rltui status tells what")
            self.teller.journal.add("supervisor", f"is taken down by {by}", by=by)
            before = self._down if only_idle else None  # nothing was started since: that one did it
            self._begin_end(Down(by=by, at=time.time()) if before is None else before)
        assert self._ending is not None
        await asyncio.shield(self._ending)

    def _end_under_way(self) -> str | None:
        down = self._down
        return None if down is None or down.complete else f"stop everything, asked for by {down.by}"

    def _begin_end(self, down: Down) -> None:
        self._down = down = down.model_copy(update={"complete": False})
        self._ending = spawn(self._take_down(down), "down")
        self.keep_intent()
        self.publish_status()

    async def _take_down(self, down: Down) -> None:
        unseen = self._picture.remote(name for name, runner in self.runners.items() if runner.life.alive)
        await self._transactions.close(f"{self.record.name} is being taken down by {down.by}")
        for name in self._stop_order:
            await self.runners[name].stop()
        await self._transactions.wait()  # a stop that was asked for meanwhile
        await self.orphans.search()
        if self.orphans.orphans:
            await self.orphans.free(self.orphans.orphans)
        left = tuple(
            f"{processes.why_it_lives(processes.ProcessId(orphan.pid, orphan.start))}"
            + (f", of {orphan.component}" if orphan.component else "")
            for orphan in self.orphans.orphans
        )
        ended = f"stopped, but cannot be ended: {'; '.join(left)}" if left else "stopped: no process is left"
        if unseen:
            ended += f" on this machine; whether what ssh ran has ended cannot be seen: {', '.join(unseen)}"
        self.teller.journal.add("supervisor", ended)
        self._down = down.model_copy(update={"complete": True, "left": left, "unseen": unseen})
        self.keep_intent()
        self.publish_status()
        self.ended.set()

    def close(self) -> None:
        """End what answers questions, and nothing else: components go on."""
        self._own.close()

    async def close_terminal(self) -> None:
        """Close the tmux session, this process's own terminal with it."""
        try:
            await self._terminal.close()
        except RltuiError as error:
            self.teller.journal.add("supervisor", f"its terminals stay: {' '.join(str(error).split())}")

    # --- requests of clients ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Everything about processes and progress, as of now."""
        return self._picture.status()

    async def plan(self, request: Request) -> Plan:
        """What `request` would do, once all leftovers are known.

        Raises:
            ConfigError: if a config file, a name or an edited value cannot be understood.
        """
        return await self._plans.plan(request)

    async def execute(self, request: Request) -> Plan:
        """Begin what `request` asks and return its plan. It goes on whatever becomes of the client.

        Raises:
            ConfigError: if an error forbids it; nothing was done.
            ConflictError: if another transaction is under way, everything is being taken down, a port is
                taken, or a config file is not what the person saw.
        """
        starts = request.action not in ("stop", "free")
        if starts:
            self._transactions.refuse_if_closed()
        request = await self._plans.rehearsed(request)
        async with self._transactions.deciding(starts=starts):
            return await self._decided(request)

    async def _decided(self, request: Request) -> Plan:
        """Plan and begin, with nobody else deciding meanwhile."""
        planned = await self._plans.planned(request)
        plan, edit = planned.plan, planned.edit
        if not plan.conflicts:
            refuse_blocked(plan)
        moves = request.action not in EDITS or request.restart
        if self._transactions.busy and moves and request.action != "stop":
            raise ConflictError("another start or restart is under way", hint="wait for it, or stop it first")
        acts = moves and bool(plan.stop or plan.start or plan.free)
        if acts:
            await self._transactions.cancel()
        record = None
        if edit is not None:
            record = await asyncio.to_thread(self.config.editor.apply, request, edit)
        if record is not None or request.action in ("start", "restart"):
            self._rollback.withdraw()
        if record is not None and acts:
            self._rollback.begin(record, plan)
        if acts and plan.start:
            self.config.trust()
        if acts:
            self._down = None if plan.start else self._down
            self._transactions.begin(plan, request)
        if record is not None:
            self.config.publish()
        self.keep_intent()
        self.publish_status()
        return plan

    def current_state(self) -> list[Message]:
        """What a new subscriber receives first."""
        messages: list[Message] = [
            ("status", encoded(self.status())),
            ("gpus", encoded(self.gpu_readings.newest)),
        ]
        try:
            messages.append(("knobs", encoded(self.config.knobs())))
        except ConfigError as error:
            messages.append(("alert", encoded(config_alert(error))))
        return messages

    # --- what the watching loops report -------------------------------------------------------------------

    def publish_status(self) -> None:
        """Tell subscribers about processes and progress."""
        self.teller.publish("status", self.status())

    def publish_gpus(self, report: GpuReport) -> None:
        """Tell subscribers about the GPUs."""
        self.teller.publish("gpus", report)

    def set_stall(self, component: str, evidence: str | None) -> None:
        """A living component gives no sign of life, by this evidence; `None`: it does again."""
        runner = self.runners[component]
        if runner.evidence == evidence:
            return
        is_news = (runner.evidence is None) != (evidence is None)
        runner.evidence = evidence if runner.life.alive else None
        if is_news and runner.life.alive:
            self.teller.alert(stall_alert(component, evidence))
        self.publish_status()

    def set_activity(self, component: str, activity: InferenceActivity | None) -> None:
        """What an inference server is doing now; `None` where it does not say."""
        before = self.activities.get(component)
        if activity is None:
            self.activities.pop(component, None)
        else:
            self.activities[component] = activity
        if activity != before:
            self.publish_status()

    def _orphans_changed(self) -> None:
        self.publish_status()
        self._wake()

    # --- Surroundings of the runners ----------------------------------------------------------------------

    def life_changed(self, runner: ComponentRunner, before: Life) -> None:
        """Record, tell and wake."""
        self.teller.change(runner, before)
        self._rollback.life_changed(runner, before)
        self.keep_intent()
        self._retries.life_changed(runner)
        if runner.life.state is ComponentState.EXITED and self._picture.is_done():
            self.teller.alert(done_alert(self.progress.progress, self._picture.alive()))
        if runner.life.alive != before.alive:
            self.config.publish()
        if runner.life.alive and not before.alive:
            self._causes.began(runner.spec.id)
            self.progress.began(runner.spec.id)
        if before.alive and not runner.life.alive:
            self.activities.pop(runner.spec.id, None)
            self.orphans.look()
        self.publish_status()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def next_change(self) -> None:
        """Returns when any component has changed."""
        await self._changed.wait()

    def why_held(self, component: str) -> tuple[bool, str] | None:
        """What a start waits for; False where that cannot come any more."""
        return self._picture.why_held(component)

    async def obstacle(self, component: str, launch: Launch) -> str | None:
        """What on this box is in the way of a start."""
        return await self._obstacles.first(component, launch)

    async def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Snapshot the config and fill in the command, once it is known which GPUs there are."""
        return await self._launches.prepare(component, attempt_dir)

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim in the component's window of the private tmux server."""
        await self._terminal.open_window(component, attempt_dir)

    def keeper_lost(self, runner: ComponentRunner) -> None:
        """Worth telling: what such a component leaves behind is harder to find."""
        self.teller.alert(keeper_alert(runner.spec.id, runner.pid))

    async def explain(self, runner: ComponentRunner, exit_info: ExitInfo) -> ExitInfo:
        """Add what its output says of the cause."""
        return await self._causes.explain(runner, exit_info)

    # --- helpers ------------------------------------------------------------------------------------------

    def _transaction_changed(self) -> None:
        self.keep_intent()
        self.publish_status()

    def keep_intent(self) -> None:
        """Write down what is in hand, where that changed or the file is damaged."""
        lives = {name: runner.life for name, runner in self.runners.items()}
        pending, applied = self._transactions.pending, self._rollback.applied
        self._intent.write(intent_of(lives, pending, applied, self._down))
