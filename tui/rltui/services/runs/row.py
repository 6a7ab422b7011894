"""Builds the index row of one run from its files alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from rltui import paths
from rltui.base.secrets import mask_value
from rltui.base.toml.values import same_value
from rltui.core.config.data import value_at
from rltui.core.config.knobs import Knob
from rltui.core.experiment.api import FollowedLog
from rltui.core.runs.row import RunMetadata, RunRow
from rltui.core.runs.state import Verdict
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, as_passed
from rltui.frameworks.plain_knobs import other_knobs
from rltui.services.config import origins
from rltui.services.config.config_file import parse_file
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.recorded_config import last_max_steps, last_run_files, save_config_files
from rltui.services.experiment.verdict import read_last_known, verdict
from rltui.services.gpu.cuda import VISIBLE_DEVICES
from rltui.services.logs.followed import FollowedLogs
from rltui.services.metrics.run_summary import RunSummary
from rltui.services.metrics.sources import fill_series_store
from rltui.services.metrics.store import SeriesReader
from rltui.services.own_files import read_own
from rltui.services.processes import AttemptRecord, read_attempt
from rltui.services.runs.evaluations import read_results
from rltui.services.runs.folder import run_folder_of
from rltui.services.runs.observed import framework_of, holds_results, written_config
from rltui.services.runs.provenance import latest

_LONGEST_REASON = 300
_FOLDER_KEY = "output_dir"
"""A key in which two runs always differ."""


class RunReader:
    """Reads one run, repeatedly while it lives. Blocking, for one thread."""

    def __init__(self, record: ExperimentRecord) -> None:
        """Raises RltuiError if its layout or its framework cannot be read any more."""
        self._record = record
        self._control = record.control
        self._framework = framework_of(record)
        self._layout = layout_files.load_for(record)
        self._folder = run_folder_of(record)
        self._jobs = self._layout.run_jobs(self._framework.run_roles)
        self.summary = RunSummary(SeriesReader(self._control.series), self._framework)
        self.read_config()

    def read_config(self) -> None:
        """Read again the config that it was last started with."""
        self._files = last_run_files(self._record, self._framework, self._jobs)
        if self._record.observed:
            self.config = _plain(written_config(Path(self._record.run_dir), self._framework.run.locations))
        else:
            self.config = self._flat(self._files)
        self._config_files = save_config_files(self._files, self._record, self._framework)

    def sources(self) -> tuple[Path, ...]:
        """Paths that the row depends on, besides rltui's own files of the run."""
        folder = Path(self._record.run_dir)
        watched = (folder, folder / "logs", self._folder.path / self._folder.files.checkpoints)
        return (*watched, *self._folder.metrics[:1]) if self._record.observed else (watched[0], watched[2])

    def row(
        self,
        metadata: RunMetadata,
        *,
        parent: Mapping[str, Any] | None = None,
        before: RunRow | None = None,
        reported: Verdict | None = None,
    ) -> RunRow:
        """The current row.

        `parent`: the flat config of the run that it was forked from. `before`: the last index row; expensive
        fields are reused. `reported`: the state according to a supervisor of which something lives; `None`:
        the files tell it.
        """
        record, attempts = self._record, [*self._attempts()]
        is_evaluation = record.observed and holds_results(Path(record.run_dir))
        if reported is None and not is_evaluation:
            fill_series_store(record, self._framework, self._layout, self._folder)
        self.summary.poll()
        max_steps = last_max_steps(record, self._framework, self._jobs, self._files)
        alive = reported is not None
        if reported is None:
            logs = self._logs() if record.observed else ()
            known = read_last_known(record, self._layout, self._framework, logs)
            alive, reported = (
                known.is_alive,
                verdict(
                    record,
                    known.components,
                    is_alive=known.is_alive,
                    step=self.summary.step,
                    max_steps=max_steps,
                    down=known.down,
                ),
            )
        metrics = self.summary.metrics
        if is_evaluation:
            mean = read_results(Path(record.run_dir))[0].mean
            metrics = {} if mean is None else {"eval": (mean, mean), "reward": (mean, mean)}
        started = latest(self._control.path)
        manual = {spec.id for spec in self._layout.component if spec.is_manual}
        own_attempts = [attempt for attempt in attempts if attempt.component not in manual]
        spans = [(attempt.begin, attempt.end) for attempt in own_attempts] or [
            *self._observed_spans(is_evaluation)
        ]
        return RunRow(
            **asdict(metadata),
            name=record.name,
            folder=record.run_dir if record.observed else record.output_dir,
            control=str(self._control.path),
            run_dir=record.run_dir,
            observed=record.observed,
            kind="evaluation" if is_evaluation else "run",
            framework=record.framework,
            generation=self._framework.generation_title,
            state=reported.state,
            reason=replace(reported.reason, text=reported.reason.text[:_LONGEST_REASON]),
            is_alive=alive,
            started_at=min((begin for begin, _ in spans), default=None),
            ended_at=None if alive else max((end for _, end in spans), default=None),
            seconds=_union_seconds(spans),
            gpu_seconds=sum((attempt.end - attempt.begin) * attempt.devices for attempt in attempts),
            attempts=max((attempt.number for attempt in own_attempts), default=0),
            step=self.summary.step,
            max_steps=max_steps,
            metrics=metrics,
            levels={} if is_evaluation else self.summary.levels,
            sparkline=self.summary.sparkline,
            checkpoints=tuple(sorted(self._folder.checkpoint_folders())),
            changed=self._changed_values(parent),
            configs=self._config_files,
            commit=started.commit if started is not None else "",
            is_dirty=started is not None and started.is_dirty,
            versions=dict(started.versions) if started is not None else {},
            host=started.host if started is not None else "",
            gpus=tuple(started.gpus) if started is not None else (),
            disk_bytes=before.disk_bytes if before is not None else None,
        )

    # --- its attempts -------------------------------------------------------------------------------------

    def _attempts(self) -> Iterator[_PastAttempt]:
        for name in self._control.components():
            for number in self._control.attempts(name):
                path = self._control.attempt_dir(name, number)
                if (record := read_attempt(path)) is not None:
                    yield _PastAttempt(name, number, record, _attempt_end(path, record), _devices(path))

    def _observed_spans(self, is_evaluation: bool) -> Iterator[tuple[float, float]]:
        """Time spans of another user's run, as far as its files show them."""
        if not self._record.observed:
            return
        if self.summary.span is not None:
            yield self.summary.span
        ends = [log.changed_at for log in self._logs() if log.changed_at is not None]
        if is_evaluation:
            with suppress(OSError):
                ends.append(Path(self._record.run_dir).stat().st_mtime)
        if ends:
            yield max(ends), max(ends)

    def _logs(self) -> tuple[FollowedLog, ...]:
        logs = FollowedLogs(Path(self._record.run_dir), self._layout.log)
        logs.poll()
        return logs.logs

    # --- its config ---------------------------------------------------------------------------------------

    def _changed_values(self, parent: Mapping[str, Any] | None) -> dict[str, tuple[Any, Any]]:
        """Config key → values that differ: from the parent's, else from those of the files that its run
        config was made of, else from the defaults.
        """
        base = parent if parent is not None else self._original_config()
        if base is None:
            pairs = _diff_with_defaults(self._framework, self._files)
        else:
            pairs = {key: (base.get(key), self.config.get(key)) for key in {**base, **self.config}}
        return {
            key: (old, new)
            for key, (old, new) in pairs.items()
            if not same_value(old, new) and key.rpartition(".")[2] != _FOLDER_KEY
        }

    def _original_config(self) -> Mapping[str, Any] | None:
        """The first content of its run config; `None` if it has none."""
        files: dict[str, ConfigFile] = {}
        for path in self._record.config_paths:
            if (original := origins.origin(path)) is not None:
                with suppress(ConfigError):
                    file = parse_file(path, original.text.encode())
                    role = self._framework.config.role(file.path, file.data) or path.stem
                    files[role] = replace(file, role=role)
        return self._flat(files) if files else None

    def _flat(self, files: ConfigFiles) -> dict[str, Any]:
        """The config with the options of launchers, without values that rltui chose, such as a free port."""
        written = _flat(self._framework, files)
        is_passed = any(file.passed for file in files.values())
        config = _flat(self._framework, as_passed(files)) if is_passed else dict(written)
        for key in (*self._record.overrides, *self._framework.run.resume_keys):
            config.pop(key, None)
            if key in written:
                config[key] = written[key]
        return config


