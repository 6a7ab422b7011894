"""`queue`: runs that start by themselves, as devices allow."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rltui.base.text import join_first, join_words, parse_whole_number
from rltui.cli.arguments import JSON, NEW_RUN, PLAN, SET, TIMEOUT, json_flag, listing
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, argument, command
from rltui.cli.output import print_json, print_rows
from rltui.cli.queue_requests import (
    AFTER_REBOOT,
    QUEUED,
    as_options,
    plan_request,
    print_added,
    print_planned,
    queue_options,
    refuse_devices,
    split_queued,
)
from rltui.cli.table import room, view_lines
from rltui.core import hints
from rltui.core.config.knobs import split_assignments
from rltui.core.runs.row import RunRow
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.runs.index import RunIndex, current_rows
from rltui.views.queue_entry import VIEW, QueuedRun, entry_document, queue_notices, queued_runs

if TYPE_CHECKING:
    from rltui.core.experiment.request import ExperimentRequest
    from rltui.core.runs.queue import QueueEntry, RunQueue

_COLUMNS = VIEW.named(("sign", "run", "state", "step", "reward", "what", "why"))


@command(
    "queue list",
    *listing("only the first entries"),
    examples=(
        "queue",
        "queue list --json",
    ),
)
def show(arguments: Arguments) -> int:
    """Print what waits and why, what runs, what has ended. A queue without a scheduler gets one."""
    from rltui.client.queue import commands
    from rltui.services.runs.queue_file import read_queue

    queue = read_queue()
    try:
        commands.ensure_scheduler()
    except RltuiError as error:
        print(error, file=sys.stderr)
    if arguments.json:
        _print_document(queue, arguments)
    else:
        print("\n".join(_lines(queue)))
    return 0


# --- adding -----------------------------------------------------------------------------------------------


@command(
    "queue add",
    argument(
        "config",
        "CONFIG",
        "config files, as for `rltui up`; config keys come after --",
        nargs="*",
        completes="configs",
    ),
    *QUEUED,
    NEW_RUN,
    PLAN,
    JSON,
    examples=(
        "queue add rl.toml --gpus 2",
        "queue add rl.toml --set lr=1e-5 -n low-lr",
        "queue add rl.toml --stop-if 'reward < 0.2 at 50'",
    ),
    grammar=split_queued,
)
def add(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    options = queue_options(arguments)
    queue_request = plan_request(arguments.words, arguments.overrides, with_needs=True)
    refuse_devices(queue_request, options)
    if arguments.plan:
        print_planned([queue_request], arguments)
        return 0
    entries = commands.add_to_queue([queue_request], options, after_reboot=arguments.after_reboot)
    print_added(entries, arguments)
    return 0


# --- looking and changing ---------------------------------------------------------------------------------


ENTRIES = argument("entry", "ENTRY", "name, id or sweep", nargs="+", completes="queue_entries")


@command(
    "queue wait",
    argument(
        "entry",
        "ENTRY",
        "name, id or sweep (default: all queued and running)",
        nargs="*",
        completes="queue_entries",
    ),
    TIMEOUT,
    json_flag("one JSON document, as always"),
    examples=(
        "queue wait",
        "queue wait lr-sweep --timeout 3600",
    ),
)
def wait(arguments: Arguments) -> int:
    """Return once these entries have ended, for one JSON document as `rltui wait` prints it."""
    import asyncio

    from rltui.cli.commands.wait import CODES
    from rltui.client.queue import commands
    from rltui.client.waiting import QueueAnswer, wait_for_entries
    from rltui.services.runs.queue_file import read_queue

    queue, started_at = read_queue(), time.monotonic()
    named = [entry for name in arguments.entry for entry in commands.entries_of(queue, name)]
    entries = named or [entry for entry in queue.entries if entry.is_open]
    commands.ensure_scheduler()
    ids = [entry.id for entry in entries]
    reason, ended = asyncio.run(wait_for_entries(ids, timeout_s=arguments.timeout))
    by_id = {queued.entry.id: queued for queued in _queued_runs(queue.with_entries(ended))}
    answer = QueueAnswer(
        reached=reason.code == "reached",
        reason=reason,
        runs=tuple(_brief(by_id[id_]) for id_ in ids if id_ in by_id),
        waited_s=round(time.monotonic() - started_at, 1),
    )
    print_json(answer)
    return int(CODES.get(reason.code, ExitCode.FAILED))


def _brief(queued: QueuedRun) -> dict[str, Any]:
    run = queued.run
    return {
        "run": queued.entry.name,
        "state": queued.verdict.state,
        "step": None if run is None else run.step,
        "reward": None if run is None or run.reward is None else round(run.reward, 6),
    }


@command(
    "queue pause",
    JSON,
    examples=("queue pause",),
)
def pause(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    return _print_change(commands.pause(), "the queue is paused; running runs continue", arguments)


@command(
    "queue resume",
    AFTER_REBOOT,
    JSON,
    examples=(
        "queue resume",
        "queue resume --after-reboot",
    ),
)
def resume(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    return _print_change(
        commands.resume(after_reboot=arguments.after_reboot), "the queue is running", arguments
    )


@command(
    "queue cancel",
    ENTRIES,
    JSON,
    examples=("queue cancel low-lr",),
)
def cancel(arguments: Arguments) -> int:
    from rltui.client.queue import commands
    from rltui.services.runs.queue_file import read_queue

    entries = commands.remove(arguments.entry)
    return _print_change(
        read_queue(), f"cancelled: {join_words([entry.name for entry in entries])}", arguments
    )


@command(
    "queue retry",
    ENTRIES,
    SET,
    JSON,
    examples=(
        "queue retry low-lr",
        "queue retry low-lr --set lr=1e-6",
    ),
)
def retry(arguments: Arguments) -> int:
    from rltui.client.queue import commands
    from rltui.services.runs.queue_file import read_queue

    mend = partial(_entry_changes, read_queue(), split_assignments(arguments.edits))
    waiting_entries, others = commands.retry(arguments.entry, mend)
    if others:
        words = [f"{entry.name} is {entry.state}" for entry in others]
        print(f"not queued again: {join_first(words, 5)}", file=sys.stderr)
    return _print_change(
        read_queue(), f"queued again: {join_words([entry.name for entry in waiting_entries])}", arguments
    )


def _entry_changes(queue: RunQueue, edits: Mapping[str, str], entry: QueueEntry) -> Mapping[str, object]:
    """The fields of the entry that change with these values. One of an older version gets its request from
    the words that it has.

    Raises:
        ConfigError: if its config breaks a rule with them.
        UsageError: if it is of an older version, and its words are not known or understood any more.
    """
    from rltui.client.queue.commands import fork_text
    from rltui.core.experiment.request import Override

    request = entry.request or _request_of_words(queue, entry)
    if not edits:
        return {"request": request}
    config = request.config
    # what was set by `--set` is set so again: a knob that has both is set twice
    set_again = {key: value for key, value in edits.items() if request.source or key in config.edits}
    overridden = {key: value for key, value in edits.items() if key not in set_again}
    keys = {key.replace("-", "_"): value for key, value in overridden.items()}
    others = (override for override in config.overrides if override.key not in keys)
    new_overrides = (Override(key, (value,)) for key, value in keys.items())
    config = replace(config, edits={**config.edits, **set_again}, overrides=(*others, *new_overrides))
    request = replace(request, config=config)
    _refuse_invalid(request, entry)
    if request.source:
        return {"request": request, "told": fork_text(request)}
    own_values = {**dict(assignment.split("=", 1) for assignment in entry.told.split()), **edits}
    return {
        "request": request,
        "words": tuple(_reassigned(word, set_again) for word in entry.words),
        "overrides": (*_without(entry.overrides, keys), *as_options(list(overridden.items()))),
        "told": " ".join(f"{key}={value}" for key, value in own_values.items()) if entry.told else "",
    }


def _without(overrides: Iterable[str], keys: Collection[str]) -> Iterator[str]:
    """Drop the options of these keys, with their values."""
    is_kept = True
    for word in overrides:
        if word.startswith("--"):
            is_kept = word.partition("=")[0].removeprefix("--").replace("-", "_") not in keys
        if is_kept:
            yield word


def _reassigned(word: str, values: Mapping[str, str]) -> str:
    """The word, with its new value if it assigns one of these keys: `lr=1e-6`, `--set=lr=1e-6`."""
    assignment = word.removeprefix("--set=")
    key, equals, _ = assignment.partition("=")
    return word.removesuffix(assignment) + f"{key}={values[key]}" if equals and key in values else word


def _request_of_words(queue: RunQueue, entry: QueueEntry) -> ExperimentRequest:
    environment = queue.surroundings.get(entry.surroundings)
    if not entry.words or environment is None:
        raise UsageError(
            f"an older version of rltui queued {entry.name}, and how is unknown",
            hint=f"queue it again: {hints.QUEUE_ADD}",
        )
    with contextlib.chdir(environment.cwd):
        is_new = entry.attempts_before and "--resume" not in entry.words
        return plan_request([*entry.words, *(["--new"] if is_new else [])], entry.overrides).request


def _refuse_invalid(request: ExperimentRequest, entry: QueueEntry) -> None:
    """Refuse values with which its config breaks a rule.

    Raises:
        ConfigError: if it does.
    """
    from rltui.client import creation
    from rltui.client.configured import configured
    from rltui.client.draft import plan_record

    is_new = entry.attempts_before and request.earlier_run != "resume"  # what is in its folder is its own
    with configured(replace(request, earlier_run="new") if is_new else request) as run:
        creation.refuse_invalid(plan_record(run)[0])


@command(
    "queue move",
    argument("entry", "ENTRY", "name, id or sweep", completes="queue_entries"),
    argument("place", "PLACE", "first, last, up, down, or a position in the queue"),
    JSON,
    examples=(
        "queue move low-lr first",
        "queue move low-lr down",
    ),
)
def move(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    queue = commands.move(arguments.entry, arguments.place)
    waiting_names = [entry.name for entry in queue.entries if entry.state == "queued"]
    return _print_change(queue, f"new order: {', '.join(waiting_names)}", arguments)


@command(
    "queue limit",
    argument("most", "NUMBER|none", "number of runs; none: as many as the GPUs allow (without GPUs: 1)"),
    JSON,
    examples=(
        "queue limit 2",
        "queue limit none",
    ),
)
def limit(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    text = arguments.most
    most = parse_whole_number(text)
    if text != "none" and not most:
        raise UsageError(f"not a number of runs: {text}", hint="write a number ≥ 1, or none")
    message = "limit: as many runs as the GPUs allow" if most is None else f"limit: {most} at once"
    return _print_change(commands.limit(most), message, arguments)


def _print_change(queue: RunQueue, message: str, arguments: Arguments) -> int:
    if arguments.json:
        _print_document(queue, arguments)
    else:
        print(message)
    return 0


def _lines(queue: RunQueue) -> list[str]:
    lines = [style_line(line) for line in queue_notices(queue)]
    if not queue.entries:
        return [*lines, f"the queue is empty: {hints.QUEUE_ADD}, {hints.SWEEP}"]
    return [*lines, *view_lines(_COLUMNS, _queued_runs(queue), time.time(), width=room())]


def _print_document(queue: RunQueue, arguments: Arguments) -> None:
    """Print the queue for programs, with the states that its runs have on every other place. Variables of the
    environment are left out unless all is asked for.
    """
    verdicts = {queued.entry.id: queued.verdict for queued in _queued_runs(queue)}
    entries = [{**entry_document(entry), **verdicts[entry.id].as_json()} for entry in queue.entries]
    document = queue.to_plain()
    del document["entries"]
    if not getattr(arguments, "full", False):
        del document["surroundings"]
    print_rows(arguments, "entries", entries, head=document)


def _queued_runs(queue: RunQueue) -> list[QueuedRun]:
    if not queue.entries:
        return []
    index = RunIndex()
    try:
        return queued_runs(queue, partial(_run_of, index))
    finally:
        index.close()


def _run_of(index: RunIndex, entry: QueueEntry) -> RunRow | None:
    """Row of the entry's run; `None`, with a line on stderr, where the index cannot be read."""
    try:
        row = index.in_folder(entry.folder)
        return None if row is None else current_rows([row])[0]
    except RltuiError as error:
        print(f"cannot read {entry.name} from the run list: {error.title}", file=sys.stderr)
        return None
