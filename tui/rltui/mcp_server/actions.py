"""Plans and carries out each action of the tool `plan`, by what the command line and the TUI call, too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict

from rltui.base.text import join_words, size_text
from rltui.base.toml.values import typed_values
from rltui.client.down import plan_down, shut_down, visited_supervisor
from rltui.client.fork import plan_fork
from rltui.client.local_runs import LocalRuns
from rltui.client.queue import commands as queue
from rltui.client.reader import ExperimentReader
from rltui.core.experiment.api import EDITS, Lost, Plan, Request
from rltui.core.experiment.consent import with_consent
from rltui.core.experiment.plan import carried_out
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.experiment.refusal import refuse_undo
from rltui.core.runs.checkpoints import Retention, prune_plan
from rltui.core.runs.evals import EvalTarget
from rltui.core.runs.forks import CheckpointChoice, ForkRequest
from rltui.core.runs.queue import QueueOptions
from rltui.core.runs.row import RunRow
from rltui.errors import ConfigError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.runs.catalog import record_of
from rltui.services.runs.observed import refuse_observed
from rltui.views.plan import lost_text, plan_rows
from rltui.views.run import fork_lines

RequestedAction = Literal["set", "undo", "start", "stop", "restart"]
Action = Literal[RequestedAction, "down", "prune", "fork", "sweep"]
Document = dict[str, Any]
"""The answer of a tool."""
_MOST_IN_SWEEP = 32


@dataclass(frozen=True, slots=True)
class PlanArguments:
    """Arguments of actions, each for some."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # one that is misspelt must not pass for done
    edits: dict[str, Any] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    restart: bool = False
    checkpoint: CheckpointChoice | Literal["beginning"] | None = None
    keep_last: int = 3
    keep: tuple[int, ...] = ()
    values: dict[str, list[Any]] = field(default_factory=dict)
    name: str = ""
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action as it would be now."""

    effects: Any
    """Fields of the answer."""
    state: Mapping[str, Any]
    """State that must be the same when it is executed."""
    execute: Callable[[], Iterable[str]]
    """Does it. Returns what was done, or has begun, in words."""
    newest_checkpoint: int | None = None
    """The checkpoint that the run goes on from, where that is just the newest."""
    is_blocked: bool = False


def prepare(row: RunRow, action: Action, args: PlanArguments) -> Prepared:
    """Raises UsageError, ConfigError, ConflictError if it cannot be planned."""
    match action:
        case "fork":
            return _fork(row, args)
        case "sweep":
            return _sweep(row, args)
        case "down":
            return _down(record_of(row))
        case "prune":
            return _prune(record_of(row), args)
        case _:
            return _request(record_of(row), action, args)


def pinned(row: RunRow, action: Action, args: PlanArguments) -> PlanArguments:
    """The arguments with a step for a checkpoint that a word names; but a run itself goes on from the one
    that is its last by then.
    """
    if args.checkpoint == "best" or (args.checkpoint == "last" and action in ("fork", "sweep")):
        return replace(args, checkpoint=ExperimentReader(record_of(row)).checkpoint_step(args.checkpoint))
    return args


def checkpoint(record: ExperimentRecord, choice: CheckpointChoice) -> EvalTarget:
    return EvalTarget(kind="checkpoint", step=ExperimentReader(record).checkpoint_step(choice))


# --- one run ------------------------------------------------------------------------------------------------


def _request(record: ExperimentRecord, action: RequestedAction, args: PlanArguments) -> Prepared:
    refuse_observed(record)
    if action == "set" and not args.edits:
        raise UsageError("nothing to set", hint='give args.edits, as {"lr": 1e-4}')
    request = Request(
        action=action,
        edits=args.edits if action == "set" else {},
        components=args.components,
        restart=args.restart,
        thorough=action in EDITS,
        resume="scratch" if args.checkpoint == "beginning" else "latest",
        resume_step=args.checkpoint if isinstance(args.checkpoint, int) else None,
    )
    with visited_supervisor(record) as wire:
        plan = wire.request(ExperimentApi.plan, request)
    refuse_undo(plan.conflicts)
    plan = carried_out(plan, request)

    def execute() -> Iterable[str]:
        agreed = with_consent(request, plan).replace(base=plan.base if action in EDITS else {})
        with visited_supervisor(record) as wire:
            executed = carried_out(wire.request(ExperimentApi.execute, agreed), request)
        yield from executed.written
        yield from (f"{verb} {id_}" for verb in ("stop", "start") for id_ in getattr(executed, verb))

    newest = plan.lost.resume_step if plan.lost.newest else None
    return Prepared(
        effects=_effects(plan),
        state=plan.made_from,
        execute=execute,
        newest_checkpoint=newest,
        is_blocked=plan.blocked or not (plan.stop or plan.start or plan.diff or plan.free),
    )


def _effects(plan: Plan) -> dict[str, Any]:
    """Keep only the changed lines of the diff, without the spaces that align comments."""
    rows = plan_rows(plan.replace(stop=(), start=(), keep=(), lost=Lost(), reasons=()))
    changed = [line for line in plan.diff.splitlines() if line.startswith(("+", "-"))]
    return {
        **plan.part("stop", "start", "keep"),
        "lose": lost_text(plan.lost),
        "diff": "\n".join(re.sub(" {2,}#", " #", line) for line in changed if not line.startswith("--- ")),
        "effects": [*_lines(rows)],
        "reasons": [*plan.reasons],
        "problems": [f"{problem.severity}: {problem.text}" for problem in plan.problems],
    }


def _lines(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Each row with its label, which the first of several has."""
    group = ""
    for label, text in rows:
        group = label or group
        yield f"{group} {text}"


