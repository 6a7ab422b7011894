"""The metric rows of a run: from its metrics file, and from what its components print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rltui.core.lines import decode_line, plain_text
from rltui.core.metrics import MetricSeries
from rltui.frameworks.base import Framework
from rltui.services import layout_files
from rltui.services.logs.followed import FollowedLogs
from rltui.services.logs.growing_file import AppendedLines, JsonLines, marked_lines
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.journal import read_journal
from rltui.services.runs.observed import framework_of
from rltui.services.runs.run_folder import RunFolder, run_folder_of

READ_BYTES = 8 * 1024 * 1024
"""Most that is read of a log at a time."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""What lies further back in a log that is found, or that grows faster than it is read, is passed over."""
LINE_BYTES = 64 * 1024
"""Of a line, what is kept of it while it is unfinished, and what is read of it at most."""

_PIECE_BYTES = 1 << 20
"""Read of a metrics file at a time: bounds the memory that a long run takes."""
_REMEMBERED_ROWS = 4096
"""Printed rows that are known again when they come from another log."""
_EARLIER_ATTEMPTS = 5
"""Attempts of a component, before its newest, whose output is read."""

Row = Mapping[str, Any]


class LogMetrics:
    """Rows out of the lines that were appended to logs since the last look.

    A log that was truncated or replaced is read from its start, and so is the next attempt's.
    """

    def __init__(
        self, log_row: Callable[[str, str], Row | None], marks: Sequence[str], *, redraws: bool = False
    ) -> None:
        """`log_row`, `marks` and `redraws` as in `Framework`."""
        self._log_row = log_row
        self._folded = not redraws
        self._marks = [mark.encode() for mark in marks]
        self._followed: dict[str, AppendedLines] = {}

        self.restarted = False
        """The last `read` found the next attempt's log, or one that starts anew: steps may come again."""

    def read(self, logs: Mapping[str, Path]) -> list[Row]:
        """The new rows, oldest first within each log. `logs`: component → its present output."""
        rows: list[Row] = []
        self.restarted = False
        for component, path in logs.items():
            followed = self._followed.get(component)
            if followed is not None and followed.path != path:
                rows.extend(self._rows(component, followed))
                followed.close()
                followed, self.restarted = None, True
            if followed is None:
                followed = self._followed[component] = _followed(path)
            rows.extend(self._rows(component, followed))
        for component in self._followed.keys() - logs.keys():
            self._followed.pop(component).close()
        return rows

    @property
    def behind(self) -> bool:
        """There is more to read at once, as of the last `read`."""
        return any(followed.behind for followed in self._followed.values())

    def read_whole(self, component: str, path: Path) -> list[Row]:
        """All rows of the log of an earlier attempt, oldest first."""
        followed = _followed(path)
        rows: list[Row] = []
        while followed.behind:
            rows.extend(self._rows(component, followed))
        followed.close()
        return rows

    def _rows(self, component: str, followed: AppendedLines) -> Iterator[Row]:
        data = followed.read()
        self.restarted |= followed.restarted
        for _, line in marked_lines(data, self._marks):
            try:
                row = self._log_row(
                    component, plain_text(decode_line(line[:LINE_BYTES].rstrip(b"\r\n"), folded=self._folded))
                )
            except ValueError:  # a number with more digits than Python reads
                continue
            if row is not None:
                yield row


def _followed(path: Path) -> AppendedLines:
    return AppendedLines(path, most_bytes=READ_BYTES, line_bytes=LINE_BYTES, backlog_bytes=BACKLOG_BYTES)


