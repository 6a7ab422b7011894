"""The supervisor of one experiment: the only owner of process state. One asyncio loop, no locks."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rltui.core.api import Alert, ComponentState, GpuReport, KnobTable, Plan, Request, Status
from rltui.core.lifecycle import Life
from rltui.daemon.broadcast import Message
from rltui.daemon.component import ComponentRunner
from rltui.daemon.picture import Picture, refuse_blocked
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.recipe import Launch, Recipe
from rltui.daemon.shim import program as shim_program
from rltui.daemon.tasks import spawn
from rltui.daemon.telling import Teller, config_alert, encoded
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks import registry
from rltui.services import layout_files, processes
from rltui.services.config_store import ConfigStore
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
        self.teller = Teller(self.control.journal_file)
        self.gpus = GpuReport(available=False, reason="not read yet")
        self._framework = registry.get(record.framework)
        layout = layout_files.load(Path(record.layout_file))
        self._store = ConfigStore(
            [Path(name) for name in record.config_files],
            self._framework,
            components=[spec.id for spec in layout.component],
        )
        self._folder = RunFolder(Path(record.output_dir), self._framework.files)
        self.progress = ProgressTracker(self._folder, self._framework)
        self.runners = {spec.id: ComponentRunner(spec=spec, around=self) for spec in layout.component}
        self._recipe = Recipe(record, layout, self._framework)
        self._picture = Picture(
            record=record,
            control=self.control,
            layout=layout,
            framework=self._framework,
            store=self._store,
            recipe=self._recipe,
            folder=self._folder,
            progress=self.progress,
            runners=self.runners,
        )
        self._layout = layout
        self._tmux = tmux
        self._tmux_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tmux")
        self._changed = asyncio.Event()
        self._transaction: asyncio.Task[None] | None = None
        self._resume_step: int | None = None

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish the starts it had begun."""
        self.publish_knobs()
        self.progress.poll()
        self._resume_step = self._folder.latest_checkpoint()
        self.teller.journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        for runner in self.runners.values():
            runner.adopt()
        for name in self.control.read_intent():
            if name in self.runners:
                self.runners[name].start()

    async def shut_down(self) -> None:
        """Stop everything in reverse order and make sure that no process of the experiment is left."""
        await self._cancel_transaction()
        for name in reversed(self._layout.start_order()):
            await self.runners[name].stop()
        records = [runner.record for runner in self.runners.values() if runner.record is not None]
        left = processes.leftovers(self.record.tag, records)
        if left:
            pids = [item.id.pid for item in left]
            self.teller.journal.add("stop", f"ending {len(left)} leftover processes", pids=pids)
            await processes.end_processes([item.id for item in left], grace_s=5.0)
        self.teller.journal.add("supervisor", "stopped: no process is left")

    async def close_terminal(self) -> None:
        """Close the tmux session, this process's own terminal with it. The last thing to do."""
        await self._in_tmux_thread(partial(self._tmux.kill_session, self._session))

    # --- requests of clients ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Everything about processes and progress, as of now."""
        return self._picture.status()

    def knobs(self) -> KnobTable:
        """The knob table, from the files as they are now.

        Raises:
            ConfigError: if a file cannot be read; the components go on with what they were started with.
        """
        return self._store.knob_table(self._picture.running_configs())

    def plan(self, request: Request) -> Plan:
        """What `request` would do.

        Raises:
            ConfigError: if a config file, a name or an edited value cannot be understood.
        """
        return self._picture.plan(request)

    async def execute(self, request: Request) -> Plan:
        """Begin what `request` asks and return its plan. It goes on whatever becomes of the client.

        Raises:
            ConfigError: if an error forbids it; nothing was done.
            ConflictError: if another transaction is under way, or a port is taken.
        """
        plan = self.plan(request)
        refuse_blocked(plan)
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
        kept = plan.model_dump(include={"action", "stop", "start", "keep"})
        self.teller.journal.add("plan", _describe(plan), **kept)
        self._transaction = spawn(self._carry_out(plan, request), request.action)
        return plan

    def current_state(self) -> list[Message]:
        """What a new subscriber receives first."""
        messages: list[Message] = [("status", encoded(self.status())), ("gpus", encoded(self.gpus))]
        try:
            messages.append(("knobs", encoded(self.knobs())))
        except ConfigError as error:
            messages.append(("alert", encoded(config_alert(error))))
        return messages

    def publish_status(self) -> None:
        """Tell subscribers about processes and progress."""
        self.teller.publish("status", self.status())

    def publish_gpus(self, report: GpuReport) -> None:
        """Take in and pass on a new reading."""
        self.gpus = report
        self.teller.publish("gpus", report)

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

    # --- Surroundings of the runners ----------------------------------------------------------------------

    def life_changed(self, runner: ComponentRunner, before: Life) -> None:
        """Record, tell and wake."""
        self.teller.change(runner, before)
        if ComponentState.WAITING in (runner.life.state, before.state):
            self._write_intent()
        if runner.life.state is ComponentState.EXITED and self._picture.is_done():
            self._tell_done()
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
        return self._picture.why_held(component)

    def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Snapshot the config and fill in the command."""
        self._store.load()
        files = self._store.snapshot(attempt_dir / "config")
        return self._recipe.launch(component, files, resume_step=self._resume_step)

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim in the component's window of the private tmux server."""
        program = Path(shim_program.__file__).with_name("__main__.py")
        argv = [sys.executable, "-I", "-S", str(program), str(attempt_dir)]
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
            self.teller.alert(Alert(severity="error", title="nothing was started", text=str(error)))
            return
        for name in plan.start:
            self.runners[name].start()

    def _prepare_run_folder(self, plan: Plan, request: Request) -> None:
        """Choose the resume point; move aside what the new processes must not see."""
        jobs = self._picture.run_jobs()
        if not {job.spec.id for job in jobs} & set(plan.start) or any(job.life.busy for job in jobs):
            return
        self._resume_step = self._folder.latest_checkpoint() if request.resume == "latest" else None
        aside = self._folder.move_stale_aside(self._resume_step)
        self.progress.rewind(self._resume_step)
        point = "the beginning" if self._resume_step is None else f"checkpoint {self._resume_step}"
        moved = f"; earlier files are in {aside}" if aside else ""
        self.teller.journal.add("resume", f"from {point}{moved}", step=self._resume_step)

    def _apply_edits(self, request: Request) -> None:
        preview = self._store.preview(request.edits, running=self._picture.running_configs())
        self._store.apply(preview)
        edits = ", ".join(f"{key} = {value}" for key, value in request.edits.items())
        self.teller.journal.add("edit", edits, edits=request.edits, diff=preview.diff)
        self.publish_knobs()

    async def _cancel_transaction(self) -> None:
        task = self._transaction
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait([task])

    def _write_intent(self) -> None:
        """Remember what waits to start. A full disk costs only that, should the supervisor die now."""
        lives = {name: runner.life for name, runner in self.runners.items()}
        waiting = tuple(name for name, life in lives.items() if life.state is ComponentState.WAITING)
        try:
            self.control.write_intent(waiting)
        except RltuiError as error:
            logger.error("%s", error)

    def _tell_done(self) -> None:
        progress = self.progress.progress
        reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
        text = f"step {progress.step}/{progress.max_steps}{reward}"
        self.teller.alert(Alert(severity="information", title="the run is done", text=text))

    # --- tmux ---------------------------------------------------------------------------------------------

    @property
    def _session(self) -> str:
        return session_name(self.record.name)

    async def _in_tmux_thread(self, call: Callable[[], object]) -> None:
        """Run a libtmux call, which blocks, in the one thread that orders them."""
        await asyncio.get_running_loop().run_in_executor(self._tmux_thread, call)


def _describe(plan: Plan) -> str:
    steps = (("stop", plan.stop), ("start", plan.start))
    return "; ".join(f"{word} {', '.join(names)}" for word, names in steps if names)
