"""The supervisor of one experiment: the only owner of process state. One asyncio loop, no locks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from rltui.core.api import EDITS, Alert, ComponentState, Conversion, KnobTable, Plan, Request, Status
from rltui.core.failure_cause import FailurePattern
from rltui.core.gpu.report import GpuReport
from rltui.core.inference_activity import InferenceActivity
from rltui.core.layout import GpuSourceSpec
from rltui.core.lifecycle import ExitInfo, Life
from rltui.daemon.broadcast import Message
from rltui.daemon.causes import Causes
from rltui.daemon.component import ComponentRunner
from rltui.daemon.gpu_picture import GpuPicture
from rltui.daemon.gpu_readings import GpuReadings
from rltui.daemon.memory_outlook import MemoryOutlook
from rltui.daemon.obstacles import Obstacles
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.picture import Picture, Planned, refuse_blocked
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.remedies import RemedyDesk
from rltui.daemon.resolved_configs import ResolvedConfigs
from rltui.daemon.retries import Retries
from rltui.daemon.rollback import RollbackWatch
from rltui.daemon.run_start import RunStart
from rltui.daemon.service_calls import ServiceCalls
from rltui.daemon.start_times import StartTimes
from rltui.daemon.telling import Teller, config_alert, encoded
from rltui.daemon.terminal import Terminal
from rltui.daemon.transactions import Transactions
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import RunFiles, ServiceCall
from rltui.frameworks.conversion import Way
from rltui.services import layout_files
from rltui.services.batch_conversion import conversion
from rltui.services.config_editor import ConfigEditor
from rltui.services.config_store import ConfigStore
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.followed_logs import FollowedLogs
from rltui.services.intent import IntentFile, failures, intent_of
from rltui.services.memory_plan import MemoryPlan
from rltui.services.observed import framework_of
from rltui.services.own_problems import OwnValidators
from rltui.services.recipe import Launch, Recipe
from rltui.services.run_folder import RunFolder
from rltui.services.run_metrics import RunMetrics, earlier_logs
from rltui.services.step_times import StepTimes
from rltui.services.tmux_host import TmuxHost


class Supervisor:
    """Starts, watches and stops the components of `record`, and tells subscribers what happens.

    Built on the loop it lives on.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        self.record = record
        self.control = ControlFolder(Path(record.output_dir))
        self.teller = Teller(self.control.journal_file)
        self.gpu_readings = GpuReadings()
        self._framework = framework_of(record)
        self._layout = layout_files.load_for(record)
        self._store = ConfigStore(
            [Path(name) for name in record.config_files],
            self._framework,
            components=self._components,
            launched=self._layout.launched,
            derive=StepTimes(self._framework, self.control, lambda: self.progress.series).derive,
        )
        self._own = OwnValidators(self._framework, Path(record.workspace))
        self._editor = ConfigEditor(self._store, self.control, self.teller.journal)
        self._rollback = RollbackWatch(alert=self.teller.alert)
        self.folder = RunFolder(Path(record.run_dir), self._run_files(), Path(record.output_dir))
        self.logs = FollowedLogs(Path(record.run_dir), self._layout.log)
        self.progress = ProgressTracker(self._run_metrics(), self._framework, self._components)
        self.runners = {spec.id: ComponentRunner(spec=spec, around=self) for spec in self._layout.component}
        self._recipe = Recipe(record, self._layout, self._framework, choose=self.gpu_readings.chosen)
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
        memory = self._memory_plan()
        outlook = MemoryOutlook(self._layout, self.runners, self._store, memory, self.gpu_readings)
        self.gpu_picture = GpuPicture(record.name, self.runners, outlook)
        self._picture = Picture(
            record=record,
            control=self.control,
            layout=self._layout,
            framework=self._framework,
            store=self._store,
            editor=self._editor,
            rollback=self._rollback,
            recipe=self._recipe,
            folder=self.folder,
            progress=self.progress,
            logs=self.logs,
            runners=self.runners,
            orphans=self.orphans,
            activities=self.activities,
            times=StartTimes(self.control.journal_file),
            outlook=outlook,
            remedies=RemedyDesk(self._store, self._recipe, memory, self.control, self.gpu_readings),
            transaction=lambda: self._transactions.under_way,
        )
        self._obstacles = Obstacles(self.orphans, self.gpu_readings.fresh)
        self._run_start = RunStart(self._picture, self.teller)
        self._resolved = ResolvedConfigs(record, self.control, self._recipe, self.teller)
        calls = ServiceCalls(
            self.runners, self.teller, calls=self._service_calls, jobs=self._picture.run_jobs
        )
        self.failure_patterns: Sequence[FailurePattern] = self._framework.failures
        """What its components print when they fail."""
        self._causes = Causes(self.failure_patterns)
        self._intent = IntentFile(self.control.intent_file)
        self._transactions: Transactions = Transactions(
            self.runners,
            self.teller,
            prepare_run=self._run_start.prepare,
            call_services=calls.make,
            free=self.orphans.free,
            changed=self._transaction_changed,
            next_change=self.next_change,
        )
        self._retries = Retries(self._transactions, self.plan)
        self._terminal = Terminal(tmux, record)
        self._changed = asyncio.Event()

    @property
    def _components(self) -> list[str]:
        return [spec.id for spec in self._layout.component]

    def _run_metrics(self) -> RunMetrics:
        return RunMetrics(
            self.folder.metrics,
            self._framework,
            logs=self._present_logs,
            earlier_logs=lambda: earlier_logs(self.control, self._components),
        )

    def _present_logs(self) -> dict[str, Path]:
        own = {name: runner.log for name, runner in self.runners.items() if runner.log is not None}
        return {**own, **self.logs.paths}

    def _memory_plan(self) -> MemoryPlan:
        return MemoryPlan(
            layout=self._layout,
            framework=self._framework,
            recipe=self._recipe,
            control=self.control,
            workspace=Path(self.record.workspace),
        )

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish what it had begun."""
        self.publish_knobs()
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
        for name in reversed(self._layout.start_order()):
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

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read; the components go on with what they were started with.
        """
        return self._editor.knob_table(self._picture.running_configs())

    async def plan(self, request: Request) -> Plan:
        """What `request` would do, once all leftovers are known.

        Raises:
            ConfigError: if a config file, a name or an edited value cannot be understood.
        """
        planned = await self._planned(request)
        return await self._with_own_problems(planned) if request.thorough else planned.plan

    async def _planned(self, request: Request) -> Planned:
        await self.orphans.settled()
        if request.action == "free" and request.pids:
            await self.gpu_readings.fresh()  # may name what only the GPUs know
        else:
            await self.gpu_readings.first()
        return self._picture.planned(request)

    async def _with_own_problems(self, planned: Planned) -> Plan:
        """The plan with what the framework's own validators say of the files; seconds may pass."""
        loaded = planned.edit.after if planned.edit is not None else self._store.load_sources()
        ours = planned.plan.problems
        theirs = await asyncio.to_thread(self._own.problems, loaded, ours)
        return planned.plan.model_copy(update={"problems": (*ours, *theirs)})

    def convert(self, to: Way | None, mean_tokens: float | None) -> Conversion:
        """The batch counted the other way, by what this run measured where `mean_tokens` does not say.

        Raises:
            ConfigError: if it cannot be, or a config file cannot be understood.
        """
        self.progress.poll()
        return conversion(self._framework, self.knobs(), self.progress.series, to=to, mean_tokens=mean_tokens)

    async def execute(self, request: Request) -> Plan:
        """Begin what `request` asks and return its plan. It goes on whatever becomes of the client.

        Raises:
            ConfigError: if an error forbids it; nothing was done.
            ConflictError: if another transaction is under way, a port is taken, or a config file is not what
                the person saw.
        """
        planned = await self._rehearsed(await self._planned(request), request)
        plan, edit = planned.plan, planned.edit
        if not plan.conflicts:
            refuse_blocked(plan)
        moves = request.action not in EDITS or request.restart
        if self._transactions.busy and moves and request.action != "stop":
            raise ConflictError("another start or restart is under way", hint="wait for it, or stop it first")
        acts = moves and bool(plan.stop or plan.start or plan.free)
        if acts:
            await self._transactions.cancel()
        record = self._editor.apply(request, edit) if edit is not None else None
        if record is not None or request.action in ("start", "restart"):
            self._rollback.withdraw()
        if record is not None and acts:
            self._rollback.begin(record, plan)
        if acts:
            self._transactions.begin(plan, request)
        if record is not None:
            self.publish_knobs()
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
            messages.append(("knobs", encoded(self.knobs())))
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

    def gpu_sources(self) -> tuple[GpuSourceSpec, ...]:
        """Commands that read other machines' GPUs; none where the config, which may name them, is broken."""
        try:
            return self._recipe.gpu_sources(self._store.files)
        except ConfigError as error:
            self.teller.config_error(error)
            return ()

    def publish_knobs(self) -> None:
        """Tell subscribers about the config files as they are now."""
        try:
            table = self.knobs()
        except ConfigError as error:
            self.teller.config_error(error)
            return
        self.teller.config_error(None)
        self.progress.max_steps = self._framework.max_steps(self._store.files)
        self.teller.publish("knobs", table)

    def set_stall(self, component: str, evidence: str | None) -> None:
        """A living component gives no sign of life, by this evidence; `None`: it does again."""
        runner = self.runners[component]
        if runner.evidence == evidence:
            return
        is_news = (runner.evidence is None) != (evidence is None)
        runner.evidence = evidence if runner.life.alive else None
        if is_news and runner.life.alive:
            self._tell_stall(component, evidence)
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
            self._tell_done()
        if runner.life.alive != before.alive:
            self.publish_knobs()
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
        await self.gpu_readings.first()
        self._store.load()
        files = self._store.snapshot(attempt_dir / "config")
        step, run_id = self._run_start.resume_step, self._run_start.run_id
        resolved = await self._resolved.of(component, files, attempt_dir, resume_step=step, run_id=run_id)
        return self._recipe.launch(component, files, resume_step=step, run_id=run_id, resolved=resolved)

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim in the component's window of the private tmux server."""
        await self._terminal.open_window(component, attempt_dir)

    def keeper_lost(self, runner: ComponentRunner) -> None:
        """Worth telling: what such a component leaves behind is harder to find."""
        self.teller.alert(
            Alert(
                kind="notice",
                severity="warning",
                title=f"the shim of {runner.spec.id} was killed",
                text=f"{runner.spec.id} goes on as pid {runner.pid}, watched from here. "
                "Its next start has a shim again.",
                component=runner.spec.id,
            )
        )

    async def explain(self, runner: ComponentRunner, exit_info: ExitInfo) -> ExitInfo:
        """Add what its output says of the cause."""
        return await self._causes.explain(runner, exit_info)

    # --- what follows from config and framework -----------------------------------------------------------

    def _run_files(self) -> RunFiles:
        try:
            return self._framework.files_of(self._store.files)
        except ConfigError:  # told with the first knob table
            return self._framework.files

    async def _rehearsed(self, planned: Planned, request: Request) -> Planned:
        """The plan as of now, once the framework has resolved the config of what it stops and starts again.

        Raises:
            ConfigError: if the framework refuses the config; nothing was written or stopped.
        """
        plan, edit = planned.plan, planned.edit
        if plan.blocked or not (plan.stop and plan.start) or (edit is not None and not request.restart):
            return planned
        files = edit.after.files if edit is not None else self._store.files
        step = self.folder.latest_checkpoint() if request.resume == "latest" else None
        await self._resolved.rehearse(plan.start, files, resume_step=step, run_id=self._run_start.run_id)
        pinned = request.model_copy(update={"base": plan.base}) if edit is not None else request
        return await self._planned(pinned)  # seconds may have passed, and another may have written

    def _service_calls(self) -> Sequence[ServiceCall]:
        return self._recipe.service_calls(self._store.files, resume_step=self._run_start.resume_step)

    # --- helpers ------------------------------------------------------------------------------------------

    def _transaction_changed(self) -> None:
        self._save_intent()
        self.publish_status()

    def _save_intent(self) -> None:
        lives = {name: runner.life for name, runner in self.runners.items()}
        self._intent.write(intent_of(lives, self._transactions.pending, self._rollback.applied))

    def _tell_stall(self, component: str, evidence: str | None) -> None:
        stalled = evidence is not None
        self.teller.alert(
            Alert(
                kind="stall" if stalled else "recovered",
                severity="warning" if stalled else "information",
                title=f"{component} {'stalled' if stalled else 'goes on'}",
                text=evidence or "it gives signs of life again",
                component=component,
            )
        )

    def _tell_done(self) -> None:
        progress = self.progress.progress
        reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
        text = f"step {progress.step}/{progress.max_steps}{reward}"
        self.teller.alert(Alert(kind="finished", severity="information", title="the run is done", text=text))
