"""`down`: an experiment is ended, or all of them."""

from __future__ import annotations

import sys
import textwrap
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from rltui.base.text import count_text, join_words, size_text
from rltui.cli.arguments import JSON, PLAN, RUN, YES
from rltui.cli.choosing import SeveralRunsError, Target, choose, show_runs
from rltui.cli.colour import style
from rltui.cli.command import Arguments, command, flag
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json, print_outcome
from rltui.cli.waiting import state_changes, styled_plan_text
from rltui.client import launch
from rltui.client.statuses import read_status
from rltui.core import hints
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import forget, known_experiments, run_command

if TYPE_CHECKING:
    from rltui.core.experiment.actor import Actor
    from rltui.core.experiment.api import Plan

_START_S, _POLL_S = 60.0, 0.25
"""The longest wait for a start by the queue, and the interval of looks at its file."""


@command(
    "down",
    RUN,
    flag("--all", "stop all runs and pause the queue"),
    flag("--mine", "with --all: only runs that you started; cancels those that you queued"),
    PLAN,
    YES,
    JSON,
    examples=("down", "down demo --plan", "down --all --mine --json"),
)
def down(arguments: Arguments) -> int:
    """Stop everything of an experiment, its supervisor included; with `--all`, of each that lives."""
    from rltui.client.down import plan_down
    from rltui.core.experiment.api import Request
    from rltui.core.experiment.consent import loss_of_plan

    if arguments.mine and not arguments.all:
        raise UsageError("--mine needs --all", hint=str(hints.DOWN_MINE))
    if arguments.all:
        if arguments.run is not None:
            one = hints.DOWN(name=arguments.run)
            raise UsageError(
                f"--all stops every run, not only {arguments.run}", hint=f"to stop only this one: {one}"
            )
        return _down_all(arguments)
    if arguments.plan:
        return show_runs(arguments, partial(_show_plan, arguments))
    try:
        record = choose(arguments, acts=True).record
    except SeveralRunsError as error:
        error.hint += f"; to stop all: {hints.DOWN_ALL}"
        raise
    plan = plan_down(record)
    sys.stderr.write(styled_plan_text(plan))
    require_consent("down", arguments, "stop it?", loss=loss_of_plan(plan, Request(action="stop")))
    try:
        status, message = _end(record)
    except KeyboardInterrupt:
        return _interrupted(record)
    print_outcome(status, f"{message}\n", as_json=arguments.json)
    return 0


def _show_plan(arguments: Arguments, target: Target) -> int:
    from rltui.client.down import plan_down

    plan = plan_down(target.record)
    print_outcome(plan, _plan_lines(plan), as_json=arguments.json)
    return 0


def _interrupted(record: ExperimentRecord) -> int:
    command = hints.STATUS(name=record.name)
    print(f"interrupted; {record.name} is still stopping, see: {command}", file=sys.stderr)
    return int(ExitCode.INTERRUPTED)


