"""Plans which components a request stops, starts and keeps, in which order and why. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rltui.base.text import join_words
from rltui.core.experiment.api import EDITS, Lost, Orphan, Plan, Request
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.layout import Layout
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState

_NEWEST = 5
"""Number of starts and stops for the median of a component: older ones are of other configs."""


@dataclass(frozen=True, slots=True)
class Times:
    """Medians for one component, in seconds; `None` if it was never timed."""

    start_s: float | None = None
    """Time from its process to ready, or to its end for a job that others wait for."""
    stop_s: float | None = None


def times_from(journal: Iterable[JournalEntry]) -> dict[str, Times]:
    """Medians per component, from the `took_s` of its newest `ready`, `exit` and `stopped` entries."""
    starts: dict[str, list[float]] = defaultdict(list)
    stops: dict[str, list[float]] = defaultdict(list)
    for entry in journal:
        took_s = entry.data.get("took_s")
        if entry.component is None or not isinstance(took_s, int | float):
            continue
        (stops if entry.data.get("stopped") else starts)[entry.component].append(float(took_s))
    return {
        name: Times(start_s=_median(starts[name]), stop_s=_median(stops[name])) for name in {*starts, *stops}
    }


def estimate(
    stop: Sequence[str], start: Sequence[str], layout: Layout, times: Mapping[str, Times]
) -> float | None:
    """Seconds from the first stop to the last component ready; `None` if one was never timed.

    Stops run at once, each after those that need it; then the starts, each after its dependencies.
    """
    stopped_at: dict[str, float] = {}
    for name in stop:
        if (duration_s := times.get(name, Times()).stop_s) is None:
            return None
        user_ends = [stopped_at[other] for other in stopped_at if name in layout.needs(other)]
        stopped_at[name] = max(user_ends, default=0.0) + duration_s
    ready_at: dict[str, float] = {}
    for name in start:
        duration_s = times.get(name, Times()).start_s
        if duration_s is None:
            return None
        ready_times = [ready_at[other] for other in layout[name].after if other in ready_at]
        ready_at[name] = max(ready_times, default=0.0) + duration_s
    if not (stop or start):
        return None
    return max(stopped_at.values(), default=0.0) + max(ready_at.values(), default=0.0)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values[-_NEWEST:]) if values else None


RestartRule = tuple[frozenset[str], frozenset[str], str]
"""If any of the first restarts, the second restart too, for this reason."""


@dataclass(frozen=True, slots=True)
class Situation:
    layout: Layout
    lives: Mapping[str, Lifecycle]
    rules: Sequence[RestartRule]
    completed_steps: int
    resume_step: int | None
    """Checkpoint that the jobs of the run would continue from; `None`: the beginning."""
    run_jobs: Collection[str]
    """Components that write the run; `Layout.run_jobs`."""
    checkpoint_interval: int | None = field(default=None, kw_only=True)
    """Steps between two checkpoints; `None`: the run makes none, or it is unknown."""
    is_made: Callable[[str], bool]
    """Whether the output of this job exists already."""
    fresh_rules: Sequence[RestartRule] = ()
    """Rules that hold besides if the run begins again although steps were done."""
    resumes_newest: bool = False
    """`resume_step` is taken as the newest: by the time of the start, another may be."""
    max_steps: int | None = None
    """Steps of the run, according to the config after the request."""
    rollouts: int | None = None
    """Requests that the inference servers work on now; `None` if nobody counts them."""
    orphans: Sequence[Orphan] = ()
    foreign: Sequence[Orphan] = ()
    """Processes on the GPUs that are no component's: freed only by pid."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """Durations of earlier starts and stops, for the estimate."""

    @property
    def rules_now(self) -> Sequence[RestartRule]:
        """The rules that hold for the step at which the run goes on."""
        starts_over = self.resume_step is None and self.completed_steps > 0
        return (*self.rules, *self.fresh_rules) if starts_over else self.rules

    def begins(self, stop: Collection[str], start: Collection[str]) -> bool:
        """The jobs of the run resume: one starts, and none of them goes on."""
        jobs = set(self.run_jobs)
        return not jobs.isdisjoint(start) and not any(map(self.busy, jobs.difference(stop)))

    def starts_again(self, component: str) -> bool:
        """An edit gives it another chance: it failed, or the run that it had finished has more steps now."""
        has_more = self.max_steps is not None and self.completed_steps < self.max_steps
        is_extended = has_more and component in self.run_jobs
        return self.lives[component].state in (
            (ComponentState.FAILED, ComponentState.EXITED) if is_extended else (ComponentState.FAILED,)
        )

    def busy(self, component: str) -> bool:
        return self.lives[component].busy

    def expected(self, component: str) -> bool:
        """It runs, or will by its restart policy."""
        return self.lives[component].expected


