"""What a request would do to the experiment as it is now. Looks and asks, changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from rltui.core import hints
from rltui.core.api import EDITS, JournalEntry, Lost, Plan, Request
from rltui.core.config_report import PendingKnob, Problem
from rltui.core.consent import loss_of_plan
from rltui.core.plan import Situation, Times, make_plan, times_from
from rltui.core.text import listed, unknown
from rltui.daemon.config import Config, Setup
from rltui.daemon.forecast import problems_of
from rltui.daemon.observation import Observation
from rltui.daemon.processes import Processes
from rltui.daemon.servers import SERVER, Servers
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services.config.editor import shared_configs
from rltui.services.config.store import EditPreview
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.logs.growing_file import JsonLines
from rltui.services.processes import port_holders
from rltui.services.processes.origin import holder_text
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.experiments import name_if_needed
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.run_folder import ResumePoint, ResumePoints

_NEWEST_ENTRIES = 500
"""Timed journal entries that are kept, of all components together."""


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    edit: EditPreview | None = None
    """For edits: what would be written."""
    resume_step: int | None = None
    """Checkpoint that the jobs of the run continue from, where it starts them; `None`: the beginning."""


class Planner:
    """Plans for people who wait, made when all is known that takes time to learn: leftovers, the GPUs, the
    framework's own word. Lives on the supervisor's loop.
    """

    def __init__(
        self,
        setup: Setup,
        config: Config,
        observation: Observation,
        processes: Processes,
        readings: GpuReadings,
        servers: Servers,
    ) -> None:
        self._setup = setup
        self._config = config
        self._observation = observation
        self._processes = processes
        self._readings = readings
        self._servers = servers
        self._points = ResumePoints(setup.framework, setup.control, observation.folder, setup.run_jobs)
        self._times = _StartTimes(setup.control.journal_file)

    async def plan(self, request: Request) -> Plan:
        """What `request` would do; what the framework's own models say too, where it is thorough.

        Raises:
            ConfigError: if a component is unknown, or a config file or edited value cannot be understood.
            UsageError: if somebody else runs the experiment.
        """
        planned = await self.plan_with_edit(request)
        plan, edit = planned.plan, planned.edit
        if request.thorough:
            theirs = await self._config.framework_problems(edit, plan.problems)
            return plan.model_copy(update={"problems": (*plan.problems, *theirs)})
        if edit is None:
            return plan
        return plan.model_copy(update={"asks_more": await self._config.can_be_asked(edit)})

    async def validated(self, request: Request) -> Request:
        """The request to plan and carry out, once the framework has resolved the config of what it stops and
        starts. That may take seconds.

        Raises:
            ConfigError, UsageError: as `plan`, or if the framework refuses the config; nothing was written
                or stopped.
            RltuiError: if the framework cannot be asked, or the disk is full.
        """
        planned = await self.plan_with_edit(request)
        plan, edit = planned.plan, planned.edit
        if plan.blocked or not (plan.stop and plan.start) or (edit is not None and not request.restart):
            return request
        files = edit.after.files if edit is not None else self._config.store.files
        run_id = self._observation.run_id
        await self._config.validate(plan.start, files, resume_step=planned.resume_step, run_id=run_id)
        # Another may write before it is carried out.
        return request.model_copy(update={"base": plan.base}) if edit is not None else request

    async def plan_with_edit(self, request: Request, *, automatic: bool = False) -> Planned:
        """The plan, and what an edit would write. `automatic`: by a restart policy, so that leftovers and a
        busy port are waited for, like anything on the box.

        Raises:
            ConfigError, UsageError: as `plan`.
        """
        await self._processes.orphans.wait_for_searches()
        if request.action == "free" and request.pids:
            await self._readings.fresh()  # may name what only the GPUs know
        else:
            await self._readings.first()
        await self._servers.refresh()
        planned = self._plan_now(request, automatic=automatic)
        problems = planned.plan.problems
        if request.unasked or not any(problem.severity == "error" and problem.file for problem in problems):
            return planned
        if not await self._config.is_accepted(planned.edit):
            return planned
        return self._plan_now(request, automatic=automatic)

    # --- a plan, from what is known now -------------------------------------------------------------------

    def _plan_now(self, request: Request, *, automatic: bool) -> Planned:
        refuse_observed(self._setup.record)
        restarts = request.action == "restart" or (request.action in EDITS and request.restart)
        if restarts and request.resume_step is not None and not request.components:
            # going back to a checkpoint restarts these; a server that lives need not load its model again
            jobs = tuple(name for name in self._setup.components if name in self._setup.run_jobs)
            request = request.model_copy(update={"components": jobs})
        for name in request.components:
            if name not in self._processes.runners:
                raise unknown("component", name, self._processes.runners)
        store = self._config.store
        if request.action in EDITS:
            edit = self._config.editor.preview(request, running=self._running())
            draft = self._draft(request, edit.after.files, edit)
        else:
            draft = self._draft(request, store.files)
            if draft.plan.start:  # by the files as they are now; what only ends something needs none
                draft = self._draft(request, store.load())
        return Planned(self._complete(draft, automatic=automatic), draft.edit, draft.point.step)

    def _running(self) -> dict[str, ConfigFiles]:
        return self._config.running(self._processes.attempts())

    def _draft(self, request: Request, files: ConfigFiles, edit: EditPreview | None = None) -> _Draft:
        """What stops and starts with the config `files`, and where the run goes on if it starts its jobs."""
        wanted = (edit.wanted if edit is not None else None) or {}
        point = self._points.of(request, files, edited=wanted)
        situation = self._situation(request, files, point)
        plan = make_plan(request, situation, readers=edit.readers if edit is not None else {})
        return _Draft(request, plan, files, edit, point, situation.begins(plan.stop, plan.start))

    def _situation(self, request: Request, files: ConfigFiles, point: ResumePoint) -> Situation:
        setup, orphans = self._setup, self._processes.orphans
        return Situation(
            layout=setup.layout,
            lives={name: runner.lifecycle for name, runner in self._processes.runners.items()},
            rules=(*setup.framework.restart_rules(files), *setup.layout.restart_rules()),
            fresh_rules=setup.framework.fresh_rules(files),
            completed_steps=self._observation.progress.progress.step or 0,
            resume_step=point.step,
            resumes_newest=point.step is not None and point.asked is None,
            run_jobs=setup.run_jobs,
            max_steps=setup.framework.max_steps(files),
            checkpoint_interval=self._interval(files),
            is_made=self._config.is_made,
            rollouts=self._observation.requests(),
            orphans=orphans.orphans,
            foreign=orphans.foreign() if request.action == "free" and request.pids else (),
            times=self._times.now(),
        )

    def _interval(self, files: ConfigFiles) -> int | None:
        """By the config, else as the newest checkpoints lie."""
        if (steps := self._setup.framework.checkpoint_interval(files)) is not None:
            return steps
        before, newest = (0, 0, *self._observation.folder.checkpoints())[-2:]
        return newest - before or None

    def _complete(self, draft: _Draft, *, automatic: bool) -> Plan:
        """The plan of `draft`, with all that a person should know of it."""
        plan, edit, files, point = draft.plan, draft.edit, draft.files, draft.point
        resume_problem = draft.resume_problem
        told_of_point = (point.because, point.passed_over) if draft.begins and point.problem is None else ()
        because = tuple(filter(None, told_of_point))
        unseen = (
            f"{what} by ssh: whether it ends there cannot be seen (on a [[node]], without tty, it can)"
            for what in self._processes.ssh_components(plan.stop)
        )
        pods = [name for name in plan.stop if self._setup.layout[name].pod is not None]
        reasons = (*plan.reasons, *unseen, *([f"{listed(pods)}: {_POD_STOP_TEXT}"] if pods else []), *because)
        told: dict[str, object] = {"reasons": reasons}
        problems: tuple[Problem, ...] = () if resume_problem is None else (resume_problem,)
        if draft.begins:
            folder = self._observation.folder
            told |= {"resume_from": point.asked, "checkpoints": tuple(folder.checkpoints())}
            if resume_problem is None and (archived := folder.archived(point.step)):
                told |= {"archived": archived, "archive": str(folder.archive)}
        if resume_problem is not None and resume_problem is point.problem:
            told["lost"] = Lost()  # nothing is known of that
        if edit is not None or plan.start:
            told |= {"base": self._config.store.base(), "pending": self._pending(draft)}
            problems = (
                *(problems if edit is None else (*edit.problems, *problems)),
                *self._problems(draft),
            )
        if edit is not None:
            reasons = (*edit.reasons, *reasons)
            told |= {
                "reasons": reasons,
                "diff": edit.diff,
                "derived": edit.derived,
                "written": edit.written,
                "conflicts": edit.conflicts,
            }
        if (edit is not None and not edit.blocked) or (edit is None and plan.start):
            memory = self._processes.forecast.of_plan(plan, files)
            is_now = edit is None or draft.request.restart
            problems = (*problems, *problems_of(memory, standing=not is_now))
            held = self._processes.forecast.reasons(plan, files)
            told |= {"memory": memory, "reasons": (*reasons, *held)}
        if edit is None or draft.request.restart:
            is_anew = draft.begins and point.step is None
            problems = (*problems, *self._servers.problems(plan, is_anew=is_anew))
        if automatic:
            problems = tuple(problem for problem in problems if problem.key not in ("port", SERVER))
            told["free"] = ()
        return plan.model_copy(update={**told, "problems": problems})

    def _problems(self, draft: _Draft) -> tuple[Problem, ...]:
        """What is wrong or doubtful with the files and the box, besides what an edit says of itself."""
        plan, edit, record = draft.plan, draft.edit, self._setup.record
        instances = changed_instances(record, self._setup.framework, draft.files)
        if edit is not None:
            return (*instances, *_other_folders(edit, record), *shared_configs(edit.paths, record))
        is_first_start = not plan.keep and not plan.stop  # a person should hear it once
        store = self._config.store
        if all(self._setup.layout[name].is_manual for name in plan.start):
            return self._port_problems(plan)  # a shell is wanted most where the config is wrong
        return (
            *store.problems(),
            *self._max_steps_reached(draft),
            *instances,
            *self._setup.layout_problems(),
            *self._port_problems(plan),
            *self._launch_problems(plan),
            *(shared_configs(store.base(), record) if is_first_start else ()),
        )

    def _max_steps_reached(self, draft: _Draft) -> Iterator[Problem]:
        """The run would go on from its last step, and end at once."""
        step, most = draft.point.step, self._setup.framework.max_steps(draft.files)
        if draft.begins and step is not None and most is not None and step >= most:
            more = hints.SET_RESTART(
                words=f"max_steps={2 * most}", name=name_if_needed(self._setup.record.name)
            )
            message = f"step {step} of {most} is reached, nothing is left to train; raise max_steps: {more}"
            yield Problem(severity="warning", key="max_steps", message=message)

    def _port_problems(self, plan: Plan) -> tuple[Problem, ...]:
        problems = []
        ending = {orphan.pid for orphan in plan.free}
        stays = set(self._processes.alive()).difference(plan.stop)
        for name in plan.start:
            launcher, files = self._config.launcher, self._config.store.files
            if launcher.movable_ports(name, files, stays):
                continue  # another is chosen at the start
            port = None if name in plan.stop else launcher.port(name, files)
            holders = [] if port is None else port_holders(port)
            if foreign := [holder for holder in holders if holder.pid not in ending]:
                message = (
                    f"{name} needs port {port}, which is held by {' and '.join(map(holder_text, foreign))}"
                )
                problems.append(Problem(severity="error", key="port", message=message))
        return tuple(problems)

    def _launch_problems(self, plan: Plan) -> Iterator[Problem]:
        for name in plan.start:
            fault = self._config.launcher.fault(name, self._config.store.files)
            if fault is not None:
                yield Problem(message=f"{name} cannot be started: {fault.reason}; {fault.hint}".rstrip("; "))

    def _pending(self, draft: _Draft) -> tuple[PendingKnob, ...]:
        """What runs will not have of the files when the plan is carried out."""
        pending = self._config.store.pending(self._running(), draft.files)
        restarts = draft.edit is None or draft.request.restart
        return _without_stopped(pending, draft.plan.stop) if restarts else tuple(pending)


@dataclass(frozen=True, slots=True)
class _Draft:
    """Who stops and starts, and what that was found from."""

    request: Request
    plan: Plan
    files: ConfigFiles
    edit: EditPreview | None
    point: ResumePoint
    begins: bool
    """The jobs of the run resume anew."""

    @property
    def resume_problem(self) -> Problem | None:
        """Why it cannot go on from where somebody asks for."""
        request, problem = self.request, self.point.problem
        acts = self.edit is None or request.restart
        if request.resume_step is not None and acts and not self.begins:
            message = f"nothing that this {request.action}s resumes from checkpoint {request.resume_step}"
            return Problem(message=f"{message}: restart the components that write the run")
        if problem is None:
            return None
        edited = (self.edit.wanted if self.edit is not None else None) or {}
        return (
            problem
            if (acts and self.begins) or any(problem.key in keys for keys in edited.values())
            else None
        )


_POD_STOP_TEXT = (
    "a pod that runs by itself is taken away (its StatefulSet is scaled below it), one that sleeps stays"
)


def _without_stopped(pending: Sequence[PendingKnob], stopped: Sequence[str]) -> tuple[PendingKnob, ...]:
    """Those that some component still has after these restarted."""
    left = (
        each.model_copy(update={"readers": tuple(r for r in each.readers if r not in stopped)})
        for each in pending
    )
    return tuple(each for each in left if each.readers)


def refuse_blocked(plan: Plan) -> None:
    """Stop here if an error forbids the plan.

    Raises:
        ConflictError: if only ports, or servers elsewhere, are in the way.
        ConfigError: for any other error.
    """
    errors = [problem for problem in plan.problems if problem.severity == "error"]
    if not errors:
        return
    lines = [problem.text for problem in errors]
    if all(problem.key in ("port", SERVER) for problem in errors):
        is_port = errors[0].key == "port"
        hint = "end what holds it, or change the port in the config" if is_port else "nothing was started"
        raise ConflictError(lines[0], details=lines[1:], hint=hint)
    title = lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config"
    raise ConfigError(title, details=lines if len(lines) > 1 else (), hint="nothing was written or started")


def refuse_unaccepted(plan: Plan, request: Request) -> None:
    """Stop here if it costs more than somebody has agreed to.

    Raises:
        UsageError: then; the details say what.
    """
    if loss_of_plan(plan, request) > request.accepts:
        lost = [f"{plan.lost.steps} steps are lost"] if plan.lost.steps else []
        raise UsageError(
            f"this {request.action} costs more than was agreed to",
            details=[*lost, *(problem.text for problem in plan.problems), *plan.reasons],
            hint="nothing was done; look at its plan, and ask for it once more",
        )


class _StartTimes:
    """How long starts and stops took before: reads what was appended to the journal since the last look."""

    def __init__(self, journal: Path) -> None:
        self._feed = JsonLines(journal)
        self._timed: deque[JournalEntry] = deque(maxlen=_NEWEST_ENTRIES)

    def now(self) -> dict[str, Times]:
        """Medians by component."""
        for row in self._feed.read():
            if "took_s" not in (row.get("data") or {}):
                continue
            try:
                self._timed.append(JournalEntry.model_validate(row))
            except ValidationError:
                continue  # of another version
        return times_from(self._timed)


def _other_folders(edit: EditPreview, record: ExperimentRecord) -> Iterator[Problem]:
    """A warning where an edit names another folder for a run that has one."""
    for role, changes in edit.changes.items():
        for key, (_, folder) in changes.items():
            if key.rpartition(".")[2] == "output_dir" and folder is not None:
                file = str(edit.after.sources[role].path)
                message = f"{key}: {record.name} stays in {record.run_dir}, where rltui looks for its files; "
                message += f"a run in another folder is another run: {hints.FORK_INTO(run=record.name)}"
                yield Problem(severity="warning", key=key, message=message, file=file)


def changed_instances(
    record: ExperimentRecord, framework: Framework, files: ConfigFiles
) -> tuple[Problem, ...]:
    """A warning for each kind of which `files` name others than when the experiment was made, such as another
    environment.
    """
    now = framework.instances(files) if record.instances else {}
    again = f"`{record.resume_command}`"
    return tuple(
        Problem(
            severity="warning",
            message=f"{word}: the config names {', '.join(now.get(word, ())) or 'none'}, this experiment has "
            f"components for {', '.join(before) or 'none'}: it gets others with "
            f"`{hints.DOWN(name=record.name)}`, then {again}",
        )
        for word, before in record.instances.items()
        if tuple(now.get(word, ())) != before
    )
