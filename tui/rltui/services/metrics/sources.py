"""The metric rows of a run: from its metrics file, and from the output of its components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rltui.core.layout import Layout
from rltui.core.log_lines import decode_line, plain_text
from rltui.core.metrics import MetricSeries
from rltui.frameworks.base import Framework
from rltui.services import layout_files
from rltui.services.logs.followed import FollowedLogs
from rltui.services.logs.growing_file import AppendedLines, JsonLines, lines_with
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.journal import read_journal
from rltui.services.runs.observed import framework_of
from rltui.services.runs.run_folder import RunFolder, run_folder_of

READ_BYTES = 8 * 1024 * 1024
"""Limit of one read of a log."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""Older content is skipped in a log that is new, or that grows faster than it is read."""
LINE_BYTES = 64 * 1024
"""Limit of a line, finished or not."""

_PIECE_BYTES = 1 << 20
"""Limit of one read of a metrics file, which bounds the memory for a long run."""
_CACHED_ROWS = 4096
"""Number of printed rows that are recognised when they come from another log."""
_EARLIER_ATTEMPTS = 5
"""Number of attempts of a component, before its newest, whose output is read."""

Row = Mapping[str, Any]


class LogMetrics:
    """Rows from the lines that were appended to logs since the last poll.

    A log that was truncated or replaced is read from its start, and so is the next attempt's.
    """

    def __init__(
        self, log_row: Callable[[str, str], Row | None], log_marks: Sequence[str], *, redraws: bool = False
    ) -> None:
        """Arguments as the attributes of `Framework` with these names."""
        self._log_row = log_row
        self._folded = not redraws
        self._log_marks = [pattern.encode() for pattern in log_marks]
        self._followed: dict[str, AppendedLines] = {}

        self.restarted = False
        """The last `read` found the next attempt's log, or one that starts anew: steps may come again."""

    def read(self, logs: Mapping[str, Path]) -> list[Row]:
        """The new rows, oldest first within each log. `logs`: component → its current output."""
        rows: list[Row] = []
        self.restarted = False
        for component, path in logs.items():
            lines = self._followed.get(component)
            if lines is not None and lines.path != path:
                rows.extend(self._rows(component, lines))
                lines.close()
                lines, self.restarted = None, True
            if lines is None:
                lines = self._followed[component] = _follow(path)
            rows.extend(self._rows(component, lines))
        for component in self._followed.keys() - logs.keys():
            self._followed.pop(component).close()
        return rows

    @property
    def has_more(self) -> bool:
        """True if there is more to read at once, as of the last `read`."""
        return any(lines.has_more for lines in self._followed.values())

    def read_all(self, component: str, path: Path) -> list[Row]:
        """All rows of the log of an earlier attempt, oldest first."""
        lines = _follow(path)
        rows: list[Row] = []
        while lines.has_more:
            rows.extend(self._rows(component, lines))
        lines.close()
        return rows

    def _rows(self, component: str, lines: AppendedLines) -> Iterator[Row]:
        data = lines.read()
        self.restarted |= lines.restarted
        for _, line in lines_with(data, self._log_marks):
            try:
                row = self._log_row(
                    component, plain_text(decode_line(line[:LINE_BYTES].rstrip(b"\r\n"), folded=self._folded))
                )
            except ValueError:  # a number with more digits than Python reads
                continue
            if row is not None:
                yield row


def _follow(path: Path) -> AppendedLines:
    return AppendedLines(path, most_bytes=READ_BYTES, line_bytes=LINE_BYTES, backlog_bytes=BACKLOG_BYTES)


