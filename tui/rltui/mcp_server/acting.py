"""The tools that change something, and the plan before that: nothing is executed but what was planned."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from rltui.base.shorten import without_empty
from rltui.base.toml.values import typed_values
from rltui.client import launch
from rltui.client.bench import add_trial
from rltui.client.manual_components import tokens
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.runs.evals import EvalRequest, EvalTarget
from rltui.errors import ConflictError
from rltui.mcp_server import actions
from rltui.mcp_server.actions import Action, Document, PlanArguments
from rltui.mcp_server.plan_ids import PlannedAct, digest_of, encode, planned_act
from rltui.mcp_server.runs import record_of, row_of
from rltui.services.actor import acting_as, actor
from rltui.services.experiment.journal import journal_of
from rltui.services.experiment.rights import granted

_NONE = PlanArguments()
_Count = Annotated[int, Field(ge=1)]


def plan(action: Action, run: str = "", args: PlanArguments = _NONE) -> Document:
    """What an action would do, stop, start and lose; nothing is done. Pass its plan_id on to apply; there is
    none if nothing is to be done, or an error forbids it. rights: at propose, apply asks a person for it; at
    look it is refused.

    set: write args.edits, as {"lr": 1e-4}; null removes a key. undo: the last edit. Both: with args.restart,
    what reads the keys restarts. start, stop, restart: args.components, or all. down: end all of a run.
    prune: delete checkpoints, but args.keep_last, the steps args.keep and the best. fork: a run with
    args.edits, args.name; args.queued: when there is room. sweep: queue a fork for each combination of
    args.values, as {"lr": [1e-4, 3e-4]}. args.checkpoint, where restarts and forks resume: a step, last, best
    or beginning.
    """
    row = row_of(run)
    args = actions.pinned(row, action, args)
    prepared = actions.prepare(row, action, args)
    answer = {**without_empty(prepared.effects), "run": row.name, "rights": granted(Path(row.control)).level}
    state = digest_of(prepared.state)
    given = {name: value for name, value in asdict(args).items() if value != getattr(_NONE, name)}
    act = PlannedAct(run=row.id, action=action, args=given, state=state, newest=prepared.newest_checkpoint)
    if not prepared.is_blocked:
        answer["plan_id"] = encode(act)
    return answer


def apply(plan_id: str, reason: str) -> Document:
    """Execute a plan; reason says why, to the people who read the events. Refused with stale_plan if the
    state has moved since: then plan again. What it starts is not ready yet: wait.
    """
    act = planned_act(plan_id)
    row = row_of(act.run)
    prepared = actions.prepare(row, act.action, act.arguments)
    has_gone_back = act.newest is not None and (prepared.newest_checkpoint or 0) < act.newest
    if digest_of(prepared.state) != act.state or has_gone_back:
        raise ConflictError(
            f"the state of {row.name} has moved since the plan was made",
            hint="nothing was done; call plan again, and review it",
            code="stale_plan",
        )
    started_at = time.monotonic()
    with acting_as(actor().replace(reason=reason)):
        done = [*prepared.execute()]
    return {"ok": True, "run": row.name, "took_s": round(time.monotonic() - started_at, 1), "done": done}


def evaluate(
    run: str = "",
    of: int | Literal["now", "base", "last", "best"] = "now",
    n: _Count = 20,
    r: _Count = 3,
    when_done: bool = False,
) -> Document:
    """Queue an evaluation of the present weights, the model before training, or a checkpoint: n examples with
    r rollouts each. Later look, what=evals, has its mean and standard error.
    """
    record = record_of(run)
    target = EvalTarget(kind=of) if of == "now" or of == "base" else actions.checkpoint(record, of)
    request = EvalRequest(target=target, num_examples=n, rollouts_per_example=r, when_done=when_done)
    with launch.connect_or_start(record) as wire:
        wire.call("tokens", tokens())
        queued = wire.request(ExperimentApi.evaluate, request)
    return {"run": record.name, **queued.part("id", "label", "state", "why")}


def try_change(bench: str, edits: dict[str, Any], reason: str) -> Document:
    """Add a trial to a bench: one change of the config, as {"lr": 1e-4}, on top of the best so far.
    The queue runs it; bench has the verdict.
    """
    with acting_as(actor().replace(reason=reason)):
        trial = add_trial(bench, typed_values(edits))
    return {"bench": bench, **trial.part("number", "change", "state", "why")}


def note(text: Annotated[str, Field(min_length=1, max_length=2000)], run: str = "") -> Document:
    """Add a note to the events of a run; its charts show it as a mark."""
    record = record_of(run)
    with launch.connected(record) as wire:
        entry = journal_of(record).note(text) if wire is None else wire.request(ExperimentApi.note, text)
    return {"run": record.name, "text": entry.text}
