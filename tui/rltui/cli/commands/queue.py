"""`queue`, `sweep`: runs that start by themselves, as devices allow."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.colour import meaning_of, paint, signed
from rltui.cli.parser import parse
from rltui.cli.progress import working
from rltui.cli.table import Column, print_table, room, table_lines
from rltui.client.queue import asking
from rltui.client.queue.asking import QueueRequest
from rltui.core import hints
from rltui.core.knobs import split_assignments
from rltui.core.queue import QueueEntry, QueueOptions, RunQueue
from rltui.core.runs import RunRow
from rltui.core.text import listed, whole_number
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.job_arrays import make_array
from rltui.services.queue_file import read_queue
from rltui.services.runs.index import RunIndex
from rltui.wording import QUEUE_HEAD, queue_cells, queue_notices, queue_order

if TYPE_CHECKING:
    from rltui.services.runs.experiment_files import ExperimentRecord

_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_SPAN = re.compile(r"(?P<first>-?[\d.]+(?:e[+-]?\d+)?)\.\.(?P<last>-?[\d.]+(?:e[+-]?\d+)?)", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_RUNS = 1000
_FIGURES = 3
"""Of values that are chosen by chance."""
_MANY_TIMES = 10.0
"""A span over more than so many times its beginning is drawn from by magnitude."""

_COLUMNS = tuple(
    Column(
        word.upper(),
        is_right=word in ("step", "reward"),
        least={"run": 14, "what": 12, "why": 14}.get(word),
        cut="middle" if word == "run" else "end",
        goes={"what": 1, "reward": 2, "step": 3}.get(word, 0),
    )
    for word in QUEUE_HEAD
)


# --- adding -----------------------------------------------------------------------------------------------


def add(arguments: argparse.Namespace) -> int:
    options = _options(arguments)
    with _planned(arguments.words, arguments.overrides, with_needs=True) as wish:
        _refuse_devices(wish, options)
        added = asking.add_to_queue([wish], options, after_reboot=arguments.after_reboot)
    _tell_added(added, arguments)
    return 0


def sweep(arguments: argparse.Namespace) -> int:
    """Queue a run for each combination of values, or for some of them by chance."""
    options = _options(arguments)
    axes = [_axis(word) for word in arguments.axes]
    if not axes:
        raise UsageError("a sweep needs values", hint=str(hints.SWEEP))
    words = arguments.words
    points = _points(axes, arguments.random)
    _refuse_points(words, arguments.overrides, points)
    with _planned(words, [*arguments.overrides, *_as_options(points[0])], with_needs=True) as first:
        _refuse_devices(first, options)
        if arguments.array:
            _refuse_array(first)
    wishes = [
        replace(
            first,
            overrides=(*arguments.overrides, *_as_options(point)),
            own=" ".join(f"{key}={value}" for key, value in point),
            own_name="-".join(
                _NOT_IN_NAMES.sub("_", key.rpartition(".")[2] + value).strip("_") for key, value in point
            ),
        )
        for point in points
    ]
    if arguments.dry_run:
        _tell_points(wishes, arguments)
        return 0
    group = f"{first.name}-sweep" if not first.is_named else first.name
    if arguments.array:  # then SLURM sees to it that not too many run
        folder = make_array(group, first.jobs[0], size=len(wishes), limit=arguments.max_parallel)
        wishes = [replace(wish, array=f"{folder}:{number}") for number, wish in enumerate(wishes)]
    else:
        options = options.model_copy(update={"max_parallel": arguments.max_parallel})
    added = asking.add_to_queue(wishes, options, group=group, after_reboot=arguments.after_reboot)
    _tell_added(added, arguments)
    return 0


def _refuse_points(
    words: Sequence[str], overrides: Sequence[str], points: Sequence[Sequence[tuple[str, str]]]
) -> None:
    """Now rather than in the night, and before any of them is queued.

    Raises:
        ConfigError: if some break a rule: which, and why.
    """
    problems: list[str] = []
    for point in points:
        try:
            with _planned(words, [*overrides, *_as_options(point)]):
                continue
        except ConfigError as error:
            own = " ".join(f"{key}={value}" for key, value in point)
            problems.append(f"{own}: {'; '.join((error.title, *error.details))}")
    if problems:
        raise ConfigError(
            f"{len(problems)} of {len(points)} runs break a rule of their config",
            details=problems,
            hint="nothing was queued; leave these values out, or --force",
        )


def _options(arguments: argparse.Namespace) -> QueueOptions:
    from rltui.client.queue.rules import check_rule

    for rule in arguments.stop_if:
        check_rule(rule)
    return QueueOptions(
        gpus=arguments.gpus,
        retries=arguments.retries,
        stop_if=tuple(arguments.stop_if),
        priority=arguments.priority,
    )


@contextmanager
def _planned(
    words: Sequence[str], overrides: Sequence[str], *, with_needs: bool = False
) -> Iterator[QueueRequest]:
    """The run that `rltui up` would make of these.

    Raises:
        ConfigError: if its config breaks a rule, as `rltui check` says it.
    """
    from rltui.cli.new_run import wanted_run  # knows the frameworks, which `rltui queue` needs not
    from rltui.client import creation
    from rltui.client.jobs import submitted
    from rltui.services.config import origins

    behind = ["--", *overrides] if overrides else []
    up = parse(["up", *words, *behind])
    with wanted_run(up) as wanted:
        with working("plans the run as `up` would"):
            record, earlier = creation.plan_record(wanted)
            if not wanted.force:
                creation.refuse_errors(record, starting=False)
        creation.trust_what_runs(wanted)
        yield QueueRequest(
            words=tuple(word for word in words if word != "--new"),
            overrides=tuple(overrides),
            name=record.name,
            folder=Path(record.output_dir),
            files=origins.made_from(map(Path, record.config_files)),
            is_named=up.name is not None,
            is_taken=earlier is not None,
            is_resumed=wanted.earlier_run == "resume",
            is_job=(is_job := _is_job(record)),
            jobs=submitted(record) if with_needs and is_job else (),
            needs=_needs(record) if with_needs and not is_job else (None, 0),
        )


def _is_job(record: ExperimentRecord) -> bool:
    """All that it starts is submitted to SLURM."""
    from rltui.services import layout_files

    return all(spec.slurm is not None for spec in layout_files.load_for(record).automatic)


def _refuse_devices(wish: QueueRequest, options: QueueOptions) -> None:
    if wish.is_job and options.gpus is not None:
        raise UsageError(
            f"{wish.name} is submitted to SLURM, and needs no GPUs of this machine",
            hint="GPUs of each node of its job: --slurm --gpus N",
        )


def _refuse_array(wish: QueueRequest) -> None:
    if not wish.is_job:
        raise UsageError("only jobs can be an array", hint="--slurm submits each run as one")
    if len(wish.jobs) != 1:
        jobs = f"{len(wish.jobs)} jobs: {listed(wish.jobs)}" if wish.jobs else "no job"
        raise UsageError(
            f"each run is {jobs}; a job array has one of each",
            hint="leave out --array, or have what one job makes for another made before, by a run of its own",
        )


def _needs(record: ExperimentRecord) -> tuple[int | None, int]:
    """How many devices it would use, and the memory that it needs of the fullest; none where a person named
    devices, or no GPU can be read.
    """
    from rltui.client.memory import needed_bytes

    if record.devices:
        return None, 0
    sizes = needed_bytes(record)
    return len(sizes) or None, max(sizes.values(), default=0)


@dataclass(frozen=True, slots=True)
class _Axis:
    key: str
    values: tuple[str, ...] = ()
    span: tuple[float, float] | None = None
    """From where to where a value is chosen by chance."""


def _axis(word: str) -> _Axis:
    """`lr=1e-6,3e-6`, `seed=0..2`."""
    key, _, text = word.partition("=")
    if not _KEY.fullmatch(key) or not text:
        raise UsageError(f"{word!r} is no key with values", hint="lr=1e-6,3e-6, seed=0..2")
    span = _SPAN.fullmatch(text)
    if span is None:
        return _Axis(key, tuple(dict.fromkeys(_split(text))))
    first, last = float(span["first"]), float(span["last"])
    if last <= first:
        raise UsageError(f"{word}: {span['last']} is not above {span['first']}")
    if first.is_integer() and last.is_integer() and not re.search(r"[.e]", span["first"] + span["last"]):
        if last - first >= _MOST_RUNS:
            raise UsageError(f"{word}: these are more than {_MOST_RUNS} values")
        return _Axis(key, tuple(str(value) for value in range(int(first), int(last) + 1)))
    return _Axis(key, span=(first, last))


def _split(text: str) -> Iterator[str]:
    """At commas that stand in no bracket and no quotes."""
    depth, quote, begin = 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _points(axes: Sequence[_Axis], some: int | None) -> list[list[tuple[str, str]]]:
    """The combinations, each a value for every key; all of them, or `some` by chance."""
    if any(not value.strip() for axis in axes for value in axis.values):
        raise UsageError(
            "a value is empty", hint="values stand behind each other, with a comma between: lr=1,2"
        )
    if spans := [axis.key for axis in axes if axis.span is not None]:
        if some is None:
            raise UsageError(
                f"{listed(spans)}: between two numbers there is no end of values",
                hint="name them, lr=1e-6,3e-6, or choose by chance: --random K",
            )
        return [[(axis.key, _by_chance(axis)) for axis in axes] for _ in range(some)]
    total = math.prod(len(axis.values) for axis in axes)
    if (some or total) > _MOST_RUNS or total > _MOST_RUNS**2:
        raise UsageError(f"that makes {total} runs", hint=f"at most {_MOST_RUNS}; choose some: --random K")
    every = list(itertools.product(*([(axis.key, value) for value in axis.values] for axis in axes)))
    chosen = every if some is None or some >= len(every) else random.sample(every, some)
    return [list(point) for point in chosen]


def _by_chance(axis: _Axis) -> str:
    if axis.span is None:
        return random.choice(axis.values)
    first, last = axis.span
    if first > 0 and last / first >= _MANY_TIMES:
        value = math.exp(random.uniform(math.log(first), math.log(last)))
    else:
        value = random.uniform(first, last)
    return f"{value:.{_FIGURES}g}"


def _as_options(point: Sequence[tuple[str, str]]) -> list[str]:
    return [f"--{key}={value}" for key, value in point]


def _tell_points(wishes: Sequence[QueueRequest], arguments: argparse.Namespace) -> None:
    if arguments.json:
        found = [{"name": f"{each.name}-{each.own_name}", "what": each.own} for each in wishes]
        print(json.dumps({"runs": found}))
        return
    print(f"{len(wishes)} runs, none of them queued:")
    columns = (Column("NAME", least=16, cut="middle"), Column("WHAT", least=16))
    print_table(columns, [(f"{each.name}-{each.own_name}", each.own) for each in wishes])


def _tell_added(added: Sequence[QueueEntry], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps([each.model_dump(mode="json") for each in added]))
        return
    for each in added:
        print(f"{each.name} is queued: {each.folder}")
    if added and added[0].group:
        print(f"the sweep is called {added[0].group}; look: {hints.QUEUE}")


# --- looking and changing ---------------------------------------------------------------------------------


def show(arguments: argparse.Namespace) -> int:
    """What waits and why, what runs, what has ended. A queue without a supervisor gets one."""
    queue = read_queue()
    try:
        asking.wake()
    except RltuiError as error:
        print(error, file=sys.stderr)
    if arguments.json:
        print(queue.model_dump_json())
    else:
        print("\n".join(_lines(queue)))
    return 0


def pause(arguments: argparse.Namespace) -> int:
    return _changed(asking.pause(), "paused; what runs goes on", arguments)


def resume(arguments: argparse.Namespace) -> int:
    return _changed(asking.resume(after_reboot=arguments.after_reboot), "the queue goes on", arguments)


def remove(arguments: argparse.Namespace) -> int:
    gone = asking.remove(arguments.entry)
    return _changed(read_queue(), f"removed: {listed([each.name for each in gone])}", arguments)


def retry(arguments: argparse.Namespace) -> int:
    edits = split_assignments(arguments.edits)
    again = asking.retry(arguments.entry, partial(_mended, edits)) if edits else asking.retry(arguments.entry)
    return _changed(read_queue(), f"waits again: {listed([each.name for each in again])}", arguments)


def _mended(edits: Mapping[str, str], entry: QueueEntry) -> Mapping[str, object]:
    """What an entry says with these values.

    Raises:
        ConfigError: if its config breaks a rule with them.
    """
    before = (word for word in entry.overrides if word.partition("=")[0].removeprefix("--") not in edits)
    overrides = (*before, *_as_options(list(edits.items())))
    is_new = entry.attempts_before and "--resume" not in entry.words  # what is in its folder is its own
    with _planned([*entry.words, "--new"] if is_new else entry.words, overrides):
        own = {**dict(word.split("=", 1) for word in entry.told.split()), **edits}
        told = " ".join(f"{key}={value}" for key, value in own.items()) if entry.told else ""
        return {"overrides": overrides, "told": told}


def move(arguments: argparse.Namespace) -> int:
    queue = asking.move(arguments.entry, arguments.place)
    waiting = [each.name for each in queue.entries if each.state == "waiting"]
    return _changed(queue, f"now in this order: {', '.join(waiting)}", arguments)


def limit(arguments: argparse.Namespace) -> int:
    word = arguments.most
    most = whole_number(word)
    if word != "none" and not most:
        raise UsageError(f"{word!r} is no number of runs", hint="a number from 1 on, or none")
    words = "as many run at once as devices allow" if most is None else f"at most {most} run at once"
    return _changed(asking.limit(most), words, arguments)


def _changed(queue: RunQueue, words: str, arguments: argparse.Namespace) -> int:
    print(queue.model_dump_json() if arguments.json else words)
    return 0


def _lines(queue: RunQueue) -> list[str]:
    lines = [signed(line) for line in queue_notices(queue)]
    if not queue.entries:
        return [*lines, f"the queue is empty: {hints.QUEUE_ADD}, {hints.SWEEP}"]
    index, now = RunIndex(), time.time()
    rows = [queue_cells(each, _row(each, index), now) for each in queue_order(queue)]
    index.close()
    painted = [[*(paint(cell, meaning_of(row[2])) for cell in row[:1]), *row[1:]] for row in rows]
    return [*lines, *table_lines(_COLUMNS, painted, width=room())]


def _row(entry: QueueEntry, index: RunIndex) -> RunRow | None:
    """What is known of its run; an index in trouble is told, and costs no more."""
    if entry.state == "waiting":
        return None
    try:
        return index.in_folder(entry.folder)
    except RltuiError as error:
        print(f"the index of runs does not tell of {entry.name}: {error.title}", file=sys.stderr)
        return None
