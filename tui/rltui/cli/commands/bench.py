"""`bench`: changes of a config, tried one at a time against its noise."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import count_text, numbered
from rltui.base.toml.values import typed_values
from rltui.cli.arguments import JSON, NEW_RUN, PLAN, TIMEOUT, WAIT, listing, positive
from rltui.cli.command import Arguments, argument, command, exclusive, flag, repeatable
from rltui.cli.commands.sweep import combinations, parse_axis
from rltui.cli.output import print_csv, print_json, print_rows
from rltui.cli.queue_requests import QUEUED, plan_request, queue_options, refuse_devices, split_sweep
from rltui.cli.table import print_view
from rltui.core import hints
from rltui.core.config.knobs import split_assignments
from rltui.errors import ConfigError, ExitCode, UsageError
from rltui.views.bench import (
    BENCHES,
    LEDGER,
    bench_document,
    bench_hint,
    bench_notices,
    ledger_rows,
)

if TYPE_CHECKING:
    from rltui.core.runs.bench import Bench

_POLL_S = 1.0
NAME = argument("name", "NAME", "name of a bench (default: the newest)", nargs="?", completes="benches")


@command(
    "bench run",
    argument(
        "config",
        "CONFIG|KEY=VALUES",
        "config files, as for `rltui up`, and changes to try, each by itself: lr=1e-6,3e-6",
        nargs="*",
        completes="edits",
    ),
    argument(
        "--metric",
        "METRIC",
        "eval.reward (evaluates each run), eval, reward, loss …",
        default="",
        completes="metrics",
    ),
    argument("--budget", "BUDGET", "'20 trials', '8 gpu-hours', '3 h', or several with commas", default=""),
    argument(
        "--trials",
        "FILE",
        "TOML file of trials: [[trial]] with the values, and a reason",
        completes="configs",
    ),
    argument("--seeds", "NUMBER", "runs of the baseline and of a kept trial", type=positive, default=3),
    argument("--examples", "NUMBER", "examples of each evaluation", type=positive, default=50),
    argument("--target", "NUMBER", "end at this score", type=float),
    argument("--patience", "NUMBER", "end after this many trials in a row without a gain", type=positive),
    repeatable(
        "--protect",
        "PATH",
        "file or folder that voids a trial if it changes, such as a grader",
        completes="files",
    ),
    *QUEUED,
    NEW_RUN,
    PLAN,
    WAIT,
    TIMEOUT,
    JSON,
    examples=(
        "bench rl.toml lr=1e-6,3e-6 --metric reward --budget '20 trials' --plan",
        "bench rl.toml --trials ideas.toml --metric eval.reward --budget '3 h'",
    ),
    epilog="The queue runs the trials, also after this command has ended. What beats the best by more than"
    " the noise is kept, and later trials build on it. Ties, crashes and void trials are set aside.",
    grammar=split_sweep,
)
def run(arguments: Arguments) -> int:
    from rltui.client import bench as benches
    from rltui.core.runs.bench import EVAL, LEAST_SEEDS, BenchTerms, parse_budget
    from rltui.services.runs.bench_file import bench_names

    if not arguments.metric or not arguments.budget:
        raise UsageError("a bench needs --metric and --budget", hint=str(hints.BENCH))
    if arguments.seeds < LEAST_SEEDS:
        raise UsageError(f"noise needs {LEAST_SEEDS} seeds or more, not {arguments.seeds}")
    options = queue_options(arguments)
    baseline = plan_request(arguments.words, arguments.overrides, with_needs=True)
    refuse_devices(baseline, options)
    if not baseline.is_named:
        taken = bench_names()
        name = next(name for name in numbered(f"{baseline.name[:24]}-bench") if name not in taken)
        baseline = replace(baseline, name=name)
    planned = benches.plan_bench(
        baseline,
        BenchTerms(
            metric=arguments.metric,
            examples=arguments.examples if arguments.metric == EVAL else 0,
            seeds=arguments.seeds,
            budget=parse_budget(arguments.budget),
            target=arguments.target,
            patience=arguments.patience or 0,
        ),
        options,
        trials=(*_trials_of(arguments.axes), *_trials_in(arguments.trials)),
        protected=map(Path, arguments.protect),
    )
    if arguments.plan:
        return _print_plan(planned, arguments)
    bench = benches.start_bench(planned)
    if not arguments.json:
        print(
            f"{bench.name} has begun with its baseline; see {hints.BENCH_SHOW(name=bench.name)}",
            file=sys.stderr,
        )
    return _follow(bench.name, arguments) if arguments.wait else _print(bench, arguments)


def _trials_of(axes: list[str]) -> list[tuple[Mapping[str, str], str]]:
    """A trial for each value of each key."""
    return [(dict(point), "") for axis in axes for point in combinations([parse_axis(axis)], None)]


def _trials_in(file: str | None) -> list[tuple[Mapping[str, str], str]]:
    if file is None:
        return []
    from rltui.services.config.config_file import read_file

    tables = read_file(Path(file)).data.get("trial")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{file}: no [[trial]]", hint="write [[trial]] and below it the keys: lr = 1e-5")
    reasons = [str(table.pop("reason", "")) for table in tables]
    return list(zip(map(typed_values, tables), reasons, strict=True))


def _print_plan(bench: Bench, arguments: Arguments) -> int:
    trials = len(bench.trials) - 1
    least, most = bench.seeds + trials, 2 * bench.seeds * (trials + 1)
    if arguments.json:
        print_json({**bench_document(bench), "runs": [least, most]})
        return 0
    print("\n".join(bench_notices(bench)))
    print(f"{count_text(bench.seeds, 'run')} of the baseline, then 1 to {2 * bench.seeds} of each trial")
    print(f"{least} to {most} runs in all, in {bench.folder}; nothing was queued")
    print(f"protected: {', '.join(bench.files) or 'nothing; name a grader with --protect'}")
    print_view(LEDGER.named(("trial", "change", "why")), bench.trials, time.time())
    return 0


def _follow(name: str, arguments: Arguments) -> int:
    """Print each verdict until nothing is left to do; the queue does the work."""
    from rltui.client.bench import advance_bench

    printed: set[int] = set()
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    while True:
        bench = advance_bench(name)
        for trial in bench.trials:
            if trial.is_over and trial.number not in printed:
                printed.add(trial.number)
                verdict = trial.why if trial.state == "baseline" else f"{trial.state}, {trial.why}"
                print(f"{trial.change}: {verdict}", file=sys.stderr, flush=True)
        if bench.state != "running":
            _print(bench, arguments)
            has_failed = bench.trials[0].state == "crashed"
            return int(ExitCode.COMPONENT_FAILED if has_failed else ExitCode.DONE)
        if until is not None and time.monotonic() > until:
            print(f"still running: {hints.BENCH_SHOW(name=name)}", file=sys.stderr)
            return int(ExitCode.FAILED)
        time.sleep(_POLL_S)


def _print(bench: Bench, arguments: Arguments) -> int:
    if arguments.json:
        print_json(bench_document(bench))
        return 0
    print("\n".join(bench_notices(bench)))
    print_view(LEDGER.columns, bench.trials, time.time())
    return 0


@command("bench list", *listing("only the first"), examples=("bench list",))
def show_list(arguments: Arguments) -> int:
    from rltui.services.runs.bench_file import read_benches

    benches = read_benches()
    if arguments.json:
        print_rows(arguments, "benches", [bench_document(bench) for bench in benches])
    elif benches:
        print_view(BENCHES.columns, benches, time.time())
    else:
        print(bench_hint())
    return 0


@command(
    "bench show",
    NAME,
    exclusive(flag("--csv", "the ledger as CSV"), flag("--md", "the ledger as Markdown"), JSON),
    examples=("bench show", "bench show rl-bench --md"),
)
def show(arguments: Arguments) -> int:
    from rltui.client.bench import advance_bench

    bench = advance_bench(_name(arguments))
    head, *rows = ledger_rows(bench, time.time())
    if arguments.csv:
        print_csv(head, rows)
    elif arguments.md:
        lines = [head, ["---"] * len(head), *rows]
        print("\n".join(bench_notices(bench)), end="\n\n")
        print("\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines))
    else:
        return _print(bench, arguments)
    return 0


def _name(arguments: Arguments) -> str:
    from rltui.services.runs.bench_file import read_benches

    if arguments.name:
        return str(arguments.name)
    newest = next(iter(read_benches()), None)
    if newest is None:
        raise UsageError("no bench yet", hint=str(hints.BENCH))
    return newest.name


@command(
    "bench try",
    argument("name", "NAME", "name of a bench", completes="benches"),
    argument(
        "edits", "KEY=VALUE", "the change, on top of the best so far", nargs="+", completes="assignments"
    ),
    JSON,
    examples=("bench try rl-bench lr=5e-5 --reason 'the loss is noisy'",),
)
def try_change(arguments: Arguments) -> int:
    from rltui.client.bench import add_trial

    trial = add_trial(arguments.name, split_assignments(arguments.edits))
    if arguments.json:
        print_json(trial.to_plain())
    else:
        see = hints.BENCH_SHOW(name=arguments.name)
        print(f"trial {trial.number}, {trial.change}, is {trial.state}; see {see}")
    return 0


@command("bench stop", argument("name", "NAME", "name of a bench", completes="benches"), JSON,
         examples=("bench stop rl-bench",))  # fmt: skip
def stop(arguments: Arguments) -> int:
    from rltui.client.bench import stop_bench

    return _print(stop_bench(arguments.name), arguments)