def _down_all(arguments: Arguments) -> int:
    """End what lives, newest first: a run that borrows a server is younger than the one that lends it."""
    from rltui.client.down import Footprint, plan_down
    from rltui.client.queue import commands
    from rltui.core.experiment.api import Loss, Request
    from rltui.core.experiment.consent import loss_of_plan
    from rltui.services.actor import actor
    from rltui.services.experiment.journal import starter_of
    from rltui.services.runs.queue_file import read_queue

    me, is_mine = actor(), arguments.mine
    records, others = _living(me, is_mine=is_mine)
    plans = {record.name: plan_down(record) for record in records}
    queue = read_queue()
    waiting = [entry for entry in queue.entries if entry.state == "queued"]
    if is_mine:
        waiting = [entry for entry in waiting if me.is_same(entry.by)]
    elif queue.paused:
        waiting = []
    text = "".join(
        f"{style(name, 'head')}\n{textwrap.indent(_plan_lines(plan), '  ')}" for name, plan in plans.items()
    )
    if waiting:
        end = "they are cancelled" if is_mine else "the queue will be paused"
        text += f"queue: {count_text(len(waiting), 'run')} would start next; {end}\n"
    if arguments.plan:
        documents = [{"experiment": name, **plan.to_plain()} for name, plan in plans.items()]
        print_outcome({"runs": documents}, text or "nothing is running\n", as_json=arguments.json)
        return 0
    loss = max((loss_of_plan(plan, Request(action="stop")) for plan in plans.values()), default=Loss.NOTHING)
    if others and (me.is_agent or any(starter_of(record) for record in others)):
        loss = Loss.MORE
    sys.stderr.write(text)
    require_consent("down-all", arguments, "stop all of these?", loss=loss)
    if waiting and is_mine:
        commands.remove([entry.id for entry in waiting])
    elif waiting:
        commands.pause()
    _wait_for_starts(me, is_mine=is_mine)
    records, _ = _living(me, is_mine=is_mine)
    footprints = [Footprint.of(record) for record in records]
    states, errors = [], []
    for record in records:
        try:
            status, message = _end(record)
        except KeyboardInterrupt:
            return _interrupted(record)
        except RltuiError as error:
            errors.append((record.name, error))
            continue
        states.append({"experiment": record.name, "state": status["state"]})
        if not arguments.json:
            print(message, flush=True)
    problems = [f"{name}: {error}" for name, error in errors]
    failed = {name for name, _ in errors}
    problems += [
        f"{footprint.record.name}: still there: {join_words(left)}"
        for footprint in footprints
        if footprint.record.name not in failed and (left := footprint.left())
    ]
    if problems:
        kind = errors[0][1] if errors and len({error.code for _, error in errors}) == 1 else RltuiError("")
        raise type(kind)(
            "not everything was stopped:",
            details=problems,
            hint=f"see {hints.STATUS(name=None)}",
            code=kind.code,
        )
    if arguments.json:
        print_json({"runs": states, "cancelled": [entry.name for entry in waiting if is_mine], "left": []})
    elif not records:
        print("nothing of yours is running" if is_mine else "nothing is running")
    if waiting and not is_mine:
        print(f"the queue is paused; to resume it: {hints.QUEUE_RESUME}", file=sys.stderr)
    return 0


def _living(me: Actor, *, is_mine: bool) -> tuple[list[ExperimentRecord], list[ExperimentRecord]]:
    """The runs that end, and those of others among them."""
    from rltui.services.experiment.journal import starter_of

    living = launch.running_experiments(known_experiments(), idle=True)
    others = [record for record in living if not me.is_same(starter_of(record))]
    return ([record for record in living if record not in others], []) if is_mine else (living, others)


def _wait_for_starts(me: Actor, *, is_mine: bool) -> None:
    """Wait for entries of the queue that are being started: their runs shall end, too."""
    from rltui.services.runs.queue_file import read_queue

    until = time.monotonic() + _START_S
    while time.monotonic() < until and any(
        entry.state == "starting" and (not is_mine or me.is_same(entry.by)) for entry in read_queue().entries
    ):
        time.sleep(_POLL_S)


def _plan_lines(plan: Plan) -> str:
    return styled_plan_text(plan) or "nothing is running\n"


def _end(record: ExperimentRecord) -> tuple[dict[str, Any], str]:
    """Take `record` down. Of an observed run, only the observation. Returns its status, and how it ended."""
    from rltui.client.down import shut_down

    with state_changes() as changes:
        result = shut_down(record, changes.show)
    if result.left:
        hint = (
            f"list them: {hints.ORPHANS(name=record.name)}; try again later: {hints.DOWN(name=record.name)}"
        )
        raise RltuiError(
            f"{record.name} is down, but some processes could not be ended:", details=result.left, hint=hint
        )
    status = read_status(record)
    message = f"{record.name} is down; no process is left"
    if result.unseen:
        message += f" on this machine. Programs started over ssh may still run: {', '.join(result.unseen)}"
        message += " (rltui can check a [[node]] without a tty)"
    if record.observed:
        forget(record)
        message = f"{record.name} is no longer observed; the run in {record.run_dir} was left alone"
    elif aside := _set_aside(record):
        print(aside, file=sys.stderr)
    return status, message


_LEAST_ASIDE_BYTES = 1 << 20
"""A smaller size is not reported."""


def _set_aside(record: ExperimentRecord) -> str:
    """Say what restarts moved out of the way of the run; empty where they moved nothing."""
    from rltui.services.runs.disk import size_of

    archive = record.control.archive
    size_bytes = size_of(archive)
    if size_bytes < _LEAST_ASIDE_BYTES:
        return ""
    prune = run_command(hints.PRUNE_ASIDE, record.name)
    return f"restarts have set {size_text(size_bytes)} aside in {archive}; to delete: {prune}"
