"""What a request would do to the experiment as it is now. Looks, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.api import EDITS, Plan, Request
from rltui.core.config_report import PendingKnob, Problem
from rltui.core.plan import Situation, make_plan
from rltui.daemon.config_desk import ConfigDesk
from rltui.daemon.memory_outlook import problems_of
from rltui.daemon.picture import Picture
from rltui.daemon.start_times import StartTimes
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import ConfigFiles
from rltui.services import processes
from rltui.services.changed_instances import changed_instances
from rltui.services.edit_preview import EditPreview
from rltui.services.observed import refuse_observed
from rltui.services.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it was made from."""

    plan: Plan
    edit: EditPreview | None = None
    """For edits: what would be written."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans from what `picture` shows."""

    picture: Picture
    config: ConfigDesk
    folder: RunFolder
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
        plan = make_plan(request, self._situation(request), readers={})
        if not plan.start:
            return Planned(plan)
        store = self.config.store
        store.load()
        running = self.config.running()
        plan = plan.model_copy(
            update={
                "problems": (
                    *store.problems(),
                    *self._changed_instances(store.files),
                    *self._port_problems(plan),
                ),
                "base": store.base(),
                "pending": _without(store.pending(running), plan),
            }
        )
        return Planned(self._with_memory(plan, store.files))

    def _planned_edit(self, request: Request) -> Planned:
        store, running = self.config.store, self.config.running()
        preview = self.config.editor.preview(request, running=running)
        plan = make_plan(request, self._situation(request), readers=preview.readers)
        pending = store.pending(running, preview.after.files)
        plan = plan.model_copy(
            update={
                "diff": preview.diff,
                "problems": (*preview.problems, *self._changed_instances(preview.after.files)),
                "base": store.base(),
                "pending": _without(pending, plan) if request.restart else pending,
                "derived": preview.derived,
                "conflicts": preview.conflicts,
            }
        )
        return Planned(plan if preview.blocked else self._with_memory(plan, preview.after.files), preview)

    def _changed_instances(self, files: ConfigFiles) -> tuple[Problem, ...]:
        return changed_instances(self.picture.setup.record, self.picture.setup.framework, files)

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
                known = ", ".join(self.picture.runners)
                raise ConfigError(f"no component {name!r} in this experiment", hint=f"there are: {known}")

    def _situation(self, request: Request) -> Situation:
        now, setup, files = self.picture, self.picture.setup, self.config.store.files
        return Situation(
            layout=setup.layout,
            lives={name: runner.life for name, runner in now.runners.items()},
            rules=(*setup.framework.restart_rules(files), *setup.layout.restart_rules()),
            fresh_rules=setup.framework.fresh_rules(files),
            completed_steps=now.progress.progress.step or 0,
            resume_step=self.resume_step(request),
            is_made=now.is_made,
            rollouts=self._rollouts(),
            orphans=now.orphans.orphans,
            strangers=now.orphans.strangers() if request.action == "free" and request.pids else (),
            times=self.times.now(),
        )

    def resume_step(self, request: Request) -> int | None:
        """The checkpoint that jobs would continue from; `None`: the beginning."""
        return self.folder.latest_checkpoint() if request.resume == "latest" else None

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
