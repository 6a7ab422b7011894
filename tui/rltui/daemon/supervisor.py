"""The supervisor of one experiment: the only owner of process state. One asyncio loop, no locks."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rltui.core.api import (
    Alert,
    ComponentState,
    ComponentStatus,
    GpuReport,
    JournalEntry,
    KnobTable,
    Plan,
    Problem,
    Request,
    Status,
)
from rltui.core.layout import Layout
from rltui.core.lifecycle import Life
from rltui.core.plan import Situation, make_plan
from rltui.daemon import shim
from rltui.daemon.broadcast import Broadcast, Message
from rltui.daemon.component import ComponentRunner
from rltui.daemon.journal import Journal
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.recipe import Launch, Recipe
from rltui.daemon.tasks import spawn
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles
from rltui.services import layout_files, processes
from rltui.services.config_store import ConfigStore, load_snapshot
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.run_folder import RunFolder
from rltui.services.tmux_host import TmuxHost, session_name

logger = logging.getLogger(__name__)


class Supervisor:
    """Starts, watches and stops the components of `record`, and tells subscribers what happens.

    Built on the loop it lives on.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        self.record = record
        self.control = ControlFolder(Path(record.output_dir))
        self.framework = registry.get(record.framework)
        self.layout: Layout = layout_files.load(Path(record.layout_file))
        self.store = ConfigStore(
            [Path(name) for name in record.config_files],
            self.framework,
            components=[spec.id for spec in self.layout.component],
        )
        self.folder = RunFolder(Path(record.output_dir), self.framework.files)
        self.broadcast = Broadcast()
        self.journal = Journal(self.control.journal_file, clock=time.time, listener=self._tell_journal)
        self.progress = ProgressTracker(self.folder, self.framework)
        self.gpus = GpuReport(available=False, reason="not read yet")
        self._tmux = tmux
        self._recipe = Recipe(record, self.layout, self.framework)
        self._tmux_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tmux")
        self._changed = asyncio.Event()
        self._transaction: asyncio.Task[None] | None = None
        self._resume_step: int | None = None
        self._last_error: ConfigError | None = None
        self.runners = {spec.id: ComponentRunner(spec=spec, around=self) for spec in self.layout.component}

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish the starts it had begun."""
        self._load_config()
        self.progress.poll()
        self._resume_step = self.folder.latest_checkpoint()
        for runner in self.runners.values():
            runner.adopt()
        waiting = [name for name in self.control.read_intent() if name in self.runners]
        self.journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        for name in waiting:
            self.runners[name].start()

    async def shut_down(self) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left."""
        await self._cancel_transaction()
        for name in reversed(self.layout.start_order()):
            await self.runners[name].stop()
        records = [runner.record for runner in self.runners.values() if runner.record is not None]
        left = processes.leftovers(self.record.tag, records)
        if left:
            self.journal.add(
                "stop", f"ending {len(left)} leftover processes", pids=[item.id.pid for item in left]
            )
            await processes.end_processes([item.id for item in left], grace_s=5.0)
        self.journal.add("supervisor", "stopped: no process is left")

    async def close_terminal(self) -> None:
        """Close the tmux session, this process's own terminal with it. The last thing to do."""
        await self._in_tmux_thread(partial(self._tmux.kill_session, self._session))

    # --- requests of clients ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Everything about processes and progress, as of now."""
        progress = self.progress.progress
        components = tuple(self._component_status(runner) for runner in self.runners.values())
        return Status(
            experiment=self.record.name,
            state="running" if any(runner.life.busy for runner in self.runners.values()) else "stopped",
            framework=self.framework.id,
            output_dir=self.record.output_dir,
            step=progress.step,
            max_steps=progress.max_steps,
            reward=progress.reward,
            components=components,
            done=self._is_done(),
            title=self.layout.title or self.framework.title,
            config_files=self.record.config_files,
            workspace=self.record.workspace,
            progress=progress,
        )

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read; the components go on with what they were started with.
        """
        return self.store.knob_table(self._running_configs())

    def plan(self, request: Request) -> Plan:
        """What `request` would do.

        Raises:
            ConfigError: if a config file, or an edited value, cannot be understood.
        """
        self._check_names(request)
        if request.action != "set":
            plan = make_plan(request, self._situation(request), readers={})
            if not plan.start:
                return plan
            return plan.model_copy(
                update={"problems": (*self._config_problems(), *self._port_problems(plan))}
            )
        preview = self.store.preview(request.edits, running=self._running_configs())
        plan = make_plan(request, self._situation(request), readers=preview.readers)
        return plan.model_copy(update={"diff": preview.diff, "problems": preview.problems})

    async def execute(self, request: Request) -> Plan:
        """Begin what `request` asks and return its plan. It goes on whatever becomes of the client.

        Raises:
            ConfigError: if an error forbids it; nothing was done.
            ConflictError: if another transaction is under way, or a port is taken.
        """
        plan = self.plan(request)
        _refuse_blocked(plan)
        busy = self._transaction is not None and not self._transaction.done()
        moves = request.action != "set" or request.restart
        if busy and moves and request.action != "stop":
            raise ConflictError("another start or restart is under way", hint="wait for it, or stop it first")
        if request.action == "set":
            self._apply_edits(request)
        if not moves or not (plan.stop or plan.start):
            return plan
        if busy:
            await self._cancel_transaction()
        self.journal.add(
            "plan", _describe(plan), **plan.model_dump(include={"action", "stop", "start", "keep"})
        )
        self._transaction = spawn(self._carry_out(plan, request), request.action)
        return plan

    def current_state(self) -> list[Message]:
        """What a new subscriber receives first."""
        messages: list[Message] = [
            ("status", self.status().model_dump_json().encode()),
            ("gpus", self.gpus.model_dump_json().encode()),
        ]
        try:
            messages.append(("knobs", self.knobs().model_dump_json().encode()))
        except ConfigError as error:
            messages.append(("alert", _config_alert(error).model_dump_json().encode()))
        return messages

    def publish_status(self) -> None:
        """Tell subscribers about processes and progress."""
        self.broadcast.publish("status", lambda: self.status().model_dump_json().encode())

    def publish_gpus(self, report: GpuReport) -> None:
        """Take in and pass on a new reading."""
        self.gpus = report
        self.broadcast.publish("gpus", lambda: report.model_dump_json().encode())

    def publish_knobs(self) -> None:
        """Tell subscribers about the config files; an unreadable one becomes an alert, once."""
        try:
            table = self.knobs()
        except ConfigError as error:
            if self._last_error is None or str(error) != str(self._last_error):
                self._alert(_config_alert(error))
            self._last_error = error
            return
        self._last_error = None
        self.progress.max_steps = self.framework.max_steps(self.store.files)
        self.broadcast.publish("knobs", lambda: table.model_dump_json().encode())

    # --- Surroundings of the runners ----------------------------------------------------------------------

    def life_changed(self, runner: ComponentRunner, before: Life) -> None:
        """Record, tell and wake."""
        self._record_change(runner, before)
        waiting = [name for name, other in self.runners.items() if other.life.state is ComponentState.WAITING]
        if ComponentState.WAITING in (runner.life.state, before.state):
            self.control.write_intent(tuple(waiting))
        self.publish_status()
        if runner.life.alive != before.alive:
            self.publish_knobs()
        self._changed.set()
        self._changed = asyncio.Event()

    async def next_change(self) -> None:
        """Returns when any component has changed."""
        await self._changed.wait()

    def why_held(self, component: str) -> tuple[bool, str] | None:
        """What a start waits for; False where that cannot come any more."""
        for needed in self.layout[component].after:
            life = self.runners[needed].life
            if self._is_there(needed):
                continue
            if life.busy:
                return True, f"{needed} to be {'ready' if life.kind == 'service' else 'done'}"
            return False, f"{needed} is {life.state}" + (f": {life.reason}" if life.reason else "")
        return None

    def _is_there(self, component: str) -> bool:
        """A service is ready, a job has done its work."""
        life = self.runners[component].life
        if life.kind == "service":
            return life.state is ComponentState.READY
        return not life.busy and (life.state is ComponentState.EXITED or self._is_made(component))

    def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Snapshot the config and fill in the command."""
        self.store.load()
        files = self.store.snapshot(attempt_dir / "config")
        return self._recipe.launch(component, files, resume_step=self._resume_step)

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim in the component's window of the private tmux server."""
        argv = [sys.executable, "-I", "-S", str(Path(shim.__file__)), str(attempt_dir)]
        start = partial(self._tmux.start_window, self._session, component, argv, cwd=self.record.workspace)
        await self._in_tmux_thread(start)

    # --- carrying out -------------------------------------------------------------------------------------

    async def _carry_out(self, plan: Plan, request: Request) -> None:
        for name in plan.stop:
            await self.runners[name].stop(kill=request.kill)
        if not plan.start:
            return
        try:
            self._prepare_run_folder(plan, request)
        except RltuiError as error:
            self._alert(Alert(severity="error", title="nothing was started", text=str(error)))
            return
        for name in plan.start:
            self.runners[name].start()

    def _prepare_run_folder(self, plan: Plan, request: Request) -> None:
        """Choose the resume point; move aside what the new processes must not see."""
        run_jobs = {spec.id for spec in self.layout.component if spec.kind == "job" and not spec.creates}
        if not run_jobs & set(plan.start) or any(self.runners[name].life.busy for name in run_jobs):
            return
        self._resume_step = self.folder.latest_checkpoint() if request.resume == "latest" else None
        aside = self.folder.move_stale_aside(self._resume_step)
        self.progress.rewind(self._resume_step)
        point = "the beginning" if self._resume_step is None else f"checkpoint {self._resume_step}"
        moved = f"; earlier files are in {aside}" if aside else ""
        self.journal.add("resume", f"from {point}{moved}", step=self._resume_step)

    def _apply_edits(self, request: Request) -> None:
        preview = self.store.preview(request.edits, running=self._running_configs())
        self.store.apply(preview)
        edits = ", ".join(f"{key} = {value}" for key, value in request.edits.items())
        self.journal.add("edit", edits, edits=request.edits, diff=preview.diff)
        self.publish_knobs()

    async def _cancel_transaction(self) -> None:
        task = self._transaction
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait([task])

    # --- what follows from config and layout --------------------------------------------------------------

    def _load_config(self) -> None:
        try:
            self.store.load()
        except ConfigError as error:
            self._alert(_config_alert(error))
            return
        self.progress.max_steps = self.framework.max_steps(self.store.files)

    def _situation(self, request: Request) -> Situation:
        return Situation(
            layout=self.layout,
            lives={name: runner.life for name, runner in self.runners.items()},
            rules=self.framework.restart_together,
            completed_steps=self.progress.progress.step or 0,
            resume_step=self.folder.latest_checkpoint() if request.resume == "latest" else None,
            is_made=self._is_made,
        )

    def _config_problems(self) -> tuple[Problem, ...]:
        self.store.load()
        return self.store.problems()

    def _port_problems(self, plan: Plan) -> tuple[Problem, ...]:
        problems = []
        for name in plan.start:
            port = None if name in plan.stop else self._recipe.port(name, self.store.files)
            if port is not None and (holder := processes.port_holder(port)) is not None:
                message = f"{name} needs port {port}, which is held by {holder}"
                problems.append(Problem(severity="error", key="port", message=message))
        return tuple(problems)

    def _is_made(self, component: str) -> bool:
        """Whether what this job makes is there. A config that cannot be read makes nothing."""
        try:
            path = self._recipe.creates(component, self.store.files)
        except ConfigError:
            return False
        return path is not None and path.exists()

    def _running_configs(self) -> dict[str, ConfigFiles]:
        return {
            name: load_snapshot(self.control.attempt_dir(name, runner.attempt) / "config", self.framework)
            for name, runner in self.runners.items()
            if runner.life.alive and runner.attempt is not None
        }

    def _component_status(self, runner: ComponentRunner) -> ComponentStatus:
        name = runner.spec.id
        try:
            gpus = self._recipe.gpus(name, self.store.files)
        except ConfigError:  # an unreadable config is told once, by `publish_knobs`
            gpus = ()
        status = runner.status(facts=self.progress.facts(name), gpus=gpus)
        if runner.attempt is None and not runner.life.busy and self._is_made(name):
            made = self._recipe.creates(name, self.store.files)
            return status.model_copy(update={"reason": f"not needed: {made} is there"})
        return status

    def _is_done(self) -> bool:
        jobs = [r for r in self.runners.values() if r.spec.kind == "job" and not r.spec.creates]
        services = [r for r in self.runners.values() if r.spec.kind == "service"]
        finished = bool(jobs) and all(runner.life.state is ComponentState.EXITED for runner in jobs)
        calm = (ComponentState.READY, ComponentState.STOPPED)
        return finished and all(runner.life.state in calm for runner in services)

    def _check_names(self, request: Request) -> None:
        for name in request.components:
            if name not in self.runners:
                raise ConfigError(
                    f"no component {name!r} in this experiment", hint=f"there are: {', '.join(self.runners)}"
                )

    # --- telling ------------------------------------------------------------------------------------------

    def _record_change(self, runner: ComponentRunner, before: Life) -> None:
        life, name = runner.life, runner.spec.id
        if life.state is before.state:
            return
        kinds = {
            ComponentState.STARTING: "start",
            ComponentState.READY: "ready",
            ComponentState.STOPPING: "stop",
            ComponentState.EXITED: "exit",
            ComponentState.FAILED: "exit",
            ComponentState.STOPPED: "exit",
        }
        if life.state in kinds:
            text = f"{name} {life.state}" + (f": {life.reason}" if life.reason else "")
            self.journal.add(
                kinds[life.state],
                text,
                component=name,
                attempt=runner.attempt,
                pid=runner.pid,
                exit_code=life.exit.code if life.exit else None,
                signal=life.exit.signal if life.exit else None,
            )
        if life.state is ComponentState.FAILED:
            self._alert(
                Alert(
                    severity="error",
                    title=f"{name} failed",
                    text=life.reason or "no reason known",
                    component=name,
                )
            )
        elif self._is_done() and life.state is ComponentState.EXITED:
            self._alert(Alert(severity="information", title="the run is done", text=self._summary()))

    def _summary(self) -> str:
        progress = self.progress.progress
        reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
        return f"step {progress.step}/{progress.max_steps}{reward}"

    def _alert(self, alert: Alert) -> None:
        self.journal.add("alert", f"{alert.title}: {alert.text}", component=alert.component)
        self.broadcast.publish("alert", lambda: alert.model_dump_json().encode())

    def _tell_journal(self, entry: JournalEntry) -> None:
        self.broadcast.publish("journal", lambda: entry.model_dump_json().encode())

    # --- tmux ---------------------------------------------------------------------------------------------

    @property
    def _session(self) -> str:
        return session_name(self.record.name)

    async def _in_tmux_thread(self, call: Callable[[], object]) -> None:
        """Run a libtmux call, which blocks, in the one thread that orders them."""
        await asyncio.get_running_loop().run_in_executor(self._tmux_thread, call)


def _refuse_blocked(plan: Plan) -> None:
    errors = [problem for problem in plan.problems if problem.severity == "error"]
    if not errors:
        return
    lines = [problem.text for problem in errors]
    if all(problem.key == "port" for problem in errors):
        raise ConflictError(
            lines[0], details=lines[1:], hint="end that process, or change the port in the config"
        )
    title = lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config"
    raise ConfigError(title, details=lines if len(lines) > 1 else (), hint="nothing was written or started")


def _describe(plan: Plan) -> str:
    parts = [
        f"{word} {', '.join(names)}" for word, names in (("stop", plan.stop), ("start", plan.start)) if names
    ]
    return "; ".join(parts)


def _config_alert(error: ConfigError) -> Alert:
    return Alert(severity="error", title="a config file cannot be read", text=str(error))
