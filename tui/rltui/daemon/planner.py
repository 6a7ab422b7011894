"""What a request would do to the experiment as it is now. Looks, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rltui.core.api import EDITS, Lost, Plan, Request
from rltui.core.config_report import PendingKnob, Problem
from rltui.core.plan import Situation, make_plan
from rltui.core.text import unknown
from rltui.daemon.config_desk import ConfigDesk
from rltui.daemon.forecast import problems_of
from rltui.daemon.picture import Picture
from rltui.daemon.setup import Setup
from rltui.daemon.start_times import StartTimes
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import ConfigFiles
from rltui.services import layout_files, processes
from rltui.services.changed_instances import changed_instances
from rltui.services.edit_preview import EditPreview
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.run_folder import ResumePoints
from rltui.services.shared_configs import shared_configs


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it was made from."""

    plan: Plan
    edit: EditPreview | None = None
    """For edits: what would be written."""
    resume_step: int | None = None
    """Checkpoint that the jobs of the run continue from, where it starts them; `None`: the beginning."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans from what `picture` shows."""

    picture: Picture
    config: ConfigDesk
    points: ResumePoints
    times: StartTimes

    def planned(self, request: Request) -> Planned:
        """What `request` would do.

        Raises:
            ConfigError: if a component is unknown, or a config file or edited value cannot be understood.
            UsageError: if somebody else runs the experiment.
        """
        refuse_observed(self.picture.setup.record)
        self._check_names(request)
        if request.action in EDITS:
            return self._planned_edit(self.picture.rollback.with_components(request))
        store = self.config.store
        planned = self._plan(request, store.files)
        if not planned.plan.start:
            return planned
        planned = self._plan(request, store.load())
        running = self.config.running()
        plan = planned.plan.model_copy(
            update={
                "problems": (
                    *planned.plan.problems,
                    *store.problems(),
                    *self._changed_instances(store.files),
                    *_changed_layout(self.picture.setup),
                    *self._port_problems(planned.plan),
                    *self._first_start_problems(planned.plan),
                ),
                "base": store.base(),
                "pending": _without(store.pending(running), planned.plan),
            }
        )
        return replace(planned, plan=self._with_memory(plan, store.files))

    def _planned_edit(self, request: Request) -> Planned:
        store, running = self.config.store, self.config.running()
        preview = self.config.editor.preview(request, running=running)
        planned = self._plan(request, preview.after.files, preview)
        plan = planned.plan
        pending = store.pending(running, preview.after.files)
        plan = plan.model_copy(
            update={
                "diff": preview.diff,
                "problems": (
                    *preview.problems,
                    *plan.problems,
                    *self._changed_instances(preview.after.files),
                    *shared_configs(preview.paths, self.picture.setup.record),
                ),
                "base": store.base(),
                "pending": _without(pending, plan) if request.restart else pending,
                "derived": preview.derived,
                "conflicts": preview.conflicts,
            }
        )
        return replace(
            planned, plan=plan if preview.blocked else self._with_memory(plan, preview.after.files)
        )

    def _changed_instances(self, files: ConfigFiles) -> tuple[Problem, ...]:
        return changed_instances(self.picture.setup.record, self.picture.setup.framework, files)

    def _first_start_problems(self, plan: Plan) -> tuple[Problem, ...]:
        """What a person should hear once, before anything of the experiment runs."""
        if plan.keep or plan.stop:
            return ()
        return shared_configs(self.config.store.base(), self.picture.setup.record)

    def _with_memory(self, plan: Plan, files: ConfigFiles) -> Plan:
        """`plan` with what its starts will meet on their devices, with the config `files`."""
        memory = self.picture.outlook.of_plan(plan, files)
        return plan.model_copy(
            update={
                "memory": memory,
                "problems": (*plan.problems, *problems_of(memory)),
                "reasons": (*plan.reasons, *self.picture.outlook.reasons(plan, files)),
            }
        )

    def _check_names(self, request: Request) -> None:
        for name in request.components:
            if name not in self.picture.runners:
                raise unknown("component", name, self.picture.runners)

    def _plan(self, request: Request, files: ConfigFiles, edit: EditPreview | None = None) -> Planned:
        """The plan with the config `files`, and where the run goes on if it starts its jobs."""
        wanted = (edit.wanted if edit is not None else None) or {}
        point = self.points.of(request, files, edited=wanted)
        situation = self._situation(request, files, point.step)
        plan = make_plan(request, situation, readers=edit.readers if edit is not None else {})
        plan = plan.model_copy(
            update={"reasons": (*plan.reasons, *map(_unseen, self.picture.remote(plan.stop)))}
        )
        problem, begins = point.problem, situation.begins(plan.stop, plan.start)
        if request.resume_step is not None and not begins:
            message = f"nothing that this {request.action}s resumes from checkpoint {request.resume_step}"
            problem = Problem(message=f"{message}: restart the components that write the run")
            return Planned(plan.model_copy(update={"problems": (problem,)}), edit)
        if begins:
            because = (point.because,) if point.because and problem is None else ()
            told = {
                "resume_from": point.asked,
                "checkpoints": tuple(self.points.folder.checkpoints()),
                "reasons": (*plan.reasons, *because),
            }
            plan = plan.model_copy(update=told)
        acts = begins and (edit is None or request.restart)
        concerns = acts or (problem is not None and any(problem.key in keys for keys in wanted.values()))
        if problem is not None and concerns:
            plan = plan.model_copy(
                update={"problems": (problem,), "lost": Lost()}
            )  # nothing is known of that
        return Planned(plan, edit, point.step)

    def _situation(self, request: Request, files: ConfigFiles, resume_step: int | None) -> Situation:
        now, setup = self.picture, self.picture.setup
        return Situation(
            layout=setup.layout,
            lives={name: runner.life for name, runner in now.runners.items()},
            rules=(*setup.framework.restart_rules(files), *setup.layout.restart_rules()),
            fresh_rules=setup.framework.fresh_rules(files),
            completed_steps=now.progress.progress.step or 0,
            resume_step=resume_step,
            run_jobs=setup.run_jobs,
            max_steps=setup.framework.max_steps(files),
            is_made=now.is_made,
            rollouts=self._rollouts(),
            orphans=now.orphans.orphans,
            strangers=now.orphans.strangers() if request.action == "free" and request.pids else (),
            times=self.times.now(),
        )

    def _rollouts(self) -> int | None:
        """Requests that the inference servers work on; `None` where none of them says."""
        if not self.picture.activities:
            return None
        return sum(activity.requests for activity in self.picture.activities.values())

    def _port_problems(self, plan: Plan) -> tuple[Problem, ...]:
        problems = []
        ending = {orphan.pid for orphan in plan.free}
        for name in plan.start:
            port = None if name in plan.stop else self.picture.recipe.port(name, self.config.store.files)
            holders = [] if port is None else processes.port_holders(port)
            if strangers := [holder for holder in holders if holder.pid not in ending]:
                message = f"{name} needs port {port}, which is held by {' and '.join(map(str, strangers))}"
                problems.append(Problem(severity="error", key="port", message=message))
        return tuple(problems)


def _changed_layout(setup: Setup) -> tuple[Problem, ...]:
    """The layout's file says something else than it did when the supervisor read it."""
    try:
        if layout_files.load_for(setup.record) == setup.layout:
            return ()
        what = "was changed"
    except ConfigError as error:
        what = f"was changed and cannot be read any more ({error.title})"
    message = (
        f"the layout {what} since this experiment's supervisor started, which goes on with what it read then:"
        f" `rltui down {setup.record.name}` and `rltui up … --resume` take the new one"
    )
    return (Problem(severity="warning", message=message, file=setup.record.layout_file),)


def _unseen(what: str) -> str:
    return f"{what} by ssh: whether it ends there with its ssh here cannot be seen"


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
