"""Plans: the effects of a request on the experiment as it is now. Reads and asks, changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.base.text import join_words, unknown_name
from rltui.base.toml.values import TomlValue
from rltui.base.values import InvalidValueError
from rltui.core import hints
from rltui.core.config.report import PendingKnob, Problem
from rltui.core.experiment.api import EDITS, Lost, Plan, Request
from rltui.core.experiment.events import entry_data
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.layout import Layout
from rltui.core.experiment.plan import Situation, Times, make_plan, times_from
from rltui.core.experiment.refusal import SERVER
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.proposal import Proposal
from rltui.services.config.readers import shared_configs
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import run_command
from rltui.services.logs.growing_file import JsonLines
from rltui.services.processes import port_holders
from rltui.services.processes.origin import holder_text
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.resume import ResumePoint, ResumePoints
from rltui.supervisor.gpu.forecast import problems_of
from rltui.supervisor.runtime import Runtime

_NEWEST_ENTRIES = 500
"""Most timed journal entries that are remembered, of all components together."""
_SSH_STOP_TEXT = "(by ssh): rltui cannot observe its end there; on a [[node]] without tty it can"


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    edit: Proposal | None = None
    """The files that an edit would write; `None` for other requests."""
    resume_step: int | None = None
    """Checkpoint that the jobs of the run continue from, where it starts them; `None`: the beginning."""


class Planner:
    """Plans for people who wait. They are made once all is known that takes time to learn: leftovers, the
    GPUs, the framework's own check.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._setup = setup = runtime.setup
        self._config = runtime.config
        self._observation = observation = runtime.observation
        self._processes = runtime.processes
        self._readings = runtime.gpu_readings
        self._servers, self._part_servers = runtime.servers, runtime.part_servers
        self._points = ResumePoints(setup.framework, setup.control, observation.folder, setup.run_jobs)
        self._times = _StartTimes(setup.control.journal_file)

    async def plan(self, request: Request) -> Plan:
        """The plan of `request`; if that is thorough, with the problems that the framework's own models find.

        Raises:
            ConfigError: if a component is unknown, or a config file or edited value cannot be understood.
            UsageError: if somebody else runs the experiment.
        """
        planned = await self.plan_with_edit(request)
        plan, edit = planned.plan, planned.edit
        if request.thorough:
            framework_problems = await self._config.framework_problems(edit, plan.problems)
            return plan.replace(problems=(*plan.problems, *framework_problems))
        if edit is None:
            return plan
        return plan.replace(asks_more=await self._config.can_be_asked(edit))

    async def validate_request(self, request: Request) -> Request:
        """The request to plan and execute, once the framework has resolved the config of what it stops and
        starts.

        That may take seconds.

        Raises:
            ConfigError, UsageError: as for `plan`, or if the framework refuses the config; nothing was
                written or stopped.
            RltuiError: if the framework cannot be run, or the disk is full.
        """
        if request.action in ("stop", "free") or not request.moves:
            return request
        planned = await self.plan_with_edit(request)
        plan, edit = planned.plan, planned.edit
        if plan.blocked or not (plan.stop and plan.start):
            return request
        files = edit.after if edit is not None else self._config.document.files
        run_id = self._observation.run_id
        await self._config.validate(plan.start, files, resume_step=planned.resume_step, run_id=run_id)
        # Another may write before it is carried out.
        return request.replace(base=plan.base) if edit is not None else request

    async def plan_with_edit(self, request: Request, *, automatic: bool = False) -> Planned:
        """The plan, and what an edit would write. `automatic`: by a restart policy, which waits for leftovers
        and a busy port, as for any other obstacle on the box.

        Raises:
            ConfigError, UsageError: as for `plan`.
        """
        await self._processes.orphans.wait_for_searches()
        if request.action == "free" and request.pids:
            await self._readings.fresh()  # may name what only the GPUs know
        else:
            await self._readings.first()
        await self._servers.refresh()
        planned = self._plan_now(request, automatic=automatic)
        problems = planned.plan.problems
        if request.unasked or not any(problem.is_error and problem.file for problem in problems):
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
            request = request.replace(components=jobs)
        for name in request.components:
            if name not in self._processes.runners:
                raise unknown_name("component", name, self._processes.runners)
        document = self._config.document
        if request.action in EDITS:
            edit = document.proposed(request, running=self._running())
            draft = self._draft(request, edit.after, edit)
        else:
            draft = self._draft(request, document.files)
            if draft.plan.start:  # by the files as they are now; what only ends something needs none
                draft = self._draft(request, document.load())
        with self._part_servers.planned(draft.plan.start, draft.files):
            plan = self._complete(draft, automatic=automatic)
        return Planned(plan, draft.edit, draft.point.step)

    def _running(self) -> dict[str, ConfigFiles]:
        return self._config.running(self._processes.attempts())

    def _draft(self, request: Request, files: ConfigFiles, edit: Proposal | None = None) -> _Draft:
        """The stops and starts with the config `files`, and the step at which the run goes on if it starts
        its jobs.
        """
        point = self._points.of(request, files, edited=_requested_values(edit))
        setup, orphans = self._setup, self._processes.orphans
        situation = Situation(
            layout=setup.layout,
            lives={name: runner.lifecycle for name, runner in self._processes.runners.items()},
            rules=(*setup.framework.launch.restart_rules(files), *setup.layout.restart_rules()),
            fresh_rules=setup.framework.launch.fresh_rules(files),
            completed_steps=self._observation.progress.progress.step or 0,
            resume_step=point.step,
            resumes_newest=point.step is not None and point.requested_step is None,
            run_jobs=setup.run_jobs,
            max_steps=setup.framework.run.max_steps(files),
            checkpoint_interval=self._interval(files),
            is_made=self._config.is_made,
            rollouts=self._observation.requests(),
            orphans=orphans.orphans,
            foreign=orphans.foreign() if request.action == "free" and request.pids else (),
            times=self._times.now(),
        )
        plan = make_plan(request, situation, readers=edit.readers if edit is not None else {})
        return _Draft(request, plan, files, edit, point, situation.begins(plan.stop, plan.start))

    def _interval(self, files: ConfigFiles) -> int | None:
        """Steps between two checkpoints, by the config, else as the newest ones lie."""
        if (steps := self._setup.framework.run.checkpoint_interval(files)) is not None:
            return steps
        previous, newest = (0, 0, *self._observation.folder.checkpoints())[-2:]
        return newest - previous or None

    def _complete(self, draft: _Draft, *, automatic: bool) -> Plan:
        """The plan of `draft`, with all that a person should know of it."""
        plan, edit, files, point = draft.plan, draft.edit, draft.files, draft.point
        resume_problem, forecast = draft.resume_problem, self._processes.forecast
        updates: dict[str, object] = {}
        by_ssh = self._processes.ssh_components(plan.stop)
        reasons = [*plan.reasons, *(f"{component} {_SSH_STOP_TEXT}" for component in by_ssh)]
        problems = [] if resume_problem is None else [resume_problem]
        reasons += _stop_notes(self._setup.layout, plan.stop)
        if draft.begins:
            if point.problem is None:
                reasons += filter(None, (point.because, point.passed_over))
            folder = self._observation.folder
            updates |= {"resume_from": point.requested_step, "checkpoints": tuple(folder.checkpoints())}
            if resume_problem is None and (archived := folder.archived(point.step)):
                updates |= {"archived": archived, "archive": str(folder.archive)}
        if resume_problem is not None and resume_problem is point.problem:
            updates["lost"] = Lost()  # nothing is known of that
        if edit is not None:
            reasons, problems = [*edit.reasons, *reasons], [*edit.problems, *problems]
            updates |= {
                "diff": edit.diff,
                "derived": edit.derived,
                "written": edit.written,
                "conflicts": edit.conflicts,
            }
        if edit is not None or plan.start:
            updates |= {"base": self._config.document.base(), "pending": self._pending(draft)}
            problems += self._problems(draft)
        if plan.start if edit is None else not edit.blocked:
            updates["memory"] = memory = forecast.of_plan(plan, files)
            problems += problems_of(memory, standing=not draft.is_now)
            reasons += forecast.reasons(plan, files)
        if draft.is_now:
            from_beginning = draft.begins and point.step is None
            problems += self._servers.problems(
                plan, files, is_anew=from_beginning, is_first=draft.request.is_first
            )
        if automatic:
            problems = [problem for problem in problems if problem.key not in ("port", SERVER)]
            updates["free"] = ()
        updates |= {"reasons": tuple(reasons), "problems": tuple(problems)}
        return plan.replace(**updates)

    def _problems(self, draft: _Draft) -> tuple[Problem, ...]:
        """Errors and warnings about files and box, except those that the edit itself has."""
        plan, edit, record = draft.plan, draft.edit, self._setup.record
        instances = changed_instances(record, self._setup.framework, draft.files)
        if edit is not None:
            return (*instances, *_other_folders(edit, record), *shared_configs(edit.paths, record))
        is_first_start = not plan.keep and not plan.stop  # a person should hear it once
        document = self._config.document
        if all(self._setup.layout[name].is_manual for name in plan.start):
            return self._port_problems(plan)  # a shell is wanted most where the config is wrong
        return (
            *document.problems(),
            *self._max_steps_reached(draft),
            *instances,
            *self._setup.layout_problems(),
            *self._port_problems(plan),
            *(
                Problem(message=f"{name} cannot be started: {fault.reason}; {fault.hint}".rstrip("; "))
                for name in plan.start
                if (fault := self._config.launcher.context(document.files).missing_value(name)) is not None
            ),
            *(shared_configs(document.base(), record) if is_first_start else ()),
        )

    def _max_steps_reached(self, draft: _Draft) -> Iterator[Problem]:
        """A warning where the run would go on from its last step, and end at once."""
        step, max_steps = draft.point.step, self._setup.framework.run.max_steps(draft.files)
        if draft.begins and step is not None and max_steps is not None and step >= max_steps:
            command = run_command(
                hints.SET_RESTART, self._setup.record.name, words=f"max_steps={2 * max_steps}"
            )
            message = (
                f"step {step} of {max_steps} is reached, so the run is done; raise max_steps to continue"
            )
            yield Problem(severity="warning", key="max_steps", message=message, mended_by=str(command))

    def _port_problems(self, plan: Plan) -> tuple[Problem, ...]:
        problems = []
        ending = {orphan.pid for orphan in plan.free}
        staying = set(self._processes.alive()).difference(plan.stop)
        for name in plan.start:
            launcher, files = self._config.launcher, self._config.document.files
            if self._config.movable_ports(name, files, staying):
                continue  # another is chosen at the start
            port = None if name in plan.stop else launcher.context(files).port(name)
            holders = [] if port is None else port_holders(port)
            if foreign := [holder for holder in holders if holder.pid not in ending]:
                message = (
                    f"{name} needs port {port}, which is in use by {' and '.join(map(holder_text, foreign))}"
                )
                problems.append(Problem(key="port", message=message, code="port_taken"))
        return tuple(problems)

    def _pending(self, draft: _Draft) -> tuple[PendingKnob, ...]:
        """Knobs that components will still run with other values of, once the plan is executed."""
        pending = self._config.document.pending(self._running(), draft.files)
        stopped = draft.plan.stop if draft.is_now else ()
        remaining = (
            knob.replace(readers=tuple(r for r in knob.readers if r not in stopped)) for knob in pending
        )
        return tuple(knob for knob in remaining if knob.readers)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The stops and starts of a request, with the inputs that they were derived from."""

    request: Request
    plan: Plan
    files: ConfigFiles
    edit: Proposal | None
    point: ResumePoint
    begins: bool
    """True if the jobs of the run resume again."""

    @property
    def is_now(self) -> bool:
        """False for an edit that takes effect with the next start only."""
        return self.edit is None or self.request.restart

    @property
    def resume_problem(self) -> Problem | None:
        """Why it cannot go on from the requested checkpoint."""
        request, problem = self.request, self.point.problem
        if request.resume_step is not None and self.is_now and not self.begins:
            message = f"no component of this {request.action} resumes from checkpoint {request.resume_step}"
            return Problem(message=f"{message}; restart the components that write the run")
        if problem is None:
            return None
        edited_values = _requested_values(self.edit).values()
        is_told = (self.is_now and self.begins) or any(problem.key in values for values in edited_values)
        return problem if is_told else None


def _requested_values(edit: Proposal | None) -> Mapping[str, Mapping[str, TomlValue]]:
    """Role → dotted key → value that the edit asks for; none of a complete text, which names no keys."""
    return (edit.requested if edit is not None else None) or {}


class _StartTimes:
    """Durations of earlier starts and stops: reads new journal entries at each call."""

    def __init__(self, journal: Path) -> None:
        self._feed = JsonLines(journal)
        self._timed: deque[JournalEntry] = deque(maxlen=_NEWEST_ENTRIES)

    def now(self) -> dict[str, Times]:
        """Median times by component."""
        for row in self._feed.read():
            if "took_s" not in entry_data(row):
                continue
            try:
                self._timed.append(JournalEntry.from_plain(row))
            except InvalidValueError:
                continue  # of another version
        return times_from(self._timed)


def _stop_notes(layout: Layout, components: Iterable[str]) -> list[str]:
    """Say what else a stop of these does at their hosts: one sentence for each kind of host."""
    by_note: dict[str, list[str]] = {}
    for name in components:
        if (host := layout.host(name)) is not None and host.stop_note:
            by_note.setdefault(host.stop_note, []).append(name)
    return [f"{join_words(names)}: {note}" for note, names in by_note.items()]


def _other_folders(edit: Proposal, record: ExperimentRecord) -> Iterator[Problem]:
    """A warning where an edit names another folder for a run that has one."""
    for change in edit.changes.values():
        for key, (_, folder) in change.keys.items():
            if key.rpartition(".")[2] == "output_dir" and folder is not None:
                message = f"{key}: the files of {record.name} stay in {record.run_dir}; for a run in another"
                message += f" folder: {hints.FORK_INTO(run=record.name)}"
                yield Problem(severity="warning", key=key, message=message, file=str(change.path))


def changed_instances(
    record: ExperimentRecord, framework: Framework, files: ConfigFiles
) -> tuple[Problem, ...]:
    """A warning for each kind whose instances in `files` differ from those at the experiment's creation, such
    as another environment.
    """
    present = framework.launch.instances(files) if record.instances else {}
    resume_command = f"`{record.resume_command}`"
    return tuple(
        Problem(
            severity="warning",
            message=(
                f"{kind}: the config names {_listed(present.get(kind, ()))}, but this"
                f" experiment has components for {_listed(recorded_names)}; to get others:"
                f" `{hints.DOWN(name=record.name)}`, then {resume_command}"
            ),
        )
        for kind, recorded_names in record.instances.items()
        if tuple(present.get(kind, ())) != recorded_names
    )


def _listed(instances: Iterable[str]) -> str:
    """Their names; the one without a name is for all."""
    return ", ".join(name or "one for all" for name in instances) or "none"
