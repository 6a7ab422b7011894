"""Answers questions about an experiment from its files alone, where no supervisor runs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rltui.client.last_status import fingerprint, save_status
from rltui.core import hints
from rltui.core.config.report import BatchUnit, Conversion, KnobTable
from rltui.core.experiment.api import Orphan, Status
from rltui.core.experiment.description import RunDescription
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.layout import Layout
from rltui.core.experiment.rights import Act
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.core.metrics.progress import MetricSeries
from rltui.core.runs.checkpoints import HIGHEST, NAMED, CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.runs.evals import EvalReport, training_evals
from rltui.core.runs.forks import CheckpointChoice
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import read_snapshot
from rltui.services.config.history import EditHistory
from rltui.services.config.models import informed
from rltui.services.config.step_times import StepTimes, conversion
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.journal import journal_of, read_journal
from rltui.services.experiment.recorded_config import last_max_steps
from rltui.services.experiment.rights import require
from rltui.services.experiment.verdict import read_last_known, status_of, with_queue
from rltui.services.logs.followed import FollowedLogs
from rltui.services.logs.links import links_in_journal
from rltui.services.metrics.sources import read_series
from rltui.services.own_files import FileLock
from rltui.services.processes import orphans
from rltui.services.runs.checkpoints import (
    CheckpointContext,
    CheckpointReader,
    delete,
    pruned_text,
    take_away,
)
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.folder import ARCHIVED_SERIES, run_folder_of
from rltui.services.runs.observed import framework_of, refuse_observed
from rltui.services.runs.queue_states import status_beside_queue
from rltui.services.runs.resume import named_step


class ExperimentReader:
    """Answers questions of `ExperimentApi` from the files of an experiment as they are now, blocking.

    Made for one question, or for several about the same moment.
    """

    def __init__(self, record: ExperimentRecord) -> None:
        self.record = record
        self._control = record.control

    @cached_property
    def _layout(self) -> Layout:
        return layout_files.load_for(self.record)

    @cached_property
    def _framework(self) -> Framework:
        return framework_of(self.record)

    @cached_property
    def _logs(self) -> FollowedLogs:
        logs = FollowedLogs(Path(self.record.run_dir), self._layout.log)
        logs.poll()
        return logs

    @cached_property
    def _series(self) -> MetricSeries:
        return read_series(self.record, [spec.id for spec in self._layout.component], self._logs.paths)

    # --- config ---------------------------------------------------------------------------------------------

    def document(self) -> ConfigDocument:
        return self._document(None)

    def document_to_edit(self) -> ConfigDocument:
        """The document with its history; without a supervisor, an edit is written into the journal here. An
        edit that a killed supervisor had begun is settled.
        """
        history = EditHistory(self._control, journal_of(self.record))
        history.reconcile()
        return self._document(history)

    def _document(self, history: EditHistory | None) -> ConfigDocument:
        record, layout = self.record, self._layout
        paths = record.config_paths
        framework = informed(framework_of(record), Path(record.workspace), paths)
        times = StepTimes(framework, self._control, lambda: self._series)
        return ConfigDocument(
            paths,
            framework,
            components=[spec.id for spec in layout.automatic],
            launched=layout.launched,
            derive=times.derive,
            forced=record.forced,
            recorded=True,
            history=history,
        )

    def knobs(self) -> KnobTable:
        """The files as they are now, beside what it last ran with. Where they cannot be read any more, what
        it last ran with.

        Raises:
            ConfigError: if that cannot be read either.
        """
        ran: dict[str, ConfigFiles] = {}
        copies: list[Path] = []
        for folder in self._control.newest_attempts():
            with contextlib.suppress(ConfigError):
                if files := read_snapshot(folder, self._framework):
                    ran[folder.parent.name] = files
                    copies = copies or [Path(file.path) for file in files.values()]
        try:
            return self.document().knob_table(ran)
        except ConfigError:
            if not copies:
                raise
        last = ExperimentReader(replace(self.record, config_files=tuple(map(str, copies))))
        return last.document().knob_table({})

    def convert(self, to: BatchUnit | None = None, mean_tokens: float | None = None) -> Conversion:
        """The batch counted the other way, by what its run measured where `mean_tokens` does not say.

        Raises:
            ConfigError: as `step_times.conversion`.
        """
        refuse_observed(self.record)
        document = self.document()
        table = document.knob_table({})
        return conversion(
            self._framework, document.files, table, self._series, to=to, mean_tokens=mean_tokens
        )

    @cached_property
    def _run_jobs(self) -> frozenset[str]:
        return self._layout.run_jobs(self._framework.run_roles)

    def _max_steps(self) -> int | None:
        return last_max_steps(self.record, self._framework, self._run_jobs)

    def describe(self) -> RunDescription:
        from rltui.services.experiment.description import RunDescriber  # only who asks for it waits

        knobs, files = KnobTable(), None
        with contextlib.suppress(ConfigError):
            knobs = self.knobs()
        document = self.document()
        with contextlib.suppress(ConfigError):
            files = document.load()
        run = RunDescriber(self.record, self._layout, self._framework, files, knobs).run()
        return run.replace(step=self._series.completed, served=self._series.served)

    # --- status ---------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """The status; of a run of which nothing lives, with what the queue says of it."""
        return with_queue(self.record, self._own_status())

    def _own_status(self) -> Status:
        """The status by its files alone."""
        record, layout, framework, logs = self.record, self._layout, self._framework, self._logs.logs
        progress = self._series.progress(self._max_steps())
        known = read_last_known(record, layout, framework, logs)
        return status_of(
            record,
            layout,
            framework,
            components=known.components,
            is_alive=known.is_alive,
            down=known.down,
            progress=progress,
            logs=logs,
            orphans=self.orphans(),
            links=links_in_journal(read_journal(self._control.journal_file)),
        )

    def status_document(self) -> dict[str, Any]:
        """The status as JSON, which is saved beside the experiment without what the queue says of it."""
        sources, own_status = fingerprint(self.record), self._own_status()
        status: dict[str, Any] = own_status.to_plain()
        save_status(self.record, status, sources)
        return status if own_status.alive else status_beside_queue(self.record, status)

    def orphans(self, gpus: GpuReport | None = None) -> tuple[Orphan, ...]:
        """Processes that outlived the components, as of now.

        Without `gpus`, a reading, the driver is asked only if there are any.
        """
        names = [spec.id for spec in self._layout.component]
        leftovers = orphans.find_leftovers(self.record, self._control, names, living=())
        if not leftovers:
            return ()
        from rltui.services.gpu.account import read_once  # only where there is something to ask

        return orphans.described(leftovers, gpus or read_once())

    def gpus(self) -> GpuReport:
        return GpuReport(available=False, reason="this run is not running")

    def gpu_history(self) -> GpuHistories:
        return GpuHistories()

    # --- journal, evaluations -------------------------------------------------------------------------------

    def note(self, text: str) -> JournalEntry:
        return journal_of(self.record).note(text)

    def evals(self) -> EvalReport:
        report = EvalFolder(self._control).report(self.record.name)
        return report.replace(training=training_evals(self._series.steps))

    # --- checkpoints ----------------------------------------------------------------------------------------

    def checkpoints(self) -> CheckpointReport:
        framework = self._framework
        document, series = self.document(), self._series
        config_step = None
        with contextlib.suppress(ConfigError):  # broken or gone: it names none
            config_step = named_step(framework, document.load())
        context = CheckpointContext(
            step=series.completed,
            max_steps=self._max_steps(),
            notes={} if config_step is None else {config_step: NAMED},
        )
        return CheckpointReader(run_folder_of(self.record), self._control, self._run_jobs).report(
            self.record.name, context
        )

    def checkpoint_step(self, begin: CheckpointChoice) -> int:
        """The step that a person means: of the newest complete checkpoint, or of that with the best reward.

        Raises:
            ConflictError: there is none, or no reward of any is known.
        """
        if isinstance(begin, int):
            return begin
        name, complete = self.record.name, self.checkpoints().complete
        if not complete:
            raise ConflictError(
                f"{name} has no complete checkpoint", hint=f"{hints.CHECKPOINTS(name=name)} lists all"
            )
        if begin == "last":
            return complete[-1].step
        highest = next((checkpoint.step for checkpoint in complete if HIGHEST in checkpoint.notes), None)
        if highest is None:
            steps = ", ".join(str(checkpoint.step) for checkpoint in complete)
            raise ConflictError(f"the best checkpoint of {name} is unknown", hint=f"give its step: {steps}")
        return highest

    def plan_prune(self, retention: Retention) -> PrunePlan:
        return prune_plan(self.checkpoints(), retention)

    def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        """Delete checkpoints of a stopped experiment, of those that a person was shown.

        Raises:
            ConflictError: if somebody starts it meanwhile.
            UsageError: if somebody else runs it.
            RltuiError: if one cannot be deleted.
        """
        refuse_observed(self.record)
        require(Act("prune-checkpoints", self.record.name), control=self._control.path)
        with self._stays_stopped("nothing was deleted"):
            plan = prune_plan(self.checkpoints(), retention, only)
            removed = take_away(run_folder_of(self.record), plan)
            if not plan.is_empty:
                journal_of(self.record).add("prune", pruned_text(plan))
            delete(removed)
        return plan.replace(done=True)

    def bring_back(self, name: str) -> Path | None:
        """Put back what a restart set aside, into the run of a stopped experiment. What the run has written
        since then is set aside in its turn: the folder of that, `None` where there is nothing.

        Raises:
            ConflictError: if somebody starts it meanwhile, or something else lies in the way.
            RltuiError: if it cannot be moved.
        """
        control, folder = self._control, run_folder_of(self.record)
        require(Act("restore-checkpoints", self.record.name), control=control.path)
        with self._stays_stopped("nothing was moved"):
            moves = [
                entry for entry in read_journal(control.journal_file) if entry.kind in ("resume", "restore")
            ]
            move = next((entry for entry in moves if entry.text.endswith(f"/{name}")), None)
            if move is None:
                hint = f"move the files by hand from {folder.archive / name}"
                raise ConflictError(f"the journal has no resume that set {name} aside", hint=hint)
            aside = folder.bring_back(name, move.step)
            if move.step is None:
                # with the curves of that run; where they are gone, they are made of its files
                _exchange_series(control, folder.archive / name / ARCHIVED_SERIES, aside)
            instead = f"; the files it replaced are in {aside}" if aside else ""
            journal_of(self.record).add("restore", f"restored {name}{instead}", step=move.step)
        return aside

    @contextlib.contextmanager
    def _stays_stopped(self, outcome: str) -> Iterator[None]:
        """Hold the lock of a supervisor. `outcome`: what was not done, in words, where one is just starting.

        Raises:
            ConflictError: if somebody starts it.
        """
        busy = ConflictError(f"{self.record.name} is starting", hint=f"{outcome}; try again")
        with FileLock(self._control.lock_file).hold(busy):
            yield


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
