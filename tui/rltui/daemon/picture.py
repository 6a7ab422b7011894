"""The experiment as it is now, for status, knobs and plans. Looks, changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import (
    EDITS,
    ComponentState,
    ComponentStatus,
    PendingKnob,
    Plan,
    Problem,
    Request,
    Status,
)
from rltui.core.inference_activity import InferenceActivity, facts_of
from rltui.core.layout import Layout
from rltui.core.plan import Situation, make_plan
from rltui.daemon.component import ComponentRunner
from rltui.daemon.memory_outlook import MemoryOutlook, problems_of
from rltui.daemon.orphans import OrphanWatch
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.remedies import RemedyDesk
from rltui.daemon.rollback import RollbackWatch
from rltui.daemon.start_times import StartTimes
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import processes
from rltui.services.changed_instances import changed_instances
from rltui.services.config_editor import ConfigEditor
from rltui.services.config_store import ConfigStore, load_snapshot
from rltui.services.edit_preview import EditPreview
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.followed_logs import FollowedLogs
from rltui.services.observed import is_growing, refuse_observed, title_of
from rltui.services.recipe import Recipe
from rltui.services.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it was made from."""

    plan: Plan
    edit: EditPreview | None = None
    """For edits: what would be written."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Reads the parts of a supervisor."""

    record: ExperimentRecord
    control: ControlFolder
    layout: Layout
    framework: Framework
    store: ConfigStore
    editor: ConfigEditor
    rollback: RollbackWatch
    recipe: Recipe
    folder: RunFolder
    progress: ProgressTracker
    logs: FollowedLogs
    runners: Mapping[str, ComponentRunner]
    orphans: OrphanWatch
    activities: Mapping[str, InferenceActivity]
    times: StartTimes
    outlook: MemoryOutlook
    remedies: RemedyDesk
    transaction: Callable[[], str | None]
    """The plan being carried out, in words."""

    def status(self) -> Status:
        """Everything about processes and progress."""
        progress = self.progress.progress
        return Status(
            experiment=self.record.name,
            state="running" if self._is_running() else "stopped",
            framework=self.framework.id,
            output_dir=self.record.output_dir,
            run_dir=self.record.run_dir,
            observed=self.record.observed,
            step=progress.step,
            max_steps=progress.max_steps,
            reward=progress.reward,
            components=tuple(self._component_status(runner) for runner in self.runners.values()),
            done=self.is_done(),
            title=title_of(self.record, self.layout, self.framework),
            config_files=self.record.config_files,
            workspace=self.record.workspace,
            progress=progress,
            logs=self.logs.logs,
            transaction=self.transaction(),
            rollback=self.rollback.offer,
            orphans=self.orphans.orphans,
        )

    def _is_running(self) -> bool:
        if self.record.observed:
            return is_growing(self.logs.logs, time.time())
        return any(runner.life.expected for runner in self.runners.values())

    def _component_status(self, runner: ComponentRunner) -> ComponentStatus:
        name = runner.spec.id
        try:
            gpus = tuple(device.index for device in self.recipe.devices(name, self.store.files))
        except ConfigError:  # an unreadable config is told once, by the teller
            gpus = ()
        activity = self.activities.get(name)
        facts = (*self.progress.facts(name), *(facts_of(activity) if activity is not None else ()))
        status = runner.status(facts=facts, gpus=gpus)
        if (advice := self.remedies.advice(runner)) is not None:
            return status.model_copy(update={"out_of_memory": advice[0], "remedies": advice[1]})
        if runner.attempt is None and not runner.life.busy and self.is_made(name):
            made = self.recipe.creates(name, self.store.files)
            return status.model_copy(update={"reason": f"not needed: {made} is there"})
        return status

    def run_jobs(self) -> list[ComponentRunner]:
        """The jobs whose end is the end of the run: not those that only prepare something."""
        return [r for r in self.runners.values() if r.spec.kind == "job" and not r.spec.creates]

    def is_done(self) -> bool:
        """Every job of the run has ended well, and no service is in trouble."""
        jobs = self.run_jobs()
        services = [runner for runner in self.runners.values() if runner.spec.kind == "service"]
        calm = (ComponentState.READY, ComponentState.STOPPED)
        return (
            bool(jobs)
            and all(runner.life.state is ComponentState.EXITED for runner in jobs)
            and all(runner.life.state in calm for runner in services)
        )

    def is_made(self, component: str) -> bool:
        """Whether what this job makes is there. A config that cannot be read makes nothing."""
        try:
            path = self.recipe.creates(component, self.store.files)
        except ConfigError:
            return False
        return path is not None and path.exists()

    def why_held(self, component: str) -> tuple[bool, str] | None:
        """What the start of a component waits for, `None` if nothing; False where it cannot come any more."""
        for needed in self.layout[component].after:
            life = self.runners[needed].life
            if self._is_there(needed):
                continue
            if life.expected:
                return True, f"{needed} to be {'ready' if life.kind == 'service' else 'done'}"
            return False, f"{needed} is {life.state}" + (f": {life.reason}" if life.reason else "")
        engine = self.outlook.why_held(component)
        return None if engine is None else (True, engine)

    def _is_there(self, component: str) -> bool:
        """A service is ready, a job has done its work."""
        life = self.runners[component].life
        if life.kind == "service":
            return life.state is ComponentState.READY
        return not life.expected and (life.state is ComponentState.EXITED or self.is_made(component))

    def running_configs(self) -> dict[str, ConfigFiles]:
        """Living component → the files it was started with."""
        return {
            name: load_snapshot(self.control.attempt_dir(name, runner.attempt) / "config", self.framework)
            for name, runner in self.runners.items()
            if runner.life.alive and runner.attempt is not None
        }

    def planned(self, request: Request) -> Planned:
        """What `request` would do.

        Raises:
            ConfigError: if a component is unknown, or a config file or edited value cannot be understood.
            UsageError: if somebody else runs the experiment.
        """
        refuse_observed(self.record)
        self._check_names(request)
        if request.action in EDITS:
            return self._planned_edit(self.rollback.with_components(request))
        plan = make_plan(request, self._situation(request), readers={})
        if not plan.start:
            return Planned(plan)
        self.store.load()
        running = self.running_configs()
        plan = plan.model_copy(
            update={
                "problems": (
                    *self.store.problems(),
                    *changed_instances(self.record, self.framework, self.store.files),
                    *self._port_problems(plan),
                ),
                "base": self.store.base(),
                "pending": _without(self.store.pending(running), plan),
            }
        )
        return Planned(self._with_memory(plan, self.store.files))

    def _planned_edit(self, request: Request) -> Planned:
        running = self.running_configs()
        preview = self.editor.preview(request, running=running)
        plan = make_plan(request, self._situation(request), readers=preview.readers)
        pending = self.store.pending(running, preview.after.files)
        plan = plan.model_copy(
            update={
                "diff": preview.diff,
                "problems": (
                    *preview.problems,
                    *changed_instances(self.record, self.framework, preview.after.files),
                ),
                "base": self.store.base(),
                "pending": _without(pending, plan) if request.restart else pending,
                "derived": preview.derived,
                "conflicts": preview.conflicts,
            }
        )
        return Planned(plan if preview.blocked else self._with_memory(plan, preview.after.files), preview)

    def _with_memory(self, plan: Plan, files: ConfigFiles) -> Plan:
        """`plan` with what its starts will meet on their devices, with the config `files`."""
        memory = self.outlook.of_plan(plan, files)
        return plan.model_copy(
            update={
                "memory": memory,
                "problems": (*plan.problems, *problems_of(memory)),
                "reasons": (*plan.reasons, *self.outlook.reasons(plan, files)),
            }
        )

    def _check_names(self, request: Request) -> None:
        for name in request.components:
            if name not in self.runners:
                known = ", ".join(self.runners)
                raise ConfigError(f"no component {name!r} in this experiment", hint=f"there are: {known}")

    def _situation(self, request: Request) -> Situation:
        return Situation(
            layout=self.layout,
            lives={name: runner.life for name, runner in self.runners.items()},
            rules=(*self.framework.restart_rules(self.store.files), *self.layout.restart_rules()),
            fresh_rules=self.framework.fresh_rules(self.store.files),
            completed_steps=self.progress.progress.step or 0,
            resume_step=self.folder.latest_checkpoint() if request.resume == "latest" else None,
            is_made=self.is_made,
            rollouts=self._rollouts(),
            orphans=self.orphans.orphans,
            strangers=self.orphans.strangers() if request.action == "free" and request.pids else (),
            times=self.times.now(),
        )

    def _rollouts(self) -> int | None:
        """Requests that the inference servers work on; `None` where none of them says."""
        if not self.activities:
            return None
        return sum(activity.requests for activity in self.activities.values())

    def _port_problems(self, plan: Plan) -> tuple[Problem, ...]:
        problems = []
        ending = {orphan.pid for orphan in plan.free}
        for name in plan.start:
            port = None if name in plan.stop else self.recipe.port(name, self.store.files)
            holders = [] if port is None else processes.port_holders(port)
            if strangers := [holder for holder in holders if holder.pid not in ending]:
                message = f"{name} needs port {port}, which is held by {' and '.join(map(str, strangers))}"
                problems.append(Problem(severity="error", key="port", message=message))
        return tuple(problems)


def _without(pending: Sequence[PendingKnob], plan: Plan) -> tuple[PendingKnob, ...]:
    """Those that some component still has after the plan's restarts."""
    left = (
        each.model_copy(update={"readers": tuple(r for r in each.readers if r not in plan.stop)})
        for each in pending
    )
    return tuple(each for each in left if each.readers)


def refuse_blocked(plan: Plan) -> None:
    """Stop here if an error forbids the plan.

    Raises:
        ConflictError: if only ports are in the way.
        ConfigError: for any other error.
    """
    errors = [problem for problem in plan.problems if problem.severity == "error"]
    if not errors:
        return
    lines = [problem.text for problem in errors]
    if all(problem.key == "port" for problem in errors):
        hint = "end that process, or change the port in the config"
        raise ConflictError(lines[0], details=lines[1:], hint=hint)
    title = lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config"
    raise ConfigError(title, details=lines if len(lines) > 1 else (), hint="nothing was written or started")
