"""What can be said of an experiment of which nothing is alive: from its files alone."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from rltui.core import hints
from rltui.core.api import ComponentStatus, Orphan, Status
from rltui.core.batch import Way
from rltui.core.checkpoints import HIGHEST, NAMED, CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.config_report import Conversion, KnobTable
from rltui.core.failure_cause import FailurePattern
from rltui.core.forks import Checkpointed
from rltui.core.gpu.report import GpuReport
from rltui.core.layout import ComponentSpec
from rltui.core.metrics import MetricSeries
from rltui.core.states import ComponentState
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import ConfigFiles
from rltui.services import layout_files, processes
from rltui.services.config.editor import ConfigEditor
from rltui.services.config.files import load_snapshot
from rltui.services.config.measured import StepTimes, conversion
from rltui.services.config.models import informed
from rltui.services.config.store import ConfigStore
from rltui.services.logs.followed import FollowedLogs
from rltui.services.logs.links import links_in_journal
from rltui.services.metrics.sources import read_series
from rltui.services.own_files import FileLock
from rltui.services.processes import orphans
from rltui.services.runs.attempt_end import ended_life
from rltui.services.runs.checkpoints import CheckpointNews, CheckpointReader, delete, pruned_text, take_away
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.intent import IntentFile
from rltui.services.runs.journal import Journal, read_journal
from rltui.services.runs.observed import framework_of, is_growing, refuse_observed, title_of
from rltui.services.runs.run_folder import ARCHIVED_SERIES, named_step, run_folder_of


def open_store(record: ExperimentRecord) -> ConfigStore:
    layout = layout_files.load_for(record)
    framework = informed(framework_of(record), Path(record.workspace), [*map(Path, record.config_files)])
    series = functools.cache(functools.partial(_series, record))  # only if asked for, and once
    times = StepTimes(framework, ControlFolder(Path(record.output_dir)), series)
    return ConfigStore(
        [Path(name) for name in record.config_files],
        framework,
        components=[spec.id for spec in layout.automatic],
        launched=layout.launched,
        derive=times.derive,
        forced=record.forced,
    )


def offline_knobs(record: ExperimentRecord) -> KnobTable:
    """The knob table of a stopped experiment: its files as they are now, beside what it last ran with. Where
    they cannot be read any more, what it last ran with.

    Raises:
        ConfigError: if that cannot be read either.
    """
    framework, control = framework_of(record), ControlFolder(Path(record.output_dir))
    ran: dict[str, ConfigFiles] = {}
    copies: list[Path] = []
    for folder in control.newest_attempts():
        with contextlib.suppress(ConfigError):
            if files := load_snapshot(folder / "config", framework):
                ran[folder.parent.name] = files
                copies = copies or [Path(file.path) for file in files.values()]
    try:
        return open_store(record).knob_table(ran)
    except ConfigError:
        if not copies:
            raise
    return open_store(replace(record, config_files=tuple(map(str, copies)))).knob_table({})


def offline_editor(record: ExperimentRecord, store: ConfigStore) -> ConfigEditor:
    """Edits the files of `store`, and tells the journal itself: there is no supervisor that would. An edit
    that a killed one had begun is settled.
    """
    control = ControlFolder(Path(record.output_dir))
    journal = Journal(control.journal_file)
    editor = ConfigEditor(store, control, journal)
    editor.settle()
    return editor


def offline_conversion(record: ExperimentRecord, to: Way | None, mean_tokens: float | None) -> Conversion:
    """The batch counted the other way, by what its run measured where `mean_tokens` does not say.

    Raises:
        ConfigError: as `batch_conversion.conversion`.
    """
    refuse_observed(record)
    store = open_store(record)
    table = store.knob_table({})
    return conversion(
        framework_of(record), store.files, table, _series(record), to=to, mean_tokens=mean_tokens
    )


def _series(record: ExperimentRecord) -> MetricSeries:
    layout = layout_files.load_for(record)
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.look()
    return read_series(record, [spec.id for spec in layout.component], logs.paths)


def offline_status(record: ExperimentRecord) -> Status:
    framework = framework_of(record)
    layout = layout_files.load_for(record)
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.look()
    progress = _series(record).progress(_max_steps(record))
    components = [
        _last_known(spec, ControlFolder(Path(record.output_dir)), framework.failures)
        for spec in layout.component
        if not spec.is_manual
    ]
    return Status(
        done=_is_done(components, layout.run_jobs(framework.run_roles)),
        experiment=record.name,
        state="running" if record.observed and is_growing(logs.logs, time.time()) else "stopped",
        framework=framework.id,
        output_dir=record.output_dir,
        run_dir=record.run_dir,
        observed=record.observed,
        logs=logs.logs,
        step=progress.step,
        max_steps=progress.max_steps,
        reward=progress.reward,
        components=tuple(components),
        title=title_of(record, layout, framework),
        config_files=record.config_files,
        workspace=record.workspace,
        progress=progress,
        orphans=offline_orphans(record),
        links=links_in_journal(read_journal(ControlFolder(Path(record.output_dir)).journal_file)),
        down=IntentFile(ControlFolder(Path(record.output_dir)).intent_file).read().down,
    )


def _is_done(components: Sequence[ComponentStatus], run_jobs: Collection[str]) -> bool:
    """As the supervisor says it: every job of the run has ended well, and no service is in trouble."""
    jobs = [each for each in components if each.id in run_jobs]
    return (
        bool(jobs)
        and all(each.state is ComponentState.EXITED for each in jobs)
        and not any(each.state is ComponentState.FAILED for each in components if each.kind == "service")
    )


def offline_checkpoints(record: ExperimentRecord) -> CheckpointReport:
    reader, news = _checkpoints_of(record)
    return reader.report(record.name, news)


def checkpoint_step(record: ExperimentRecord, begin: Checkpointed) -> int:
    """The step that a person means: of the newest complete checkpoint, or of that with the highest reward.

    Raises:
        ConflictError: there is none, or no reward of any is known.
    """
    if isinstance(begin, int):
        return begin
    complete = offline_checkpoints(record).complete
    if not complete:
        raise ConflictError(
            f"{record.name} has no complete checkpoint",
            hint=f"{hints.CHECKPOINTS(name=record.name)} lists all",
        )
    if begin == "last":
        return complete[-1].step
    highest = next((each.step for each in complete if HIGHEST in each.notes), None)
    if highest is None:
        steps = ", ".join(str(each.step) for each in complete)
        raise ConflictError(
            f"which checkpoint of {record.name} is the best is not known", hint=f"say its step: {steps}"
        )
    return highest


def offline_prune(record: ExperimentRecord, retention: Retention, only: Collection[int]) -> PrunePlan:
    """Delete checkpoints of a stopped experiment, of those that a person was shown.

    Raises:
        ConflictError: if somebody starts it meanwhile.
        UsageError: if somebody else runs it.
        RltuiError: if one cannot be deleted.
    """
    refuse_observed(record)
    control = ControlFolder(Path(record.output_dir))
    lock = FileLock(control.lock_file)
    if not lock.take():
        raise ConflictError(f"{record.name} is being started", hint="ask again; nothing was deleted")
    try:
        plan = prune_plan(offline_checkpoints(record), retention, only)
        going = take_away(run_folder_of(record), plan)
        if not plan.is_empty:
            Journal(control.journal_file, clock=time.time, listener=lambda _: None).add(
                "prune", pruned_text(plan)
            )
        delete(going)
    finally:
        lock.release()
    return plan.model_copy(update={"done": True})


def bring_back(record: ExperimentRecord, name: str) -> Path | None:
    """Put back what a restart set aside, into the run of a stopped experiment. What the run has written since
    then is set aside in its turn: the folder of that, `None` where there is nothing.

    Raises:
        ConflictError: if somebody starts it meanwhile, or something else lies in the way.
        RltuiError: if it cannot be moved.
    """
    control, folder = ControlFolder(Path(record.output_dir)), run_folder_of(record)
    lock = FileLock(control.lock_file)
    if not lock.take():
        raise ConflictError(f"{record.name} is being started", hint="ask again; nothing was moved")
    try:
        moves = [each for each in read_journal(control.journal_file) if each.kind in ("resume", "restore")]
        move = next((each for each in moves if each.text.endswith(f"/{name}")), None)
        if move is None:
            hint = f"move it by hand: it lies in {folder.archive / name}"
            raise ConflictError(
                f"the journal does not say from where the run went on without {name}", hint=hint
            )
        aside = folder.bring_back(name, move.step)
        if move.step is None:  # with the curves of that run; where they are gone, they are made of its files
            _exchange_series(control, folder.archive / name / ARCHIVED_SERIES, aside)
        instead = f"; what was there instead is in {aside}" if aside else ""
        Journal(control.journal_file).add("restore", f"brought back {name}{instead}", step=move.step)
    finally:
        lock.release()
    return aside


def _exchange_series(control: ControlFolder, archived: Path, aside: Path | None) -> None:
    """Bring the series back that lie in `archived`; those of now go to `aside`."""
    if control.series.exists():
        away = aside or archived.parent.with_name(f"{archived.parent.name}-series")
        away.mkdir(parents=True, exist_ok=True)
        control.series.rename(away / ARCHIVED_SERIES)
    if archived.is_dir():
        archived.rename(control.series)
        with contextlib.suppress(OSError):
            archived.parent.rmdir()


def _checkpoints_of(record: ExperimentRecord) -> tuple[CheckpointReader, CheckpointNews]:
    framework, control = framework_of(record), ControlFolder(Path(record.output_dir))
    layout = layout_files.load_for(record)
    store, series = open_store(record), _series(record)
    named = None
    with contextlib.suppress(ConfigError):  # broken or gone: it names none
        named = named_step(framework, store.load())
    news = CheckpointNews(
        step=series.completed, max_steps=_max_steps(record), notes={} if named is None else {named: NAMED}
    )
    return CheckpointReader(run_folder_of(record), control, layout.run_jobs(framework.run_roles)), news


def offline_orphans(record: ExperimentRecord, gpus: GpuReport | None = None) -> tuple[Orphan, ...]:
    """What outlived the components of an experiment that has no supervisor, as it is now.

    Without `gpus`, a reading, the driver is asked if there is something to ask.
    """
    control = ControlFolder(Path(record.output_dir))
    layout = layout_files.load_for(record)
    leftovers = orphans.find_leftovers(record, control, [spec.id for spec in layout.component], living=())
    if not leftovers:
        return ()
    from rltui.services.gpu.sampling import (
        read_once,  # the driver is asked only where there is something to ask
    )

    return orphans.described(leftovers, gpus or read_once())


def _max_steps(record: ExperimentRecord) -> int | None:
    store = open_store(record)
    try:
        store.load()
    except ConfigError:
        return None  # the file is gone or broken; the rest of the status still holds
    return framework_of(record).max_steps(store.files)


def _last_known(
    spec: ComponentSpec, control: ControlFolder, patterns: Sequence[FailurePattern]
) -> ComponentStatus:
    attempts = control.attempts(spec.id)
    if not attempts:
        return ComponentStatus(id=spec.id, kind=spec.kind, prepares=bool(spec.creates))
    attempt = attempts[-1]
    record = processes.read_attempt(control.attempt_dir(spec.id, attempt))
    log = control.log_file(spec.id, attempt)
    life = ended_life(spec, record, log, patterns)
    return ComponentStatus(
        id=spec.id,
        kind=spec.kind,
        prepares=bool(spec.creates),
        state=life.state,
        reason=life.reason,
        attempt=attempt,
        exit_code=life.exit.code if life.exit else None,
        signal=life.exit.signal if life.exit else None,
        started_at=record.started_at if record is not None else None,
        log=str(log),
        out_of_memory=life.exit.memory if life.exit else None,
    )