class RunMetrics:
    """New rows when asked for. What the file says goes before what was printed, which is rounded."""

    def __init__(
        self,
        places: Sequence[Path],
        framework: Framework,
        *,
        logs: Callable[[], Mapping[str, Path]] = dict,
        earlier_logs: Callable[[], Sequence[tuple[str, Path]]] = tuple,
    ) -> None:
        """`places`: as `RunFolder.metrics`. `logs`: component → its present output. `earlier_logs`: of the
        attempts before, oldest first. Logs are read where the framework prints metrics.
        """
        self._rows_in_file = JsonLines(*places, most_bytes=_PIECE_BYTES)
        self._in_file: set[str] = set()
        marks = framework.log_marks
        self._printed = LogMetrics(framework.log_row, marks, redraws=framework.log_redraws) if marks else None
        self._logs, self._earlier_logs = logs, earlier_logs
        self._known: dict[str, None] = {}
        self.restarted = False
        """The last `read` found a new metrics file: what was read before is void."""

    def earlier(self) -> list[Row]:
        """What the earlier attempts printed. To be taken before the first `read`."""
        if self._printed is None:
            return []
        found = (self._printed.read_whole(component, path) for component, path in self._earlier_logs())
        return [row for rows in found for row in rows]

    def read(self) -> list[Row]:
        """The new rows, those of the file first; no more at once than a piece of the file has."""
        rows: list[Row] = list(self._rows_in_file.read(pieces=1))
        self.restarted = self._rows_in_file.restarted
        if self.restarted:
            self._in_file.clear()
        for row in rows:
            self._in_file.update(row)
        if self._printed is not None and not self.file_behind:
            rows.extend(self._unknown(self._printed))
        return rows

    @property
    def file_behind(self) -> bool:
        """There is more of the file to read at once."""
        return self._rows_in_file.behind

    @property
    def behind(self) -> bool:
        """There is more to read at once, of the file or of a long log."""
        return self.file_behind or (self._printed is not None and self._printed.behind)

    def rewind(self) -> None:
        """Steps may be printed again, and count again."""
        self._known.clear()

    def _unknown(self, printed: LogMetrics) -> Iterable[Row]:
        """A launcher repeats what its children print into logs of their own: each row counts once."""
        found = printed.read(self._logs())
        if printed.restarted:
            self._known.clear()
        for row in found:
            text = repr(row)
            known = text in self._known
            self._known[text] = None
            new = {key: value for key, value in row.items() if key == "step" or key not in self._in_file}
            if not known and len(new) > 1:
                yield new
        for old in list(islice(self._known, max(0, len(self._known) - _REMEMBERED_ROWS))):
            del self._known[old]


def read_series(
    record: ExperimentRecord, components: Sequence[str], followed: Mapping[str, Path]
) -> MetricSeries:
    """The metrics of a run up to now, read once. `followed`: logs that no component prints."""
    framework = framework_of(record)
    control = ControlFolder(Path(record.output_dir))
    metrics = RunMetrics(
        RunFolder(Path(record.run_dir), framework.files).metrics,
        framework,
        logs=lambda: {**newest_logs(control, components), **followed},
        earlier_logs=lambda: earlier_logs(control, components),
    )
    series = MetricSeries(framework.metrics, framework.files.first_step)
    for row in metrics.earlier():
        series.add(row)
    is_behind = True
    while is_behind:
        for row in metrics.read():
            series.add(row)
        is_behind = metrics.behind
    return series


def bring_series_up_to_date(record: ExperimentRecord) -> str | None:
    """Read into the store what the run's files say and it does not, unless a supervisor does that.

    Returns why it cannot be kept, in words.
    """
    layout = layout_files.load_for(record)
    control = ControlFolder(Path(record.output_dir))
    components = [spec.id for spec in layout.component]
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.look()
    recorder = RunRecorder(
        control,
        framework_of(record),
        run_folder_of(record).metrics,
        logs=lambda: {**newest_logs(control, components), **logs.paths},
        earlier_logs=lambda: earlier_logs(control, components),
    )
    try:
        recorder.catch_up()
        return recorder.problem
    finally:
        recorder.close()


def earlier_logs(control: ControlFolder, components: Sequence[str]) -> list[tuple[str, Path]]:
    """Component and output of its attempts before the newest, those first that ended first.

    Only since the run last began anew.
    """
    resumes = (entry for entry in read_journal(control.journal_file) if entry.kind == "resume")
    anew = max((entry.at for entry in resumes if entry.data.get("step") is None), default=0.0)
    found: list[tuple[float, str, Path]] = []
    for component in components:
        for attempt in control.attempts(component)[-_EARLIER_ATTEMPTS - 1 : -1]:
            log = control.log_file(component, attempt)
            if log.exists() and (ended_at := log.stat().st_mtime) > anew:
                found.append((ended_at, component, log))
    return [(component, log) for _, component, log in sorted(found)]


def newest_logs(control: ControlFolder, components: Sequence[str]) -> dict[str, Path]:
    """Component → output of its newest attempt."""
    attempts = ((component, control.attempts(component)) for component in components)
    return {component: control.log_file(component, numbers[-1]) for component, numbers in attempts if numbers}
