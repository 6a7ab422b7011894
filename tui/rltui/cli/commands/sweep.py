"""`sweep`: a run is queued for each combination of values."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rltui.base.text import join_words
from rltui.cli.arguments import JSON, NEW_RUN, PLAN, positive
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.queue_requests import (
    QUEUED,
    as_options,
    plan_request,
    print_added,
    print_planned,
    queue_options,
    refuse_devices,
    split_sweep,
)
from rltui.core import hints
from rltui.errors import ConfigError, UsageError
from rltui.services.hosts.job_arrays import make_array

if TYPE_CHECKING:
    from rltui.client.queue.commands import QueueRequest

_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_SPAN = re.compile(r"(?P<first>-?[\d.]+(?:e[+-]?\d+)?)\.\.(?P<last>-?[\d.]+(?:e[+-]?\d+)?)", re.IGNORECASE)
_MOST_RUNS = 1000
_DIGITS = 3
"""Significant digits of values that are chosen by chance."""
_MANY_TIMES = 10.0
"""A span over more than so many times its beginning is drawn from by magnitude."""


@command(
    "sweep",
    argument(
        "config",
        "CONFIG|KEY=VALUES",
        "config files, as for `rltui up`, and values: lr=1e-6,3e-6 seed=0..2",
        nargs="*",
        completes="edits",
    ),
    argument("--random", "NUMBER", "queue this many random combinations", type=positive),
    argument(
        "--max-parallel", "NUMBER", "run at most this many at once (SLURM: submit at once)", type=positive
    ),
    flag("--array", "with --slurm: submit one job array"),
    *QUEUED,
    NEW_RUN,
    PLAN,
    JSON,
    examples=(
        "sweep rl.toml lr=1e-6,3e-6 seed=0..2 --plan",
        "sweep rl.toml lr=1e-6..1e-4 --random 10",
        "sweep rl.toml lr=1e-6,3e-6 --gpus 2 --max-parallel 2",
    ),
    grammar=split_sweep,
)
def sweep(arguments: Arguments) -> int:
    from rltui.client.queue import commands

    options = queue_options(arguments)
    axes = [parse_axis(axis) for axis in arguments.axes]
    if not axes:
        raise UsageError("a sweep needs values", hint=str(hints.SWEEP))
    requests = _planned(arguments.words, arguments.overrides, combinations(axes, arguments.random))
    first_request = requests[0]
    refuse_devices(first_request, options)
    if arguments.array:
        _refuse_array(first_request)
    if arguments.plan:
        print_planned(requests, arguments)
        return 0
    group = f"{first_request.name}-sweep" if not first_request.is_named else first_request.name
    if arguments.array:  # then SLURM sees to it that not too many run
        folder = make_array(group, first_request.jobs[0], size=len(requests), limit=arguments.max_parallel)
        requests = [
            replace(queue_request, array=f"{folder}:{number}")
            for number, queue_request in enumerate(requests)
        ]
    else:
        options = options.replace(max_parallel=arguments.max_parallel)
    entries = commands.add_to_queue(requests, options, group=group, after_reboot=arguments.after_reboot)
    print_added(entries, arguments)
    return 0


def _planned(
    argv: Sequence[str], overrides: Sequence[str], points: Sequence[Sequence[tuple[str, str]]]
) -> list[QueueRequest]:
    """A request for each point; name, folder and needs are those of the first.

    Raises:
        ConfigError: if some break a rule: which, and why. Now rather than in the night, and before any of
            them is queued. Once if all break the same one: then it is not the values.
    """
    from rltui.client.queue.commands import in_sweep

    requests: list[QueueRequest] = []
    errors: list[ConfigError] = []
    problems: list[str] = []
    for point in points:
        point_text = " ".join(f"{key}={value}" for key, value in point)
        try:
            request = plan_request(argv, [*overrides, *as_options(point)], with_needs=not requests)
        except ConfigError as error:
            errors.append(error)
            problems.append(f"{point_text}: {'; '.join((error.title, *error.details))}")
            continue
        shared = requests[0] if requests else request
        own = replace(shared, request=request.request, overrides=request.overrides)
        requests.append(in_sweep(own, point))
    if len(errors) == len(points) > 1 and len({str(error) for error in errors}) == 1:
        raise errors[0]
    if problems:
        raise ConfigError(
            f"{len(problems)} of {len(points)} runs break a rule of their config",
            details=problems,
            hint="nothing was queued; leave these values out, or add --force",
        )
    return requests


def _refuse_array(queue_request: QueueRequest) -> None:
    if not queue_request.is_job:
        raise UsageError("--array needs SLURM jobs", hint="add --slurm")
    if len(queue_request.jobs) != 1:
        jobs = (
            f"{len(queue_request.jobs)} jobs: {join_words(queue_request.jobs)}"
            if queue_request.jobs
            else "no job"
        )
        raise UsageError(
            f"each run is {jobs}; a job array needs one job per run",
            hint="leave out --array, or run the earlier jobs first, as a run of their own",
        )


@dataclass(frozen=True, slots=True)
class Axis:
    key: str
    values: tuple[str, ...] = ()
    span: tuple[float, float] | None = None
    """Bounds between which a value is chosen by chance."""


def parse_axis(argument: str) -> Axis:
    """Parse `lr=1e-6,3e-6` or `seed=0..2`."""
    key, _, text = argument.partition("=")
    if not _KEY.fullmatch(key) or not text:
        raise UsageError(f"not a key with values: {argument}", hint="lr=1e-6,3e-6, seed=0..2")
    span = _SPAN.fullmatch(text)
    if span is None:
        return Axis(key, tuple(dict.fromkeys(_split(text))))
    low, high = float(span["first"]), float(span["last"])
    if high <= low:
        raise UsageError(f"{argument}: {span['last']} is not above {span['first']}")
    if low.is_integer() and high.is_integer() and not re.search(r"[.e]", span["first"] + span["last"]):
        if high - low >= _MOST_RUNS:
            raise UsageError(f"{argument}: more than {_MOST_RUNS} values")
        return Axis(key, tuple(str(value) for value in range(int(low), int(high) + 1)))
    return Axis(key, span=(low, high))


def _split(text: str) -> Iterator[str]:
    """Split at commas that stand in no bracket and no quotes."""
    depth, quote, start = 0, "", 0
    for index, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def combinations(axes: Sequence[Axis], count: int | None) -> list[list[tuple[str, str]]]:
    """The combinations, each a value for every key; all of them, or `count` by chance."""
    if any(not value.strip() for axis in axes for value in axis.values):
        raise UsageError("a value is empty", hint="separate values by commas: lr=1,2")
    if spans := [axis.key for axis in axes if axis.span is not None]:
        if count is None:
            raise UsageError(
                f"{join_words(spans)}: a range of real numbers needs --random",
                hint="sample it with --random N, or list the values: lr=1e-6,3e-6",
            )
        return [[(axis.key, _by_chance(axis)) for axis in axes] for _ in range(count)]
    total = math.prod(len(axis.values) for axis in axes)
    if (count or total) > _MOST_RUNS or total > _MOST_RUNS**2:
        raise UsageError(f"too many runs: {total}", hint=f"at most {_MOST_RUNS}; sample some: --random N")
    every = list(itertools.product(*([(axis.key, value) for value in axis.values] for axis in axes)))
    sample = every if count is None or count >= len(every) else random.sample(every, count)
    return [list(point) for point in sample]


def _by_chance(axis: Axis) -> str:
    if axis.span is None:
        return random.choice(axis.values)
    low, high = axis.span
    if low > 0 and high / low >= _MANY_TIMES:
        value = math.exp(random.uniform(math.log(low), math.log(high)))
    else:
        value = random.uniform(low, high)
    return f"{value:.{_DIGITS}g}"
