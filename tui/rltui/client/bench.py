"""Benches of this machine: made, given trials, advanced. Whoever advances one, the queue's scheduler or a
command, does what `core/runs/bench.py` decides; what was done already is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from rltui.base.text import count_text, join_words
from rltui.client import creation
from rltui.client.configured import configured
from rltui.client.draft import plan_record
from rltui.client.fork import request_like
from rltui.client.queue import commands
from rltui.client.queue.commands import QueueRequest
from rltui.core import hints
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.experiment.rights import Act
from rltui.core.metrics.names import concept_of
from rltui.core.runs.bench import (
    EVAL,
    Bench,
    BenchFacts,
    BenchRun,
    BenchTerms,
    BenchTrial,
    advance,
    change_text,
)
from rltui.core.runs.compare import compared_metrics
from rltui.core.runs.evals import EvalRequest
from rltui.core.runs.queue import QueueEntry, QueueOptions
from rltui.core.runs.row import RunOrigin, RunRow
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.services.actor import acting_as, actor
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.rights import require
from rltui.services.fingerprints import content_print
from rltui.services.metrics.store import SeriesReader
from rltui.services.runs import bench_file, catalog
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.index import RunIndex
from rltui.services.runs.observed import setup_of
from rltui.services.runs.provenance import collector_of
from rltui.services.runs.queue_file import read_queue
from rltui.services.runs.references import find_run

_PASSING = ("paused", "not_allowed", "over_budget", "busy")
"""Codes of refusals that pass: a pause of agents, too many trials, a budget that is used up, a lock."""


def plan_bench(
    baseline: QueueRequest,
    terms: BenchTerms,
    options: QueueOptions,
    *,
    trials: Iterable[tuple[Mapping[str, str], str]] = (),
    protected: Iterable[Path] = (),
) -> Bench:
    """The bench that `start_bench` would make. Nothing is written.

    `trials`: the values of each, and the reason for it. `protected`: files and folders that no trial may
    change, besides those that the config names.

    Raises:
        ConfigError: if the config breaks a rule, with a trial or without; names all trials that do.
        UsageError: if a protected file does not exist.
    """
    line, by = baseline.request, actor()
    with configured(line) as run:
        record, _ = plan_record(run)
        layout, framework, files = setup_of(record)
        judging = collector_of(record, layout, framework).judging_files(files)
        knobs = {knob.name: knob for knob in framework.config.knobs(files)}
        seed_key = next((key for key in framework.run.seed_keys if key in knobs), "")
        seed = framework.config.values_of([knobs[seed_key]], files)[seed_key] if seed_key else None
    prints = {str(path): content_print(path) for path in (*judging, *(path.absolute() for path in protected))}
    if missing := [path for path, content in prints.items() if not content]:
        raise UsageError(f"file not found: {join_words(missing)}", hint="check --protect")
    changes = [BenchTrial(number=0, by=by)]
    for edits, reason in trials:
        why = by.replace(reason=reason or by.reason)
        changes.append(BenchTrial(number=len(changes), edits=dict(edits), by=why))
    _refuse_invalid([(trial.edits, _with_edits(line, trial.edits)) for trial in changes[1:]], seed_key)
    concept = concept_of("eval" if terms.metric == EVAL else terms.metric)
    return Bench(
        **asdict(terms),
        id=commands.new_id(),
        name=baseline.name,
        at=time.time(),
        by=by,
        request=replace(line, earlier_run="new", config=replace(line.config, is_copied=True)),
        folder=str(baseline.folder.parent / baseline.name),
        surroundings=commands.launch_environment(),
        options=options.replace(
            gpus=options.gpus or baseline.needs[0],
            gpu_bytes=baseline.needs[1],
            is_job=baseline.is_job,
        ),
        better="lower" if concept is not None and concept.better == "lower" else "higher",
        seed_key=seed_key,
        first_seed=seed if isinstance(seed, int) else 0,
        files={path: content.partition("@")[0] for path, content in prints.items()},
        trials=tuple(changes),
    )


def _refuse_invalid(changes: Iterable[tuple[Mapping[str, str], ExperimentRequest]], seed_key: str) -> None:
    problems = []
    for edits, request in changes:
        change = change_text(edits)
        if seed_key in edits:
            problems.append(f"{change}: the bench sets the seed itself")
        try:
            with configured(request) as run:
                creation.refuse_invalid(plan_record(run)[0])
        except ConfigError as error:
            problems.append(f"{change}: {'; '.join((error.title, *error.details))}")
    if problems:
        raise ConfigError("trials break a rule of the config", details=problems, hint="nothing was queued")


def _with_edits(line: ExperimentRequest, edits: Mapping[str, str]) -> ExperimentRequest:
    config = replace(line.config, edits={**line.config.edits, **edits})
    return replace(line, config=config, earlier_run="new")


def start_bench(bench: Bench) -> Bench:
    """Write it down and queue its baseline.

    Raises:
        ConflictError: if the name is taken.
        RltuiError: if it cannot be written, or the queue not be started.
    """
    require(Act("queue", bench.name), can_wait=True)
    bench_file.add_bench(bench)
    return advance_bench(bench.name)


def add_trial(name: str, edits: Mapping[str, str]) -> BenchTrial:
    """Add a trial behind the others; it runs when those are over.

    Raises:
        UsageError: if there is no such bench, no change, or whoever asks may not.
        ConflictError: if the bench has ended, or its budget is spoken for.
        ConfigError: if the config breaks a rule with it.
    """
    bench = bench_file.read_bench(name)
    if not edits:
        raise UsageError("a trial needs a change", hint=hints.BENCH_TRY(name=name))
    fork = _request(bench, bench.trials[bench.best], edits, f"{name}-next")
    _refuse_invalid([(edits, fork)], bench.seed_key)
    require(Act("queue", name), can_wait=True)

    def added(now: Bench) -> Bench:
        if now.ended:
            raise ConflictError(f"the bench {name} has ended: {now.ended}", hint=f"start one: {hints.BENCH}")
        most = now.budget.trials
        if most is not None and len(now.trials) > most:
            raise ConflictError(f"the bench {name} has {count_text(most, 'trial')}, which is its budget")
        if any(trial.edits == edits and trial.base == now.best for trial in now.trials[1:] if trial.is_over):
            raise ConflictError(f"the bench {name} has tried that already")
        return now.with_trial(BenchTrial(number=len(now.trials), edits=dict(edits), by=actor()))

    trial = bench_file.change_bench(name, added).trials[-1]
    return advance_bench(name).trials[trial.number]


def stop_bench(name: str) -> Bench:
    """End it: waiting trials are not run, queued runs are removed; a run that has started continues, and does
    not count.

    Raises:
        UsageError: if there is no such bench, or whoever asks may not.
        ConflictError: if it has ended.
    """
    by = actor()
    require(Act("queue", name), can_wait=by.is_same(bench_file.read_bench(name).by))
    reason = f"stopped by {by.text}" + (f": {by.reason}" if by.reason else "")

    def stopped(bench: Bench) -> Bench:
        if bench.ended:
            raise ConflictError(f"the bench {name} has ended: {bench.ended}")
        return bench.with_end(reason, reason, time.time())

    bench = bench_file.change_bench(name, stopped)
    queue = read_queue()
    queued = (queue.entry(run.entry) for run in bench.runs)
    if waiting := [entry.id for entry in queued if entry is not None and entry.state == "queued"]:
        with suppress(RltuiError):  # one has started meanwhile
            commands.remove(waiting)
    return bench


# --- advancing --------------------------------------------------------------------------------------------


def advance_all() -> bool:
    """Advance every bench that has begun a trial. True if a run waits for a limit to pass."""
    names = [bench.name for bench in bench_file.read_benches() if bench.current and not bench.ended]
    benches = [advance_bench(name) for name in names]
    return any(bench.planned for bench in benches)


def advance_bench(name: str) -> Bench:
    """Do what is to be done now, and return the bench after that.

    Raises:
        UsageError: if there is none of that name.
        RltuiError: if it or the queue cannot be read or written.
    """

    def advanced(bench: Bench) -> Bench:
        bench = advance(bench, _facts(bench))
        tried = [_queued(bench, run) for run in bench.planned]
        for run in tried:
            bench = bench.with_run(run)
        if any(run.state == "ended" for run in tried):  # cannot be queued: that may be the end of its trial
            return advanced(bench)
        if (trial := bench.current) is not None:
            refusals = (f"waits: {run.why}" for run in tried if run.state == "planned")
            bench = bench.with_trial(trial.replace(why=next(refusals, "") or _queue_blocker(bench)))
        return bench

    return bench_file.change_bench(name, advanced)


def _queue_blocker(bench: Bench) -> str:
    """What its runs wait for in the queue, as the queue says it; empty if one has started."""
    queue = read_queue()
    entries = [entry for run in bench.runs if run.state == "queued" and (entry := queue.entry(run.entry))]
    is_waiting = all(entry.state == "queued" for entry in entries)
    return next((entry.why for entry in entries if entry.why), "") if is_waiting else ""


def _facts(bench: Bench) -> BenchFacts:
    queue, ended = read_queue(), {}
    for run in bench.runs:
        entry = queue.entry(run.entry)
        if run.state == "queued" and (entry is None or not entry.is_open):
            ended[run.entry] = _result(bench, run, entry)
    are_over = all(run.state == "ended" or run.entry in ended for run in bench.runs)
    files = {path: content_print(Path(path)) for path in bench.files if are_over}
    return BenchFacts(now=time.time(), ended=ended, files=files)


def _result(bench: Bench, run: BenchRun, entry: QueueEntry | None) -> BenchRun:
    """The run, which has ended, with its score, or without one."""
    if entry is None:
        return run.replace(state="ended", is_stopped=True, why="its entry was removed from the queue")
    with closing(RunIndex()) as index:
        catalog.read_folders(index, [Path(entry.folder)])
        row = index.in_folder(entry.folder)
    wall_s = (entry.ended_at or 0.0) - (entry.started_at or entry.ended_at or 0.0)
    run = run.replace(state="ended", wall_s=max(wall_s, 0.0), run=entry.run)
    if row is not None:
        run = run.replace(gpu_s=row.gpu_seconds, run=row.id)
    if entry.state != "done" or row is None:
        why = f"{entry.state}: {entry.why or entry.failure}".rstrip(": ")
        return run.replace(why=why, is_stopped=entry.state == "stopped")
    score = _score(bench, row)
    return run.replace(score=score, why="" if score is not None else f"it has no {bench.metric}")


def _score(bench: Bench, row: RunRow) -> float | None:
    """The mean of the evaluation at the end, else the level of the metric over the last steps."""
    control = ControlFolder(Path(row.control).parent)
    if bench.metric == EVAL:
        trained = [found for found in EvalFolder(control).ended() if found.kind in ("now", "checkpoint")]
        return next((found.mean for found in reversed(trained) if found.is_sound), None)
    try:
        (metric,) = compared_metrics([row], [SeriesReader(control.series)], [bench.metric])
    except UsageError:
        return None
    summary = metric.summaries[0]
    return summary.last if summary.level is None else summary.level.mean


def _queued(bench: Bench, run: BenchRun) -> BenchRun:
    """Put it into the queue, unless it is there. It stays `planned` where a limit refuses it for now, and has
    ended without a score where it is impossible.
    """
    trial = bench.trial_of(run)
    name = f"{bench.name}-{trial.number}" + (f"-s{run.seed}" if run.seed else "")
    edits = {bench.seed_key: str(bench.first_seed + run.seed)} if run.seed and bench.seed_key else {}
    is_repeat = bool(run.seed and trial.runs[0].run)
    if not is_repeat:
        edits = {**trial.edits, **edits}
    try:
        line = _request(bench, trial if is_repeat else bench.trials[trial.base], edits, name)
        request = QueueRequest(
            line,
            name=name,
            folder=Path(bench.folder, name),
            files=tuple(line.config.files),
            is_named=True,
            told=f"{trial.change}{f' seed {run.seed}' if run.seed else ''}",
            needs=(bench.options.gpus, bench.options.gpu_bytes),
            is_job=bench.options.is_job,
            id=run.entry,
            evals=(EvalRequest(num_examples=bench.examples, when_done=True),) if bench.examples else (),
        )
        with acting_as(trial.by):
            commands.add_to_queue([request], bench.options, group=bench.name, around=bench.surroundings)
    except (ConflictError, UsageError, ConfigError) as error:
        state: Literal["planned", "ended"] = "planned" if error.code in _PASSING else "ended"
        return run.replace(state=state, name=name, why=error.title)
    return run.replace(state="queued", name=name, why="")


def _request(bench: Bench, parent: BenchTrial, edits: Mapping[str, str], name: str) -> ExperimentRequest:
    """The request for a fork of the first run of a trial; before that has run, for the baseline."""
    if not parent.runs or not parent.runs[0].run:
        return replace(_with_edits(bench.request, edits), name=name, output_dir=Path(bench.folder, name))
    row = find_run(RunIndex(), parent.runs[0].run)
    record, folder, origin = catalog.record_of(row), Path(bench.folder, name), RunOrigin(parent=row.id)
    fork = request_like(record, name, folder, devices=None, origin=origin, edits=edits)
    return replace(fork, earlier_run="new")
