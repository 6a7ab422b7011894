"""Benches of this machine: made, given trials, advanced. Whoever advances one, the queue's scheduler or a
command, does what `core/runs/bench.py` decides; what was done already is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.text import join_words
from rltui.client import creation
from rltui.client.configured import configured
from rltui.client.draft import plan_record
from rltui.client.fork import request_like
from rltui.client.promote import Promotion, plan_promotion
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
    BenchTrial,
    Budget,
    advance,
)
from rltui.core.runs.compare import compared_metrics
from rltui.core.runs.evals import EvalRequest
from rltui.core.runs.queue import QueueEntry, QueueOptions, RunQueue
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
from rltui.services.runs.provenance import ProvenanceCollector
from rltui.services.runs.queue_file import read_queue
from rltui.services.runs.references import find_run


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """A bench as somebody wants it."""

    baseline: QueueRequest
    metric: str
    budget: Budget
    trials: tuple[tuple[Mapping[str, str], str], ...] = ()
    """The values of each trial, and the reason for it."""
    options: QueueOptions = QueueOptions()
    seeds: int = 3
    examples: int = 50
    """Of the evaluation at the end of a run, where that is the metric."""
    target: float | None = None
    patience: int = 0
    protected: tuple[Path, ...] = ()
    """Files and folders that no trial may change, besides those that the config names."""


def plan_bench(request: BenchRequest) -> Bench:
    """The bench that `start_bench` would make. Nothing is written.

    Raises:
        ConfigError: if the config breaks a rule, with a trial or without; names all trials that do.
        UsageError: if a protected file does not exist.
    """
    baseline, line = request.baseline, request.baseline.request
    with configured(line) as run:
        record, _ = plan_record(run)
        layout, framework, files = setup_of(record)
        collector = ProvenanceCollector(
            control=record.control.path,
            workspace=Path(record.workspace),
            output_dir=Path(record.output_dir),
            framework=framework,
            layout=layout,
            config_files=record.config_paths,
        )
        protected = (*collector.judging_files(files), *(path.absolute() for path in request.protected))
        knobs = {knob.name: knob for knob in framework.config.knobs(files)}
        seed_key = next((key for key in framework.run.seed_keys if key in knobs), "")
        seed = framework.config.values_of([knobs[seed_key]], files)[seed_key] if seed_key else None
    prints = {str(path): content_print(path) for path in protected}
    if missing := [path for path, content in prints.items() if not content]:
        raise UsageError(f"file not found: {join_words(missing)}", hint="check --protect")
    _refuse_invalid(line, [edits for edits, _ in request.trials], seed_key)
    concept = concept_of("eval" if request.metric == EVAL else request.metric)
    is_lower = concept is not None and concept.better == "lower"
    by = actor()
    return Bench(
        id=commands.new_id(),
        name=baseline.name,
        at=time.time(),
        by=by,
        request=replace(line, earlier_run="new", config=replace(line.config, is_copied=True)),
        folder=str(baseline.folder.parent / baseline.name),
        surroundings=commands.launch_environment(),
        options=request.options.replace(
            gpus=request.options.gpus or baseline.needs[0],
            gpu_bytes=baseline.needs[1],
            is_job=baseline.is_job,
        ),
        metric=request.metric,
        examples=request.examples if request.metric == EVAL else 0,
        better="lower" if is_lower else "higher",
        seeds=request.seeds,
        seed_key=seed_key,
        first_seed=seed if isinstance(seed, int) else 0,
        budget=request.budget,
        target=request.target,
        patience=request.patience,
        files={path: content.partition("@")[0] for path, content in prints.items()},
        trials=(
            BenchTrial(number=0, by=by),
            *(
                BenchTrial(number=number, edits=dict(edits), reason=reason, by=by)
                for number, (edits, reason) in enumerate(request.trials, start=1)
            ),
        ),
    )


def _refuse_invalid(
    line: ExperimentRequest, edits_of_trials: Iterable[Mapping[str, str]], seed_key: str
) -> None:
    problems = []
    for edits in edits_of_trials:
        change = " ".join(f"{key}={value}" for key, value in edits.items())
        if seed_key in edits:
            problems.append(f"{change}: the bench sets the seed itself")
        try:
            with configured(_with_edits(line, edits)) as run:
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


def add_trial(name: str, edits: Mapping[str, str], *, reason: str = "") -> BenchTrial:
    """Add a trial behind the others; it runs when those are over.

    Raises:
        UsageError: if there is no such bench, no change, or whoever asks may not.
        ConflictError: if the bench has ended, or its budget is spoken for.
        ConfigError: if the config breaks a rule with it.
    """
    bench = bench_file.read_bench(name)
    if not edits:
        raise UsageError("a trial needs a change", hint=hints.BENCH_TRY(name=name))
    _refuse_invalid(_parent_request(bench.trials[bench.best]) or bench.request, [edits], bench.seed_key)
    require(Act("queue", name), can_wait=True)
    by = actor()

    def added(now: Bench) -> Bench:
        if now.ended:
            raise ConflictError(f"the bench {name} has ended: {now.ended}")
        most = now.budget.trials
        if most is not None and len(now.trials) > most:
            raise ConflictError(f"the bench {name} has {most} trials, which is its budget")
        if any(trial.edits == edits and trial.base == now.best for trial in now.trials[1:] if trial.is_over):
            raise ConflictError(f"the bench {name} has tried that already")
        return now.with_trial(BenchTrial(number=len(now.trials), edits=dict(edits), reason=reason, by=by))

    trial = bench_file.change_bench(name, added).trials[-1]
    return advance_bench(name).trials[trial.number]


def stop_bench(name: str, reason: str = "") -> Bench:
    """End it: waiting trials are not run, queued runs are removed; a run that has started continues, and does
    not count.

    Raises:
        UsageError: if there is no such bench, or whoever asks may not.
        ConflictError: if it has ended.
    """
    by = bench_file.read_bench(name).by
    require(Act("queue", name), can_wait=(by.kind, by.name) == (actor().kind, actor().name))
    words = f"stopped by {actor().text}" + (f": {reason}" if reason else "")

    def stopped(bench: Bench) -> Bench:
        if bench.ended:
            raise ConflictError(f"the bench {name} has ended: {bench.ended}")
        for trial in bench.trials:
            if not trial.is_over:
                bench = bench.with_trial(trial.replace(state="void", why=words))
        return bench.replace(ended=words, ended_at=time.time())

    bench = bench_file.change_bench(name, stopped)
    queue = read_queue()
    queued = (queue.entry(run.entry) for run in bench.runs)
    if waiting := [entry.id for entry in queued if entry is not None and entry.state == "queued"]:
        with suppress(RltuiError):  # one has started meanwhile
            commands.remove(waiting)
    return bench


def promotion(name: str) -> Promotion:
    """The edit that writes the changes of the best trial into the user's files, which `promote` can undo.

    Raises:
        ConflictError: if no trial was kept.
    """
    bench = bench_file.read_bench(name)
    if not bench.best:
        raise ConflictError(f"no trial of {name} was kept", hint=f"see {hints.BENCH_SHOW(name=name)}")
    return plan_promotion(find_run(RunIndex(), bench.trials[bench.best].runs[0].run))


# --- advancing --------------------------------------------------------------------------------------------


def advance_all(queue: RunQueue) -> bool:
    """Advance every bench of which a run has ended, or is not queued yet. True if anything was done."""
    is_changed = False
    for bench in bench_file.read_benches():
        if not bench.ended and any(_is_due(run, queue) for run in bench.runs):
            advance_bench(bench.name)
            is_changed = True
    return is_changed


def _is_due(run: BenchRun, queue: RunQueue) -> bool:
    entry = queue.entry(run.entry)
    return run.state == "planned" or (run.state == "queued" and (entry is None or not entry.is_open))


def advance_bench(name: str) -> Bench:
    """Do what is to be done now, and return the bench after that.

    Raises:
        UsageError: if there is none of that name.
        RltuiError: if it or the queue cannot be read or written.
    """

    def advanced(bench: Bench) -> Bench:
        bench = advance(bench, _facts(bench))
        planned = [run for run in bench.runs if run.state == "planned"]
        for run in planned:
            bench = bench.with_run(_queued(bench, run))
        # one that cannot be queued has ended by that
        return advanced(bench) if any(run.state == "ended" for run in bench.runs if run in planned) else bench

    return bench_file.change_bench(name, advanced)


def _facts(bench: Bench) -> BenchFacts:
    queue, index = read_queue(), RunIndex()
    try:
        ended = {
            run.entry: result
            for run in bench.runs
            if run.state == "queued" and (result := _result(bench, run, queue.entry(run.entry), index))
        }
    finally:
        index.close()
    files = {path: content_print(Path(path)) for path in bench.files}
    return BenchFacts(now=time.time(), ended=ended, files=files)


def _result(bench: Bench, run: BenchRun, entry: QueueEntry | None, index: RunIndex) -> BenchRun | None:
    """The run with its score, or without one; `None` while it goes on."""
    if entry is None:
        return run.replace(state="ended", why="its entry was removed from the queue")
    if entry.is_open:
        return None
    catalog.read_folders(index, [Path(entry.folder)])
    row = index.in_folder(entry.folder)
    wall_s = (entry.ended_at or 0.0) - (entry.started_at or entry.ended_at or 0.0)
    run = run.replace(state="ended", wall_s=max(wall_s, 0.0), run=entry.run)
    if row is not None:
        run = run.replace(gpu_s=row.gpu_seconds, steps=row.step or 0, run=row.id)
    if entry.state != "done" or row is None:
        return run.replace(why=f"{entry.state}: {entry.why or entry.failure}".rstrip(": "))
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
    """Put it into the queue, unless it is there; where that is impossible, it has ended without a score."""
    trial = bench.trial_of(run)
    seed = "" if run.seed == 0 else f"-s{run.seed}"
    name = f"{bench.name}-{trial.number}{seed}"
    edits = {bench.seed_key: str(bench.first_seed + run.seed)} if run.seed and bench.seed_key else {}
    is_repeat = bool(run.seed and trial.runs[0].run)
    if not is_repeat:
        edits = {**trial.edits, **edits}
    try:
        parent = _parent_request(trial if is_repeat else bench.trials[trial.base])
        line = replace(
            _with_edits(parent or bench.request, edits), name=name, output_dir=Path(bench.folder) / name
        )
        request = QueueRequest(
            line,
            name=name,
            folder=Path(bench.folder) / name,
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
        return run.replace(state="ended", name=name, why=error.title)
    return run.replace(state="queued", name=name)


def _parent_request(trial: BenchTrial) -> ExperimentRequest | None:
    """The request for a fork of the first run of a trial; `None` before that has run."""
    if not trial.runs or not trial.runs[0].run:
        return None
    row = find_run(RunIndex(), trial.runs[0].run)
    record = catalog.record_of(row)
    folder = Path(row.folder).with_name(f"{row.name}-next")  # until it has a place in the bench
    return request_like(record, folder.name, folder, devices=None, origin=RunOrigin(parent=row.id))