def make_plan(request: Request, situation: Situation, *, readers: Mapping[str, Sequence[str]]) -> Plan:
    """The plan for `request`. `readers`: edited key → components that read it, for edits."""
    if request.action == "free":
        keep = tuple(name for name in situation.layout.start_order() if situation.busy(name))
        return Plan(
            action="free", keep=keep, free=orphans_to_free(request, situation.orphans, situation.foreign)
        )
    if request.action == "stop":
        return _plan_stop(request, situation)
    if request.action in EDITS:
        requested, reasons = _readers_to_restart(readers, situation)
        # an edit may be meant for one that does not read it: memory that one gives up for another
        if added := [name for name in request.components if name not in requested]:
            requested.extend(added)
            reasons.append(
                f"{join_words(added)} {'restarts' if len(added) == 1 else 'restart'} too, as requested"
            )
        _add_dependents(requested, reasons, situation)
    else:
        requested = list(request.components) or [spec.id for spec in situation.layout.automatic]
        reasons = []
    if request.action == "start":
        requested = [name for name in requested if not situation.busy(name)]
    return _plan_restart(request, requested, reasons, situation)


def carried_out(plan: Plan, request: Request) -> Plan:
    """`plan` as far as `request` carries it out: an edit alone stops, starts and loses nothing."""
    if request.moves:
        return plan
    later = (f"in effect after a restart of {join_words(plan.start)}",) if plan.start else ()
    nothing = Plan().part("stop", "start", "keep", "free", "archived", "estimate_s", "lost", "memory")
    return plan.replace(**nothing, reasons=later)


def _readers_to_restart(
    readers: Mapping[str, Sequence[str]], situation: Situation
) -> tuple[list[str], list[str]]:
    to_restart: list[str] = []
    reasons: list[str] = []
    for key, components in readers.items():
        running = [
            name
            for name in components
            if name in situation.lives
            and not situation.layout[name].is_manual
            and (situation.expected(name) or situation.starts_again(name))
        ]
        to_restart.extend(running)
        if running:
            reasons.append(f"{key} is read by {join_words(running)} at start")
        elif components:
            reasons.append(f"{key} is read by {join_words(components)} at its next start; nothing to restart")
    return to_restart, reasons


def _add_dependents(to_restart: list[str], reasons: list[str], situation: Situation) -> None:
    """Add components that failed because a dependency had failed."""
    failed = {name for name, life in situation.lives.items() if life.state is ComponentState.FAILED}
    retried = failed.intersection(to_restart)
    for name in situation.layout.start_order():
        if name in failed and not retried.isdisjoint(situation.layout[name].after):
            retried.add(name)
    added = [spec.id for spec in situation.layout.automatic if spec.id in retried.difference(to_restart)]
    to_restart.extend(added)
    if added:
        reasons.append(
            f"{join_words(added)} failed after a dependency, and"
            f" {'restarts' if len(added) == 1 else 'restart'}"
        )


def _plan_restart(request: Request, requested: list[str], reasons: list[str], situation: Situation) -> Plan:
    if not requested:
        return _build_plan(request, set(), set(), reasons, situation)
    to_start = set(requested)
    _pull_in_partners(to_start, reasons, situation, verb="start" if request.action == "start" else "restart")
    _pull_in_dependencies(to_start, reasons, situation)
    reasons.extend(_stale_dependents(to_start, situation))
    for name in sorted(to_start):
        if situation.is_made(name) and not (request.action == "restart" and name in request.components):
            to_start.discard(name)
            reasons.append(f"{name} is skipped: its output already exists")
    stop = {name for name in to_start if situation.busy(name)}
    return _build_plan(request, stop, to_start, reasons, situation)