class RunMetrics:
    """New rows on request. Values of the metrics file take precedence over printed ones, which are
    rounded.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        framework: Framework,
        *,
        logs: Callable[[], Mapping[str, Path]] = dict,
        earlier_logs: Callable[[], Sequence[tuple[str, Path]]] = tuple,
    ) -> None:
        """`paths`: as `RunFolder.metrics`. `logs`: component → its current output. `earlier_logs`: of
        previous attempts, oldest first. Logs are read if the framework prints metrics.
        """
        self._rows_in_file = JsonLines(*paths, most_bytes=_PIECE_BYTES)
        self._names_in_file: set[str] = set()
        progress = framework.progress
        self._printed = (
            LogMetrics(progress.log_row, progress.log_marks, redraws=progress.log_redraws)
            if progress.log_marks
            else None
        )
        self._logs, self._earlier_logs = logs, earlier_logs
        self._recent_rows: dict[str, None] = {}
        self.restarted = False
        """The last `read` found a new metrics file: what was read before is void."""

    def earlier(self) -> list[Row]:
        """Rows that earlier attempts printed. Call it before the first `read`."""
        if self._printed is None:
            return []
        by_log = (self._printed.read_all(component, path) for component, path in self._earlier_logs())
        return [row for rows in by_log for row in rows]

    def read(self) -> list[Row]:
        """The new rows, those of the file first; at most one piece of the file at once."""
        rows: list[Row] = list(self._rows_in_file.read(pieces=1))
        self.restarted = self._rows_in_file.restarted
        if self.restarted:
            self._names_in_file.clear()
        for row in rows:
            self._names_in_file.update(row)
        if self._printed is not None and not self.file_has_more:
            rows.extend(self._new_printed_rows(self._printed))
        return rows

    @property
    def file_has_more(self) -> bool:
        """True if there is more of the file to read at once."""
        return self._rows_in_file.has_more

    @property
    def has_more(self) -> bool:
        """True if there is more to read at once, of the file or of a long log."""
        return self.file_has_more or (self._printed is not None and self._printed.has_more)

    def rewind(self) -> None:
        """Accept repeated steps again, after the run went back."""
        self._recent_rows.clear()

    def _new_printed_rows(self, printed: LogMetrics) -> Iterable[Row]:
        """Printed rows, each once: a launcher repeats the output of its children, which have logs of their
        own.
        """
        rows = printed.read(self._logs())
        if printed.restarted:
            self._recent_rows.clear()
        for row in rows:
            text = repr(row)
            is_known = text in self._recent_rows
            self._recent_rows[text] = None
            new = {
                key: value for key, value in row.items() if key == "step" or key not in self._names_in_file
            }
            if not is_known and len(new) > 1:
                yield new
        for old in list(islice(self._recent_rows, max(0, len(self._recent_rows) - _CACHED_ROWS))):
            del self._recent_rows[old]


def read_series(
    record: ExperimentRecord, components: Sequence[str], followed: Mapping[str, Path]
) -> MetricSeries:
    """The metrics of a run up to now, read once. `followed`: logs that no component writes."""
    framework = framework_of(record)
    control = record.control
    metrics = RunMetrics(
        RunFolder(Path(record.run_dir), framework.run.locations).metrics,
        framework,
        logs=lambda: {**newest_logs(control, components), **followed},
        earlier_logs=lambda: earlier_logs(control, components),
    )
    series = MetricSeries(framework.progress.names, framework.run.locations.first_step)
    for row in metrics.earlier():
        series.add(row)
    is_behind = True
    while is_behind:
        for row in metrics.read():
            series.add(row)
        is_behind = metrics.has_more
    return series


def update_series_store(record: ExperimentRecord) -> str | None:
    """Read new rows of the run's files into the store, unless a supervisor does that.

    Returns an error message if the store cannot be written.
    """
    return fill_series_store(
        record, framework_of(record), layout_files.load_for(record), run_folder_of(record)
    )


def fill_series_store(
    record: ExperimentRecord, framework: Framework, layout: Layout, folder: RunFolder
) -> str | None:
    """As `update_series_store`, for who has read the rest already."""
    control = record.control
    components = [spec.id for spec in layout.component]
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.poll()
    recorder = RunRecorder(
        control,
        framework,
        folder.metrics,
        logs=lambda: {**newest_logs(control, components), **logs.paths},
        earlier_logs=lambda: earlier_logs(control, components),
    )
    try:
        recorder.catch_up()
        return recorder.problem
    finally:
        recorder.close()


def earlier_logs(control: ControlFolder, components: Sequence[str]) -> list[tuple[str, Path]]:
    """Component and output of its attempts before the newest, by their end.

    Only attempts since the run last started from the beginning.
    """
    resumes = (entry for entry in read_journal(control.journal_file) if entry.kind == "resume")
    fresh_start_at = max((entry.at for entry in resumes if entry.data.get("step") is None), default=0.0)
    logs: list[tuple[float, str, Path]] = []
    for component in components:
        for attempt in control.attempts(component)[-_EARLIER_ATTEMPTS - 1 : -1]:
            log = control.log_file(component, attempt)
            if log.exists() and (finished_at := log.stat().st_mtime) > fresh_start_at:
                logs.append((finished_at, component, log))
    return [(component, log) for _, component, log in sorted(logs)]


def newest_logs(control: ControlFolder, components: Sequence[str]) -> dict[str, Path]:
    """Component → output of its newest attempt."""
    attempts = ((component, control.attempts(component)) for component in components)
    return {component: control.log_file(component, numbers[-1]) for component, numbers in attempts if numbers}