@dataclass(frozen=True, slots=True)
class _PastAttempt:
    component: str
    number: int
    record: AttemptRecord
    end: float
    """The current time, while it runs."""
    devices: int
    """Number of assigned devices, 0 if unknown."""

    @property
    def begin(self) -> float:
        return self.record.started_at


def _attempt_end(folder: Path, record: AttemptRecord) -> float:
    if record.ended_at is not None:
        return max(record.started_at, record.ended_at)
    if record.is_alive:
        return max(record.started_at, time.time())
    times = [record.started_at]
    for name in (paths.ATTEMPT_RECORD, paths.ATTEMPT_LOG):
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times)


def _devices(folder: Path) -> int:
    try:
        spec = orjson.loads(read_own(folder / paths.ATTEMPT_SPEC))
        choice = spec["env"].get(VISIBLE_DEVICES) or (spec.get("gpus") or {}).get("text") or ""
        return len([device for device in str(choice).split(",") if device.strip()])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0


def _union_seconds(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds that are in at least one of the spans."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _flat(framework: Framework, files: ConfigFiles) -> dict[str, Any]:
    """Knob name → value that the files set, or the default for a main knob."""
    return _plain(
        {
            knob.name: default if value is None and knob.main else value
            for knob, value, default in _knob_values(framework, files)
        }
    )


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as JSON has it, with secrets masked and without keys that are not set: TOML has dates, and
    larger numbers.
    """
    values = {key: mask_value(key, value) for key, value in config.items() if value is not None}
    try:
        text = orjson.dumps(values, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # more than 64 bits
        text = orjson.dumps({key: str(value) for key, value in values.items()})
    document: dict[str, Any] = orjson.loads(text)
    return document


def _diff_with_defaults(framework: Framework, files: ConfigFiles) -> dict[str, tuple[Any, Any]]:
    pairs = {knob.name: (value, default) for knob, value, default in _knob_values(framework, files)}
    values = _plain({name: value for name, (value, _) in pairs.items()})
    defaults = _plain({name: pairs[name][1] for name in values})
    return {name: (defaults.get(name), value) for name, value in values.items()}


def _knob_values(framework: Framework, files: ConfigFiles) -> Iterator[tuple[Knob, Any, Any]]:
    """Each knob with the value in the files, and its default; `None` if there is none."""
    if not files:
        return
    knobs, defaults = framework.config.knobs(files), framework.config.defaults(files)
    for knob in (*knobs, *other_knobs(files, knobs)):
        set_value = value_at(files[knob.file].data, knob.key) if knob.file in files else None
        yield knob, set_value, defaults.get(knob.name, knob.default)
