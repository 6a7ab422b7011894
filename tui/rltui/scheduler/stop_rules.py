"""Rules that end a run early: `reward < 0.2 at 50`. Judged by its series, as they were at that step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rltui.base.text import did_you_mean, format_number
from rltui.core.logs.source import LogChange
from rltui.core.metrics.names import CONCEPTS
from rltui.core.metrics.series import NO_STEP, Rewind, Series, SeriesKey, SeriesSource
from rltui.core.runs.queue import QueueEntry, stop_rule
from rltui.core.runs.row import ID_LENGTH, RunId, RunRow
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.metrics.run_summary import RunSummary
from rltui.services.metrics.store import SeriesReader
from rltui.services.runs.observed import framework_of
from rltui.services.runs.query import QueryableRuns
from rltui.views.run_filter import RunFilter, parse_filter, run_query

_NO_RUN = RunId("0" * ID_LENGTH)
"""Row to evaluate a condition on; it is never saved."""
_EXAMPLE = "for example: 'reward < 0.2 at 50', 'kl > 10', 'eval.best < 0.3 at 200'"


def check_rule(text: str) -> None:
    """Refuse what could never end a run.

    Raises:
        UsageError: if it is no condition, or names something else than metrics of a run.
    """
    condition, step = stop_rule(text)
    run_filter = parse_filter(condition)
    if not run_filter.columns or not condition:
        raise UsageError(f"{text!r} is not a stop rule", hint=_EXAMPLE)
    for column in run_filter.columns:
        if column.of_config:
            guess = did_you_mean(column.id, [concept.id for concept in CONCEPTS])
            raise UsageError(f"{column.id} is not a metric", hint=f"{guess} {_EXAMPLE}".strip())
    if step == 0:
        raise UsageError(f"{text!r}: steps start at 1", hint=_EXAMPLE)


@dataclass
class StopRules:
    """Judges the rules of entries whose runs go on. For one thread."""

    _digests: dict[str, RunSummary] = field(default_factory=dict)
    """Entry id → summary of its whole run."""

    def broken(self, entry: QueueEntry, record: ExperimentRecord) -> str:
        """The broken rule, as the reason to end the run; empty where no rule is broken (yet)."""
        if not entry.stop_if:
            return ""
        folder, framework = record.control.series, framework_of(record)
        digest_of_run = self._digests.get(entry.id)
        if digest_of_run is None:
            digest_of_run = self._digests[entry.id] = RunSummary(SeriesReader(folder), framework)
        else:
            digest_of_run.poll()
        for rule in entry.stop_if:
            condition, step = stop_rule(rule)
            if digest_of_run.step is None or digest_of_run.step < (step or 1):
                continue
            last = None if step is None else step - 1 + framework.run.locations.first_step
            digest = (
                digest_of_run if last is None else RunSummary(_UpTo(SeriesReader(folder), last), framework)
            )
            if reason := _judged(parse_filter(condition), entry, digest):
                return f"stopped by the rule {rule!r}: {reason} at step {step or digest_of_run.step}"
        return ""


def _judged(condition: RunFilter, entry: QueueEntry, digest: RunSummary) -> str:
    """The figures, where the condition holds."""
    row = RunRow(id=_NO_RUN, created_at=entry.added_at, name=entry.name, folder=entry.folder)
    row = replace(row, metrics=digest.metrics, levels=digest.levels, step=digest.step)
    row = replace(row, state="running", group=entry.group)
    if not QueryableRuns().select(run_query(condition), [row]):
        return ""
    values = [(column.id, column.value(row, {})) for column in condition.columns]
    return ", ".join(
        f"{name} {format_number(value)}" for name, value in values if isinstance(value, float | int)
    )


@dataclass(frozen=True, slots=True)
class _UpTo:
    """The series of a run as if it had ended with a step."""

    source: SeriesSource
    last: int
    """Last step, by the framework's numbering."""

    def poll(self) -> LogChange:
        return self.source.poll()

    def keys(self) -> tuple[SeriesKey, ...]:
        return self.source.keys()

    def rewinds(self) -> tuple[Rewind, ...]:
        return self.source.rewinds()

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        self.source.prepare(keys)

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        series, cut = self.source.read(key, start), Series()
        for step, time, value in zip(series.steps, series.times, series.values, strict=True):
            if step == NO_STEP or step <= self.last:
                cut.add(step, time, value)
        return cut
