"""Which components a request stops, starts and keeps, in which order and why. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rltui.core.api import EDITS, JournalEntry, Lost, Orphan, Plan, Request
from rltui.core.layout import Layout
from rltui.core.lifecycle import Lifecycle
from rltui.core.states import ComponentState
from rltui.core.text import listed

_NEWEST = 5
"""Starts and stops of a component that its median is taken from: older ones tell of other configs."""


@dataclass(frozen=True, slots=True)
class Times:
    """Medians for one component, in seconds; `None` where it was never timed."""

    start_s: float | None = None
    """From its process to ready, or to its end for a job that others wait for."""
    stop_s: float | None = None


def times_from(journal: Iterable[JournalEntry]) -> dict[str, Times]:
    """Medians per component, from the `took_s` of its newest `ready`, `exit` and `stopped` entries."""
    starts: dict[str, list[float]] = defaultdict(list)
    stops: dict[str, list[float]] = defaultdict(list)
    for entry in journal:
        took = entry.data.get("took_s")
        if entry.component is None or not isinstance(took, int | float):
            continue
        (stops if entry.data.get("stopped") else starts)[entry.component].append(float(took))
    return {
        name: Times(start_s=_median(starts[name]), stop_s=_median(stops[name])) for name in {*starts, *stops}
    }


def estimate(
    stop: Sequence[str], start: Sequence[str], layout: Layout, times: Mapping[str, Times]
) -> float | None:
    """Seconds from the first stop to the last component ready; `None` where one was never timed.

    Stops run at once, each after those that need it; then the starts, each after what it waits for.
    """
    ended_at: dict[str, float] = {}
    for name in stop:
        if (took := times.get(name, Times()).stop_s) is None:
            return None
        users = [ended_at[other] for other in ended_at if name in layout.needs(other)]
        ended_at[name] = max(users, default=0.0) + took
    ready_at: dict[str, float] = {}
    for name in start:
        took = times.get(name, Times()).start_s
        if took is None:
            return None
        needed = [ready_at[other] for other in layout[name].after if other in ready_at]
        ready_at[name] = max(needed, default=0.0) + took
    if not (stop or start):
        return None
    return max(ended_at.values(), default=0.0) + max(ready_at.values(), default=0.0)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values[-_NEWEST:]) if values else None


RestartRule = tuple[frozenset[str], frozenset[str], str]
"""If any of the first restarts, the second restart too, because …"""


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
    """Steps between two checkpoints; `None`: the run makes none, or nobody knows."""
    is_made: Callable[[str], bool]
    """Whether what this job creates exists already."""
    fresh_rules: Sequence[RestartRule] = ()
    """Hold besides where the run begins anew although steps were done."""
    resumes_newest: bool = False
    """`resume_step` is taken as the newest: by the time that they start, another may be."""
    max_steps: int | None = None
    """Steps of the run, as the config says once the request is carried out."""
    rollouts: int | None = None
    """Requests that the inference servers work on now; `None` where nobody counts them."""
    orphans: Sequence[Orphan] = ()
    foreign: Sequence[Orphan] = ()
    """Processes on the GPUs that are no component's: freed only by pid."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """How long earlier starts and stops took, for the estimate."""

    @property
    def rules_now(self) -> Sequence[RestartRule]:
        """Those that hold for where the run goes on."""
        begins_anew = self.resume_step is None and self.completed_steps > 0
        return (*self.rules, *self.fresh_rules) if begins_anew else self.rules

    def begins(self, stop: Collection[str], start: Collection[str]) -> bool:
        """The jobs of the run resume anew: one starts, and none of them goes on."""
        jobs = set(self.run_jobs)
        return not jobs.isdisjoint(start) and not any(map(self.busy, jobs.difference(stop)))

    def starts_again(self, component: str) -> bool:
        """An edit gives it another chance: it failed, or the run that it had finished has more steps now."""
        has_more = self.max_steps is not None and self.completed_steps < self.max_steps
        finished = has_more and component in self.run_jobs
        return self.lives[component].state in (
            (ComponentState.FAILED, ComponentState.EXITED) if finished else (ComponentState.FAILED,)
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
        return Plan(action="free", keep=keep, free=freed(request, situation.orphans, situation.foreign))
    if request.action == "stop":
        return _plan_stop(request, situation)
    if request.action in EDITS:
        wanted, reasons = _readers_to_restart(readers, situation)
        # an edit may be meant for one that does not read it: memory that one gives up for another
        if named := [name for name in request.components if name not in wanted]:
            wanted.extend(named)
            reasons.append(f"{listed(named)} {'starts' if len(named) == 1 else 'start'} again with it")
        _add_fallen(wanted, reasons, situation)
    else:
        wanted = list(request.components) or [spec.id for spec in situation.layout.automatic]
        reasons = []
    if request.action == "start":
        wanted = [name for name in wanted if not situation.busy(name)]
    return _plan_restart(request, wanted, reasons, situation)


def _readers_to_restart(
    readers: Mapping[str, Sequence[str]], situation: Situation
) -> tuple[list[str], list[str]]:
    wanted: list[str] = []
    reasons: list[str] = []
    for key, components in readers.items():
        concerned = [
            name
            for name in components
            if name in situation.lives
            and not situation.layout[name].is_manual
            and (situation.expected(name) or situation.starts_again(name))
        ]
        wanted.extend(concerned)
        if concerned:
            reasons.append(f"{key} is read by {listed(concerned)} at start")
        elif components:
            reasons.append(f"{key} is read by {listed(components)} at its next start; nothing to restart")
    return wanted, reasons


def _add_fallen(wanted: list[str], reasons: list[str], situation: Situation) -> None:
    """Who failed because what it waits for had failed gets the same chance."""
    failed = {name for name, life in situation.lives.items() if life.state is ComponentState.FAILED}
    again = failed.intersection(wanted)
    for name in situation.layout.start_order():
        if name in failed and not again.isdisjoint(situation.layout[name].after):
            again.add(name)
    fallen = [spec.id for spec in situation.layout.automatic if spec.id in again.difference(wanted)]
    wanted.extend(fallen)
    if fallen:
        reasons.append(
            f"{listed(fallen)} failed with it, and {'starts' if len(fallen) == 1 else 'start'} again"
        )


def _plan_restart(request: Request, wanted: list[str], reasons: list[str], situation: Situation) -> Plan:
    if not wanted:
        return _ordered(request, set(), set(), reasons, situation)
    chosen = set(wanted)
    _pull_in_partners(chosen, reasons, situation, verb="start" if request.action == "start" else "restart")
    _pull_in_dependencies(chosen, reasons, situation)
    reasons.extend(_left_behind(chosen, situation))
    for name in sorted(chosen):
        if situation.is_made(name) and not (request.action == "restart" and name in request.components):
            chosen.discard(name)
            reasons.append(f"{name} is not run: what it makes is there already")
    stop = {name for name in chosen if situation.busy(name)}
    return _ordered(request, stop, chosen, reasons, situation)


def _pull_in_partners(chosen: set[str], reasons: list[str], situation: Situation, *, verb: str) -> None:
    """Apply the framework's rules until nothing changes.

    A one-way rule concerns only what runs; partners that need each other always come together.
    """
    changed = True
    while changed:
        changed = False
        for causes, effects, why in situation.rules_now:
            hit = causes & chosen
            mutual = any(causes <= back and effects <= there for there, back, _ in situation.rules_now)
            new = {
                name
                for name in effects - chosen
                if name in situation.lives
                and not situation.layout[name].is_manual
                and (mutual or situation.busy(name))
            }
            if hit and new:
                chosen |= new
                reasons.append(_partners_reason(sorted(hit), sorted(new), why, verb))
                changed = True


def _partners_reason(hit: Sequence[str], new: Sequence[str], why: str, verb: str) -> str:
    """`trainer cannot restart alone: orchestrator restarts with it, because their steps must agree`."""
    they = f"{listed(new)} {verb if len(new) > 1 else f'{verb}s'}"
    return (
        f"{listed(hit)} cannot {verb} alone: {they} with {'it' if len(hit) == 1 else 'them'}, because {why}"
    )


def _left_behind(chosen: Collection[str], situation: Situation) -> Iterable[str]:
    """What goes on although a service that it needs restarts, where the framework says nothing of it."""
    known = {name for causes, effects, _ in situation.rules for name in (*causes, *effects)}
    for name in situation.layout.start_order():
        needed = [
            other
            for other in situation.layout[name].after
            if other in chosen and situation.layout[other].kind == "service" and situation.busy(other)
        ]
        if needed and name not in chosen and name not in known and situation.busy(name):
            needs = listed(needed)
            yield f"{name} goes on while {needs} restarts, and may fail of it: name both if both shall"


def _pull_in_dependencies(chosen: set[str], reasons: list[str], situation: Situation) -> None:
    for name in reversed(situation.layout.start_order()):
        if name not in chosen:
            continue
        for needed in situation.layout[name].after:
            if needed not in chosen and not _is_met(needed, situation):
                chosen.add(needed)
                reasons.append(f"{needed} starts first: {name} needs it")


def _is_met(name: str, situation: Situation) -> bool:
    life = situation.lives[name]
    return life.busy or life.state is ComponentState.EXITED or situation.is_made(name)


def freed(request: Request, orphans: Sequence[Orphan], foreign: Sequence[Orphan]) -> tuple[Orphan, ...]:
    """Whom a request to free ends: of `foreign` only those that it names by pid."""
    chosen = tuple(
        orphan
        for orphan in orphans
        if (not request.pids or orphan.pid in request.pids)
        and (not request.components or orphan.component in request.components)
    )
    return (*chosen, *(process for process in foreign if process.pid in request.pids))


def _plan_stop(request: Request, situation: Situation) -> Plan:
    chosen = set(request.components or [spec.id for spec in situation.layout.component])
    reasons: list[str] = []
    for name in situation.layout.start_order():
        needs = [need for need in situation.layout[name].after if need in chosen]
        if name not in chosen and needs and situation.expected(name):
            chosen.add(name)
            reasons.append(f"{name} stops too: it needs {listed(needs)}")
    stop = {name for name in chosen if situation.expected(name)}
    return _ordered(request, stop, set(), reasons, situation)


def _ordered(
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
    """Steps are lost only where the run ends or begins again, rollouts also where their server ends."""
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
