"""The status of the experiment that clients see. Reads, changes nothing."""

from __future__ import annotations

import time

from rltui.base.text import join_words
from rltui.core.experiment.api import (
    AgentProposal,
    Bottleneck,
    ComponentStatus,
    Down,
    HostStatus,
    RollbackOffer,
    Status,
)
from rltui.core.experiment.states import ComponentState
from rltui.core.runs.evals import COMPONENT, SERVER, QueuedEval
from rltui.core.runs.state import is_complete, run_state
from rltui.errors import ConfigError
from rltui.services.experiment.rights import pause_text
from rltui.services.experiment.verdict import is_alive, status_of, with_queue
from rltui.services.gpu.assignment import assigned_devices
from rltui.services.hosts.job_status import JobStatus
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.gpu.advice import RemedyAdvisor
from rltui.supervisor.runtime import Runtime

_VISIBLE_S = 300.0
"""A manual component is shown for so long after its end: its result is in the events, and that of an
evaluation in their list.
"""


class StatusBuilder:
    def __init__(self, runtime: Runtime) -> None:
        self._setup, self._config = runtime.setup, runtime.config
        self._observation, self._processes = runtime.observation, runtime.processes
        self._servers = runtime.servers
        self._remedies = RemedyAdvisor(
            self._config.document, self._config.launcher, runtime.forecaster, runtime.gpu_readings
        )

    def build(
        self,
        *,
        transaction: str | None,
        down: Down | None,
        rollback: RollbackOffer | None,
        evals: tuple[QueuedEval, ...],
        proposals: tuple[AgentProposal, ...],
        agents: tuple[str, ...],
    ) -> Status:
        """Everything about processes and progress.

        `transaction`: the plan being executed, in words. `down`: whether and by whom everything is being
        ended. `evals`: the running one first. `proposals`: those that wait for a person.
        `agents`: names of those at work.
        """
        progress = self._observation.current_progress
        if (missing := self._missing()) is not None:
            progress = progress.replace(bottleneck=missing)
        status = status_of(
            self._setup.record,
            self._setup.layout,
            self._setup.framework,
            components=self._components(evals),
            is_alive=self.is_alive(),
            down=down,
            progress=progress,
            logs=self._observation.logs.logs,
            orphans=self._processes.orphans.orphans,
            links=self._observation.links,
        )
        live = {
            "servers": self._servers.status(),
            "transaction": transaction,
            "rollback": rollback,
            "evals": evals,
            "proposals": proposals,
            "agents_paused": pause_text(),
            "agents": agents,
        }
        return with_queue(self._setup.record, status.replace(**live))

    def _missing(self) -> Bottleneck | None:
        """The server of others without which the living run cannot go on, whatever its last steps waited
        for.
        """
        alive = [runner.spec.id for runner in self._processes.run_jobs() if runner.lifecycle.alive]
        if not alive:
            return None
        return self._servers.bottleneck(
            self._observation.progress.component_names.get("orchestrator", alive[0])
        )

    def is_done(self) -> bool:
        """True if the steps of the run are done, and nothing of it goes on."""
        components, progress = self._components(()), self._observation.current_progress
        return (
            run_state(components, is_complete=is_complete(progress.step, progress.max_steps)).state == "done"
        )

    def _components(self, evals: tuple[QueuedEval, ...]) -> tuple[ComponentStatus, ...]:
        return tuple(
            self._component(runner, evals)
            for runner in self._processes.runners.values()
            if not runner.spec.is_manual or not _is_over(runner)
        )

    def is_alive(self) -> bool:
        """True if something of it runs, or will without a request. Somebody else's run: if it is
        written to.
        """
        if self._setup.record.observed:
            return is_alive(self._setup.record, (), self._observation.logs.logs)
        return any(runner.lifecycle.expected for runner in self._processes.runners.values())

    def _component(self, runner: ComponentRunner, evals: tuple[QueuedEval, ...]) -> ComponentStatus:
        name, lifecycle, record = runner.spec.id, runner.lifecycle, runner.record
        started = record.started_at if record is not None else None
        if lifecycle.alive and runner.job_status is not None:
            started = runner.job_status.since
        ended_at = None if lifecycle.alive or record is None else record.ended_at
        uptime = None if started is None or not lifecycle.alive else max(0.0, time.time() - started)
        retry_in_s = None if lifecycle.retry_at is None else lifecycle.retry_at - time.monotonic()
        memory, remedies = self._remedies.advice(runner) or (None, ())
        return ComponentStatus(
            id=name,
            kind=runner.spec.kind,
            prepares=bool(runner.spec.creates),
            writes_run=name in self._setup.run_jobs,
            manual=runner.spec.is_manual,
            state=lifecycle.state,
            stalled=runner.evidence is not None,
            evidence=runner.evidence,
            reason=self._reason(runner),
            code=lifecycle.reason_code,
            retry_at=None if retry_in_s is None else time.time() + retry_in_s,
            pid=runner.pid,
            attempt=runner.attempt,
            exit_code=lifecycle.exit.code if lifecycle.exit else None,
            signal=lifecycle.exit.signal if lifecycle.exit else None,
            lost=lifecycle.is_lost,
            from_outside=lifecycle.exit is not None and lifecycle.exit.from_outside,
            started_at=started,
            uptime_s=uptime if ended_at is None else None,
            log=str(runner.log) if runner.log else None,
            log_end=runner.log_end,
            host=None if runner.job_status is None else _host(runner.job_status),
            port=runner.launch.port if runner.launch is not None else None,
            gpus=self._gpus(name),
            step=runner.step if lifecycle.alive else None,
            max_steps=self._preparation_steps(runner) if lifecycle.alive else None,
            facts=self._facts(runner, evals),
            concerns=tuple(
                concern
                for concern in self._observation.health.concerns
                if concern.component == name and lifecycle.alive
            ),
            out_of_memory=memory,
            remedies=remedies,
        )

    def _gpus(self, component: str) -> tuple[int, ...]:
        """Indices of its devices; none where the config cannot be read, which the event bus reports."""
        try:
            devices = assigned_devices(component, self._config.launcher.context(self._config.document.files))
        except ConfigError:
            return ()
        return tuple(device.index for device in devices)

    def _preparation_steps(self, runner: ComponentRunner) -> int | None:
        """The steps of a job that prepares; `None` for others, and where the config cannot be read."""
        if not runner.spec.creates:
            return None
        try:
            return self._setup.framework.run.preparation_steps(runner.spec.id, self._config.document.files)
        except ConfigError:
            return None

    def _reason(self, runner: ComponentRunner) -> str | None:
        name = runner.spec.id
        if runner.attempt is None and not runner.lifecycle.busy and self._config.is_made(name):
            output_path = self._config.launcher.context(self._config.document.files).creates(name)
            return f"not needed: {output_path} exists"
        if runner.lifecycle.state is ComponentState.WAITING and self._config.makes_configs:
            return runner.lifecycle.reason or "waiting for its config, which the framework is writing"
        return runner.lifecycle.reason

    def _facts(self, runner: ComponentRunner, evals: tuple[QueuedEval, ...]) -> tuple[str, ...]:
        """Short texts for its title; how far a start is, as its output says, comes first."""
        details = self._observation.title_details(runner.spec.id)
        for evaluation in evals:
            if evaluation.state == "running" and runner.spec.id in (COMPONENT, SERVER):
                details = (
                    (evaluation.label, evaluation.words)
                    if runner.spec.id == COMPONENT
                    else (evaluation.label,)
                )
        if runner.lifecycle.state is ComponentState.STARTING and runner.phase is not None:
            return (runner.phase, *details)
        if runner.lifecycle.state is ComponentState.READY and runner.activity:
            details = (runner.activity, *details)
        if (missing := self._missing()) is not None and missing.waits == runner.spec.id:
            details = (f"waiting for {missing.waits_for}", *details)
        if runner.spec.id == "inference" and self._servers.users:
            details = (*details, f"used by {join_words(self._servers.users)}")
        return details if runner.lifecycle.alive else ()


def _host(job_status: JobStatus) -> HostStatus:
    return HostStatus(
        where=job_status.where,
        phase=job_status.phase,
        reason=job_status.reason,
        since=job_status.since,
        starts=job_status.starts,
        ends_at=job_status.ends_at,
        lost_at=job_status.lost_at,
        problem=job_status.problem,
        script=job_status.script,
    )


def _is_over(runner: ComponentRunner) -> bool:
    """True if a manual component has ended, and people have had time to read why."""
    state, record = runner.lifecycle.state, runner.record
    if state in (ComponentState.EXITED, ComponentState.FAILED) and record is not None:
        return record.ended_at is not None and time.time() - record.ended_at > _VISIBLE_S
    return state is ComponentState.STOPPED
