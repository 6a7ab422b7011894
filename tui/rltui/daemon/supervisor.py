"""The supervisor of one experiment: the only owner of process state. One asyncio loop, no locks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from rltui.core.api import EDITS, ComponentState, Plan, Request, Status
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.report import GpuReport
from rltui.core.inference_activity import InferenceActivity
from rltui.core.lifecycle import ExitInfo, Life
from rltui.daemon.broadcast import Message
from rltui.daemon.causes import Causes
from rltui.daemon.component import ComponentRunner
from rltui.daemon.config_desk import ConfigDesk
from rltui.daemon.gpu_picture import GpuPicture
from rltui.daemon.gpu_readings import GpuReadings
from rltui.daemon.launches import Launches
from rltui.daemon.memory_outlook import MemoryOutlook
from rltui.daemon.obstacles import Obstacles
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.picture import Picture
from rltui.daemon.plan_desk import PlanDesk
from rltui.daemon.planner import Planner, refuse_blocked
from rltui.daemon.remedies import RemedyDesk
from rltui.daemon.resolved_configs import ResolvedConfigs
from rltui.daemon.retries import Retries
from rltui.daemon.rollback import RollbackWatch
from rltui.daemon.run_news import done_alert, keeper_alert, stall_alert
from rltui.daemon.run_start import RunStart
from rltui.daemon.service_calls import ServiceCalls
from rltui.daemon.setup import Setup
from rltui.daemon.start_times import StartTimes
from rltui.daemon.telling import Teller, config_alert, encoded
from rltui.daemon.terminal import Terminal
from rltui.daemon.transactions import Transactions
from rltui.daemon.wiring import memory_plan_of, progress_of
from rltui.errors import ConfigError, ConflictError
from rltui.services.experiment_files import ExperimentRecord
from rltui.services.followed_logs import FollowedLogs
from rltui.services.intent import IntentFile, failures, intent_of
from rltui.services.own_problems import OwnValidators
from rltui.services.recipe import Launch, Recipe
from rltui.services.run_folder import RunFolder
from rltui.services.tmux_host import TmuxHost


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
        self.teller = Teller(self.control.journal_file)
        self.gpu_readings = GpuReadings()
        self.runners = {spec.id: ComponentRunner(spec=spec, around=self) for spec in setup.layout.component}
        self._stop_order = tuple(reversed(setup.layout.start_order()))
        recipe = Recipe(record, setup.layout, setup.framework, choose=self.gpu_readings.chosen)
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
            transaction=lambda: self._transactions.under_way,
        )
        run_start = RunStart(self._picture, self.folder, self.control.run_id_file, self.teller)
        resolved = ResolvedConfigs(record, self.control, recipe, self.teller)
        self._launches = Launches(store, recipe, resolved, run_start, self.gpu_readings)
        planner = Planner(self._picture, self.config, self.folder, StartTimes(self.control.journal_file))
        own = OwnValidators(setup.framework, setup.workspace)
        self._plans = PlanDesk(planner, store, self.orphans, self.gpu_readings, self._launches, own)
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

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish what it had begun."""
        self.config.publish()
        self.logs.look()
        self.progress.poll()
        self.teller.journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        intent = self._intent.read()
        self._rollback.restore(intent.rollback)
        for name, runner in self.runners.items():
            runner.adopt(failures=failures(intent, name), was_alive=name in intent.alive)
        self.orphans.look()
        if intent.transaction is not None:
            self.teller.journal.add("plan", "going on with what the killed supervisor had begun")
            self._transactions.resume(intent.transaction)
        else:
            for name in (*intent.waiting, *intent.backoff):
                if name in self.runners:
                    self.runners[name].start(automatic=True)
        self._save_intent()

    async def shut_down(self) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left."""
        await self._transactions.cancel()
        for name in self._stop_order:
            await self.runners[name].stop()
        await self.orphans.search()
        if self.orphans.orphans:
            await self.orphans.free(self.orphans.orphans)
        left = ", ".join(f"pid {orphan.pid}" for orphan in self.orphans.orphans)
        ended = f"stopped, but cannot be ended: {left}" if left else "stopped: no process is left"
        self.teller.journal.add("supervisor", ended)

    async def close_terminal(self) -> None:
        """Close the tmux session, this process's own terminal with it. The last thing to do."""
        await self._terminal.close()

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
            ConflictError: if another transaction is under way, a port is taken, or a config file is not what
                the person saw.
        """
        planned = await self._plans.rehearsed(request)
        plan, edit = planned.plan, planned.edit
        if not plan.conflicts:
            refuse_blocked(plan)
        moves = request.action not in EDITS or request.restart
        if self._transactions.busy and moves and request.action != "stop":
            raise ConflictError("another start or restart is under way", hint="wait for it, or stop it first")
        acts = moves and bool(plan.stop or plan.start or plan.free)
        if acts:
            await self._transactions.cancel()
        record = self.config.editor.apply(request, edit) if edit is not None else None
        if record is not None or request.action in ("start", "restart"):
            self._rollback.withdraw()
        if record is not None and acts:
            self._rollback.begin(record, plan)
        if acts:
            self._transactions.begin(plan, request)
        if record is not None:
            self.config.publish()
        self._save_intent()
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
        self._save_intent()
        self._retries.life_changed(runner)
        if runner.life.state is ComponentState.EXITED and self._picture.is_done():
            self.teller.alert(done_alert(self.progress.progress))
        if runner.life.alive != before.alive:
            self.config.publish()
        if runner.life.alive and not before.alive:
            self._causes.began(runner.spec.id)
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
        self._save_intent()
        self.publish_status()

    def _save_intent(self) -> None:
        lives = {name: runner.life for name, runner in self.runners.items()}
        self._intent.write(intent_of(lives, self._transactions.pending, self._rollback.applied))
