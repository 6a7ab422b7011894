"""The supervisor of one experiment: its runtime, the commands of clients, and the state that they see."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from rltui.core import hints
from rltui.core.config.report import BatchUnit, Conversion
from rltui.core.experiment.api import Alert, Progress, Status
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.step_times import conversion
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.intent import failures
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.recorded_config import last_max_steps
from rltui.services.processes import ProcessOwners
from rltui.services.tmux import TmuxHost
from rltui.supervisor.agents import AgentsAtWork
from rltui.supervisor.budget import AgentBudget
from rltui.supervisor.commands import Commands
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.events import Message, config_alert, encode
from rltui.supervisor.intent import IntentWriter
from rltui.supervisor.runs.checkpoints import CheckpointService
from rltui.supervisor.runs.eval_work import EvalWork
from rltui.supervisor.runs.evals import EvalScheduler
from rltui.supervisor.runtime import Runtime
from rltui.supervisor.status import StatusBuilder


class Supervisor:
    """Starts, watches and stops the components of `record`, and publishes events to subscribers.

    The only owner of process state. Built on the loop it lives on.
    """

    def __init__(self, record: ExperimentRecord, *, tmux: TmuxHost) -> None:
        self.runtime = runtime = Runtime(record, tmux=tmux)
        self.checkpoints = CheckpointService(runtime)
        self.commands = Commands(runtime, self.checkpoints)
        self.builder = StatusBuilder(runtime)
        self.evals = EvalScheduler(
            EvalWork(runtime, is_done=self.builder.is_done),
            runtime.events,
            may_start=lambda: not self.commands.is_closed,
            metrics=lambda: runtime.observation.progress.series.steps,
        )
        self.intent = IntentWriter(runtime, self.commands)
        self.agents = AgentsAtWork()
        self.budget = AgentBudget(runtime, self.commands)
        runtime.events.on_lifecycle(self._announce_end)
        runtime.events.on_change("status", self._publish_status)
        runtime.events.on_change("pending", self._publish_status)
        runtime.events.on_change("knobs", self._publish_knobs)

    # --- life of the supervisor ---------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take over living components of an earlier supervisor, and finish its pending work."""
        runtime = self.runtime
        runtime.config.reconcile()
        self._publish_knobs()
        runtime.observation.logs.poll()
        runtime.observation.progress.poll()
        runtime.events.journal.add("supervisor", f"supervisor started, pid {os.getpid()}", pid=os.getpid())
        self.agents.adopt(read_journal(runtime.setup.control.journal_file), time.time())
        intent, owners = self.intent.read(), ProcessOwners()
        self.commands.restore(intent)
        for name, runner in runtime.processes.runners.items():
            runner.adopt(owners, failures=failures(intent, name), was_alive=name in intent.alive)
            if runner.launch is not None:
                runtime.config.launcher.assign(name, runner.launch.given)
            if runner.log is not None:
                runtime.observation.follow(name, runner.log)
        runtime.processes.orphans.request_search()
        runtime.processes.reservations.adopt()
        self.commands.resume(intent)
        self.intent.save()

    @property
    def is_idle(self) -> bool:
        """True if nothing runs or is about to, and there is no run of somebody else to observe."""
        is_busy = self.commands.is_busy or bool(self.evals.queue) or self.runtime.setup.record.observed
        return not is_busy and not self.builder.is_alive()

    async def shut_down(self, by: str, *, only_idle: bool = False) -> None:
        """Stop everything, as `Commands.shut_down` does.

        Raises:
            ConflictError: if it shall be `only_idle`, and something runs or is about to.
        """
        name = self.runtime.setup.record.name
        if only_idle and not self.commands.is_shutting_down and not self.is_idle:
            raise ConflictError(f"{name} is running", hint=f"{hints.STATUS(name=name)} shows its components")
        await self.commands.shut_down(by, is_idle=only_idle)

    async def close_terminal(self) -> None:
        """Close the tmux session, which this process's own terminal belongs to."""
        try:
            await self.runtime.processes.terminal.close()
        except RltuiError as error:
            text = f"its terminals remain: {' '.join(str(error).split())}"
            self.runtime.events.journal.add("supervisor", text)

    # --- what clients see ---------------------------------------------------------------------------------

    def status(self) -> Status:
        """Everything about processes and progress, as of the last poll of the metrics."""
        commands = self.commands
        return self.builder.build(
            transaction=commands.under_way,
            down=commands.down,
            rollback=commands.offer,
            evals=self.evals.queue,
            proposals=commands.rights.open,
            agents=self.agents.names,
        )

    def _announce_end(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        """Tell everybody that the run is done, once its last job ends."""
        has_exited = runner.lifecycle.state is ComponentState.EXITED and not runner.spec.is_manual
        if has_exited and runner.lifecycle.state != previous.state and self.builder.is_done():
            self.runtime.events.alert(
                _done_alert(self.runtime.observation.progress.progress, self.runtime.processes.alive())
            )

    def convert(self, to: BatchUnit | None, mean_tokens: float | None) -> Conversion:
        """`mean_tokens` defaults to the mean that this run measured. May raise ConfigError."""
        progress = self.runtime.observation.progress
        progress.poll()
        table = self.runtime.knobs()
        files, framework = self.runtime.config.document.files, self.runtime.setup.framework
        return conversion(framework, files, table, progress.series, to=to, mean_tokens=mean_tokens)

    def current_state(self) -> list[Message]:
        """The messages that a new subscriber receives first."""
        messages: list[Message] = [
            ("status", encode(self.status())),
            ("gpus", encode(self.runtime.gpu_readings.newest)),
        ]
        try:
            messages.append(("knobs", encode(self.runtime.knobs())))
        except ConfigError as error:
            messages.append(("alert", encode(config_alert(error))))
        return messages

    def _publish_status(self) -> None:
        self.runtime.events.publish("status", self.status())

    def _publish_knobs(self) -> None:
        """Publish the files as they are now, and take knobs of health from them; `max_steps` is that of the
        last start.
        """
        setup = self.runtime.setup
        self.runtime.observation.progress.max_steps = last_max_steps(
            setup.record, setup.framework, setup.run_jobs
        )
        try:
            table = self.runtime.knobs()
        except ConfigError as error:
            self.runtime.events.config_error(error)
            return
        self.runtime.events.config_error(None)
        framework, files = setup.framework, self.runtime.config.document.files
        trainer = self.runtime.observation.progress.component_names.get("trainer", "")
        self.runtime.observation.health.set_knobs(
            framework.config.bottleneck_knobs(files),
            framework.config.advice(files),
            table.learning_rate(trainer),
            framework.config.learning(files),
        )
        self.runtime.events.publish("knobs", table)


def _done_alert(progress: Progress, still_running: Collection[str]) -> Alert:
    reward = f", reward {progress.reward:.3f}" if progress.reward is not None else ""
    running_text = f"; still running: {', '.join(still_running)}" if still_running else ""
    text = f"step {progress.step}/{progress.max_steps}{reward}{running_text}"
    return Alert(kind="finished", severity="information", title="the run is done", text=text)