def _down(record: ExperimentRecord) -> Prepared:
    plan = plan_down(record)

    def execute() -> Iterable[str]:
        down = shut_down(record, lambda _: None)
        yield from [f"could not be ended: {process}" for process in down.left] or ["no process is left"]
        yield from (f"not observed: {program}" for program in down.unseen)

    return Prepared(_effects(plan), {"stop": plan.stop}, execute)


def _prune(record: ExperimentRecord, args: PlanArguments) -> Prepared:
    refuse_observed(record)
    retention = Retention(keep_last=args.keep_last, keep=args.keep)
    plan = prune_plan(ExperimentReader(record).checkpoints(), retention)
    steps = [item.step for item in plan.delete]

    def execute() -> Iterable[str]:
        with visited_supervisor(record) as wire:
            pruned = wire.request(ExperimentApi.prune, retention, (*steps,))
        yield f"deleted checkpoints {join_words([str(item.step) for item in pruned.delete])}"

    effects = {
        "delete": steps,
        "incomplete": [item.step for item in plan.delete if item.missing],
        "free": size_text(plan.frees_bytes),
        "keep": {str(item.step): item.why for item in plan.keep},
    }
    return Prepared(effects, {"delete": steps}, execute, is_blocked=plan.is_empty)


# --- new runs ----------------------------------------------------------------------------------------------


def _fork_request(args: PlanArguments, edits: Mapping[str, Any]) -> ForkRequest:
    return ForkRequest(
        edits=typed_values(edits),
        begin=None if args.checkpoint == "beginning" else args.checkpoint,
        name=args.name or None,
        is_queued=args.queued,
    )


def _fork(row: RunRow, args: PlanArguments) -> Prepared:
    fork_request = _fork_request(args, args.edits)
    with plan_fork(row, fork_request) as fork:
        plan = fork.plan

    def execute() -> Iterable[str]:
        return (
            f"{'queued' if fork_request.is_queued else 'started'} {plan.name}",
            *LocalRuns().fork(row.id, fork_request),
        )

    return Prepared({"effects": fork_lines(plan)}, {"fork": fork_lines(plan)}, execute)


def _sweep(row: RunRow, args: PlanArguments) -> Prepared:
    points = [[*zip(args.values, point, strict=True)] for point in itertools.product(*args.values.values())]
    if not args.values or not 0 < len(points) <= _MOST_IN_SWEEP:
        raise UsageError(f"not 1 to {_MOST_IN_SWEEP} runs", hint='give args.values, as {"lr": [1e-4, 3e-4]}')
    requests, problems, state = [], [], []
    with ExitStack() as stack:
        for point in points:
            fork_request = _fork_request(args, {**args.edits, **dict(point)})
            try:
                fork = stack.enter_context(plan_fork(row, fork_request))
            except ConfigError as error:
                problems.append(f"error: {' '.join(f'{key}={value}' for key, value in point)}: {error.title}")
                continue
            request = replace(queue.fork_for_queue(fork), name=row.name, folder=Path(row.folder))
            requests.append(queue.in_sweep(request, [(key, fork_request.edits[key]) for key, _ in point]))
            state.append([fork.plan.diff, fork.plan.step])

    def execute() -> Iterable[str]:
        entries = queue.add_to_queue(requests, QueueOptions(), group=f"{row.name}-sweep")
        return (f"{'proposed' if entry.is_proposed else 'queued'} {entry.name}" for entry in entries)

    effects = {"effects": [f"queue a fork with {request.own}" for request in requests], "problems": problems}
    return Prepared(effects, {"forks": state}, execute, is_blocked=bool(problems))