def _pull_in_partners(to_start: set[str], reasons: list[str], situation: Situation, *, verb: str) -> None:
    """Apply the framework's rules until nothing changes.

    A one-way rule concerns only running components; partners that need each other always come together.
    """
    has_changed = True
    while has_changed:
        has_changed = False
        for causes, effects, reason in situation.rules_now:
            triggers = causes & to_start
            is_mutual = any(
                causes <= other_effects and effects <= other_causes
                for other_causes, other_effects, _ in situation.rules_now
            )
            added = {
                name
                for name in effects - to_start
                if name in situation.lives
                and not situation.layout[name].is_manual
                and (is_mutual or situation.busy(name))
            }
            if triggers and added:
                to_start |= added
                they = f"{join_words(sorted(added))} {verb if len(added) > 1 else f'{verb}s'}"
                them = "it" if len(triggers) == 1 else "them"
                blocked = f"{join_words(sorted(triggers))} cannot {verb} alone"
                reasons.append(f"{blocked}: {they} with {them}, because {reason}")
                has_changed = True


def _stale_dependents(to_start: Collection[str], situation: Situation) -> Iterable[str]:
    """Warnings about components that keep running although a service they need restarts, unless a rule names
    them.
    """
    ruled = {name for causes, effects, _ in situation.rules for name in (*causes, *effects)}
    for name in situation.layout.start_order():
        restarting = [
            other
            for other in situation.layout[name].after
            if other in to_start and situation.layout[other].kind == "service" and situation.busy(other)
        ]
        if restarting and name not in to_start and name not in ruled and situation.busy(name):
            names = join_words(restarting)
            yield f"{name} keeps running while {names} restarts and may fail; name both to restart both"


def _pull_in_dependencies(to_start: set[str], reasons: list[str], situation: Situation) -> None:
    for name in reversed(situation.layout.start_order()):
        if name not in to_start:
            continue
        for dependency in situation.layout[name].after:
            life = situation.lives[dependency]
            is_met = life.busy or life.state is ComponentState.EXITED or situation.is_made(dependency)
            if dependency not in to_start and not is_met:
                to_start.add(dependency)
                reasons.append(f"{dependency} starts first: {name} needs it")


def orphans_to_free(
    request: Request, orphans: Sequence[Orphan], foreign: Sequence[Orphan]
) -> tuple[Orphan, ...]:
    """The processes that a request to free ends: of `foreign` only those that it names by pid."""
    selected = tuple(
        orphan
        for orphan in orphans
        if (not request.pids or orphan.pid in request.pids)
        and (not request.components or orphan.component in request.components)
    )
    return (*selected, *(process for process in foreign if process.pid in request.pids))


def _plan_stop(request: Request, situation: Situation) -> Plan:
    to_stop = set(request.components or [spec.id for spec in situation.layout.component])
    reasons: list[str] = []
    for name in situation.layout.start_order():
        needs = [need for need in situation.layout[name].after if need in to_stop]
        if name not in to_stop and needs and situation.expected(name):
            to_stop.add(name)
            reasons.append(f"{name} stops too: it needs {join_words(needs)}")
    stop = {name for name in to_stop if situation.expected(name)}
    return _build_plan(request, stop, set(), reasons, situation)


def _build_plan(
    request: Request,
    stop: Collection[str],
    start: Collection[str],
    reasons: Iterable[str],
    situation: Situation,
) -> Plan:
    order = situation.layout.start_order()
    keep = [name for name in order if situation.busy(name) and name not in stop]
    stops = tuple(name for name in reversed(order) if name in stop)
    starts = tuple(name for name in order if name in start)
    return Plan(
        action=request.action,
        stop=stops,
        start=starts,
        keep=tuple(keep),
        reasons=tuple(reasons),
        lost=_lost(stop, start, situation),
        free=tuple(orphan for orphan in situation.orphans if orphan.component in start),
        estimate_s=estimate(stops, starts, situation.layout, situation.times),
    )


def _lost(stop: Collection[str], start: Collection[str], situation: Situation) -> Lost:
    """Steps are lost only if the run ends or begins again, rollouts also if their server stops."""
    jobs = set(situation.run_jobs)
    servers = {spec.id for spec in situation.layout.automatic if spec.kind == "service"}
    rollouts = None if (jobs | servers).isdisjoint(stop) else situation.rollouts
    if not (situation.begins(stop, start) if start else jobs & set(stop)):
        return Lost(rollouts=rollouts)
    return Lost(
        steps=max(0, situation.completed_steps - (situation.resume_step or 0)),
        resume_step=situation.resume_step,
        newest=situation.resumes_newest,
        interval=situation.checkpoint_interval,
        rollouts=rollouts,
    )
