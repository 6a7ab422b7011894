"""All logs of an experiment: the output of each attempt of each component, and the files of the layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rltui.core.logs.source import LogEntry
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.logs.followed import FollowedLogs
from rltui.services.processes import read_attempt


def all_logs(record: ExperimentRecord) -> tuple[LogEntry, ...]:
    """The existing logs by start time; files of the layout come last."""
    control = record.control
    return (*sorted(_attempts(control), key=lambda entry: (entry.started_at, entry.attempt)), *_files(record))


def _attempts(control: ControlFolder) -> Iterator[LogEntry]:
    folder = control.path / "components"
    for name in sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else ():
        for attempt in control.attempts(name):
            path = control.log_file(name, attempt)
            if (started_at := _start_time(control.attempt_dir(name, attempt), path)) is not None:
                yield LogEntry(name, attempt, str(path), started_at)


def _start_time(folder: Path, log: Path) -> float | None:
    """Start of the attempt; `None` if it has printed nothing yet."""
    try:
        status = log.stat()
    except OSError:
        return None
    record = read_attempt(folder)
    return status.st_mtime if record is None else record.started_at


def _files(record: ExperimentRecord) -> Iterator[LogEntry]:
    from rltui.services.experiment import layout_files  # pydantic takes 60 ms

    logs = FollowedLogs(Path(record.run_dir), layout_files.load_for(record).log)
    logs.poll()
    for name, path in logs.paths.items():
        yield LogEntry(name, None, str(path), 0.0)
