"""`logs`: what a component printed, or what all of them printed that matches."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rltui.base.text import duration, size_text, unknown_name, untrusted_text
from rltui.base.times import Moment, Period
from rltui.cli.arguments import ATTEMPT, FOLLOW, RUN, SINCE, UNTIL, listing
from rltui.cli.choosing import Target, attempt_of, show_runs
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_json, print_json_stream, print_rows
from rltui.cli.table import TableColumn, print_table
from rltui.cli.terminal import binary_output, while_read
from rltui.core import hints
from rltui.core.experiment.cursor import Cursor
from rltui.core.logs.lines import Level, LineFilter, detect_level, parse_level
from rltui.core.logs.period import LogPeriod
from rltui.core.logs.query import pattern_of
from rltui.core.logs.source import LogEntry
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import run_command
from rltui.services.logs.cursors import log_cursor, unread_logs
from rltui.services.logs.tail import ReadUntil, complete_end, follow_lines, tail_lines

_DEFAULT_FOLLOWED_LINES = 20
_DEFAULT_LINES = 1000
"""Lines of a whole log, where nobody says how many."""
_LONGEST_LINE = 4000
"""Characters of a line in JSON."""
_LOGS = (
    TableColumn("COMPONENT"),
    TableColumn("ATTEMPT", is_right=True),
    TableColumn("AGE", is_right=True),
    TableColumn("SIZE", is_right=True),
    TableColumn("FILE", least=16, cut="start", goes=1),
)
_BATCH_LINES = 500
"""Written at a time, where nobody waits for each."""


@command(
    "logs",
    RUN,
    ATTEMPT,
    FOLLOW,
    flag("--all", "all attempts, not only the newest"),
    SINCE,
    UNTIL,
    argument("--grep", "PATTERN", "only lines that match this regular expression (without -c: in all logs)"),
    flag("-i --ignore-case", "ignore case in PATTERN"),
    argument(
        "--level",
        "LEVEL",
        "only lines of this level or above: info, warning, error (without -c: in all logs)",
        completes="log_levels",
    ),
    flag("--raw", "the bytes as printed, with colours, redraws and secrets"),
    *listing(
        f"only the newest lines (default: {_DEFAULT_LINES}; all, into a file)",
        "one JSON document; with -f, one line each",
    ),
    examples=(
        "logs demo/trainer -f",
        "logs demo -c trainer --level warning --since 2h",
        "logs demo --grep CUDA",
    ),
)
def logs(arguments: Arguments) -> int:
    """Print, and follow, the output of one attempt, or a log file that the layout names; or search several.

    Its text without escape sequences and colours, also into a pipe, which often ends at a terminal
    (`| head`), and where colours hide words from `grep`. `--raw` passes on the bytes.
    """
    line_filter = LineFilter(
        pattern_of(arguments.grep, re.I if arguments.ignore_case else re.NOFLAG), _level(arguments.level)
    )
    return show_runs(arguments, partial(_show, arguments, line_filter))


def _show(arguments: Arguments, line_filter: LineFilter, target: Target) -> int:
    record, components = target
    is_open = line_filter.is_open and not _has_period(arguments)
    has_cursor = isinstance(arguments.since, Cursor)
    if has_cursor and (arguments.follow or arguments.raw):
        raise UsageError(
            "-f and --raw do not continue at a cursor", hint="leave out --since, or -f and --raw"
        )
    if has_cursor or arguments.all or len(components) > 1 or not (components or is_open):
        return _search(target, arguments, line_filter)
    if not components:
        return _list(record, arguments)
    entry = _log_entry(record, *attempt_of(components[0]))
    path = Path(entry.path)
    if arguments.raw:
        return _pass_on(path, arguments)
    period = _period(arguments, _started_at(record, path)) if _has_period(arguments) else None
    if arguments.follow:
        count = arguments.limit
        if count is None and arguments.since is None:
            count = _DEFAULT_FOLLOWED_LINES
        with while_read():
            for line in follow_lines(path, count, threading.Event(), line_filter, period):
                if arguments.json:
                    print_json(_line_document(line))
                else:
                    print(line, flush=True)
        return 0
    until, count, omitted_text = ReadUntil(), arguments.limit, ""
    if count is None and is_open and not (arguments.full or (_is_written_to_a_file() and not arguments.json)):
        count, omitted_text = _DEFAULT_LINES, _omitted(path)
    lines = tail_lines(path, count, line_filter, period, until=until)
    if arguments.json:
        head = {"path": str(path), "omitted": omitted_text}
        return _print_document(arguments, head, map(_line_document, lines), [(entry, until)])
    if omitted_text:
        print(omitted_text, file=sys.stderr)
    size = _BATCH_LINES if is_open else 1
    while batch := list(islice(lines, size)):
        sys.stdout.write("\n".join([*batch, ""]))
    return 0


def _print_document(
    arguments: Arguments,
    head: Mapping[str, object],
    documents: Iterable[object],
    ends: Sequence[tuple[LogEntry, ReadUntil]],
) -> int:
    """Print lines and the cursor after them: all as they are read with `--full`, or the newest."""

    def end() -> dict[str, object]:
        return {"cursor": str(log_cursor((entry, until.offset) for entry, until in ends))}

    if arguments.full and not arguments.fields:
        print_json_stream(head, documents, end)
        return 0
    rows, count = deque[object](maxlen=None if arguments.full else arguments.limit or _DEFAULT_LINES), 0
    for document in documents:
        rows.append(document)
        count += 1
    left_out = {"lines": count - len(rows)}
    print_rows(arguments, "lines", rows, head={**head, **end()}, keeps_last=True, left_out=left_out)
    return 0


def _has_period(arguments: Arguments) -> bool:
    return isinstance(arguments.since, Moment) or arguments.until is not None


def _period(arguments: Arguments, started_at: float) -> LogPeriod | None:
    """The lines that `--since` and `--until` choose of a log; `None` where neither is given."""
    if not _has_period(arguments):
        return None
    since = arguments.since if isinstance(arguments.since, Moment) else None
    return LogPeriod(Period(since, arguments.until), started_at or time.time())


def _started_at(record: ExperimentRecord, path: Path) -> float:
    from rltui.services.logs.listing import all_logs

    times = {entry.path: entry.started_at for entry in all_logs(record)}
    return times.get(str(path), 0.0)


def _omitted(path: Path) -> str:
    """Say that only the last lines of a log are printed; empty where these are all."""
    if len(deque(tail_lines(path, _DEFAULT_LINES + 1))) <= _DEFAULT_LINES:
        return ""
    all_of_it = f"{_size(path.stat().st_size)}; --full prints all (or --limit, --grep, --level)"
    return f"the newest {_DEFAULT_LINES} lines of {all_of_it}"


def _is_written_to_a_file() -> bool:
    """Standard output is a file, in which nothing may be missing."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    return False


def _list(record: ExperimentRecord, arguments: Arguments) -> int:
    from rltui.services.logs.listing import all_logs

    if any((arguments.follow, arguments.limit is not None, arguments.raw)):
        raise UsageError("which component's log?", hint=f"name it: {run_command(hints.LOGS_OF, record.name)}")
    rows, documents, now, entries = [], [], time.time(), all_logs(record)
    for entry in entries:
        path = Path(entry.path)
        try:
            size_bytes = path.stat().st_size
        except OSError:  # it went meanwhile
            continue
        document = {"component": entry.component, "attempt": entry.attempt, "path": entry.path}
        documents.append({**document, "started_at": entry.started_at or None, "bytes": size_bytes})
        age = duration(now - entry.started_at) if entry.started_at else ""
        attempt = "" if entry.attempt is None else str(entry.attempt)
        rows.append((entry.component, attempt, age, _size(size_bytes), entry.path))
    if arguments.json:
        cursor = log_cursor((entry, complete_end(Path(entry.path))) for entry in entries)
        print_rows(arguments, "logs", documents, head={"cursor": str(cursor)})
        return 0
    print_table(_LOGS, rows)
    if not rows:
        print(f"{record.name} has printed nothing yet")
    return 0


def _size(size_bytes: int) -> str:
    return size_text(size_bytes) if size_bytes >= 1 << 20 else f"{size_bytes / 1024:.0f} KiB"


def _search(target: Target, arguments: Arguments, line_filter: LineFilter) -> int:
    """Print what matches in several logs, each line after the name of its log."""
    if arguments.all and line_filter.is_open and not _has_period(arguments):
        raise UsageError(
            "--all searches all attempts and needs a pattern, level or time",
            hint="--grep PATTERN, --level error, or --since 10m",
        )
    if arguments.follow or arguments.raw:
        raise UsageError(
            "-f and --raw take one log",
            hint=f"name one: {run_command(hints.LOGS_OF, target.record.name)}",
        )
    if isinstance(arguments.since, Cursor):
        logs = _continued(target, arguments.since)
    else:
        logs = [(entry, None) for entry in _entries(target, arguments)]
    ends = [(entry, ReadUntil()) for entry, _ in logs]
    matches = _matches(logs, line_filter, arguments, ends)
    if arguments.json:
        documents = (
            {"component": entry.component, "attempt": entry.attempt} | _line_document(line)
            for entry, line in matches
        )
        return _print_document(arguments, {}, documents, ends)
    if arguments.limit is not None or (line_filter.is_open and not arguments.full):
        matches = iter(deque(matches, maxlen=arguments.limit or _DEFAULT_LINES))
    width = max((len(entry.name) for entry, _ in logs), default=0)
    for entry, line in matches:
        sys.stdout.write(f"{entry.name:<{width}}  {line}\n")
    return 0


def _continued(target: Target, cursor: Cursor) -> list[tuple[LogEntry, int | None]]:
    """The logs that a cursor is of, as far as they are meant, and the offsets of what is new in them.

    Raises:
        UsageError: if none of them is.
    """
    from rltui.services.logs.listing import all_logs

    names = {attempt_of(component)[0] for component in target.components}
    entries = [entry for entry in all_logs(target.record) if not names or entry.component in names]
    return [*unread_logs(entries, cursor)]


def _entries(target: Target, arguments: Arguments) -> list[LogEntry]:
    """The logs to search: all; of components that were named the newest attempt, or that which was named."""
    from rltui.services.logs.listing import all_logs

    record, components = target
    entries = all_logs(record)
    if not components:
        return [*entries]
    named_entries: list[LogEntry] = []
    for component, attempt in map(attempt_of, components):
        of_component = [entry for entry in entries if entry.component == component]
        if not of_component:
            names = dict.fromkeys(entry.component for entry in entries)
            raise unknown_name("component with a log", component, names)
        if attempt is not None and not any(entry.attempt == attempt for entry in of_component):
            raise _no_attempt(component, attempt, [entry.attempt for entry in of_component])
        newest = of_component if arguments.all else of_component[-1:]
        named_entries += [entry for entry in of_component if entry.attempt == attempt] if attempt else newest
    return named_entries


def _no_attempt(component: str, attempt: int, attempts: Sequence[int | None]) -> UsageError:
    return UsageError(
        f"{component} has no attempt {attempt}", hint=f"its attempts: {', '.join(map(str, attempts))}"
    )


def _matches(
    logs: Iterable[tuple[LogEntry, int | None]],
    line_filter: LineFilter,
    arguments: Arguments,
    ends: Iterable[tuple[LogEntry, ReadUntil]],
) -> Iterator[tuple[LogEntry, str]]:
    """The lines of these logs from their offsets on. `ends`: how far each was read, in the end."""
    for (entry, start), (_, until) in zip(logs, ends, strict=True):
        own_filter = LineFilter(line_filter.pattern, line_filter.level)
        period = _period(arguments, entry.started_at)
        lines = tail_lines(Path(entry.path), None, own_filter, period, start=start, until=until)
        yield from ((entry, line) for line in lines)


def _pass_on(path: Path, arguments: Arguments) -> int:
    others = (arguments.json, arguments.grep, arguments.level, arguments.since, arguments.until)
    if arguments.follow or arguments.limit is not None or any(others):
        raise UsageError("--raw prints the whole file", hint="leave out all other options but -c")
    output = binary_output()
    try:
        with path.open("rb") as file:
            shutil.copyfileobj(file, output, 1 << 20)
    except FileNotFoundError:
        raise RltuiError(f"file not found: {path}") from None
    output.flush()
    return 0


def _line_document(line: str) -> dict[str, Any]:
    return {"untrusted": untrusted_text(line, _LONGEST_LINE), "level": detect_level(line)}


def _log_entry(record: ExperimentRecord, component: str, attempt: int | None) -> LogEntry:
    control = record.control
    attempts = control.attempts(component)
    if not attempts:
        return LogEntry(component, None, str(_other_log(record, component, attempt)), 0.0)
    if attempt is not None and attempt not in attempts:
        raise _no_attempt(component, attempt, attempts)
    attempt = attempt or attempts[-1]
    return LogEntry(component, attempt, str(control.log_file(component, attempt)), 0.0)


def _other_log(record: ExperimentRecord, log_id: str, attempt: int | None) -> Path:
    """A file that the layout's `[[log]]` follows."""
    from rltui.services.experiment import layout_files  # pydantic takes 60 ms
    from rltui.services.logs.followed import FollowedLogs

    layout = layout_files.load_for(record)
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.poll()
    if attempt is not None and any(log.id == log_id for log in logs.logs):
        raise UsageError(f"{log_id} is a log file and has no attempts", hint=f"leave #{attempt} out")
    if (path := logs.paths.get(log_id)) is not None:
        return path
    for log in logs.logs:
        if log.id == log_id:
            raise UsageError(
                f"{log_id} of {record.name} has no log file yet",
                hint=f"looked in {record.run_dir} for: {', '.join(log.wanted)}",
            )
    components = [spec.id for spec in layout.component]
    if log_id not in components:
        raise unknown_name("component", log_id, [*components, *(log.id for log in logs.logs)])
    component_names = (entry.name for entry in (record.control.path / "components").glob("*"))
    raise UsageError(
        f"{log_id} has not been started in {record.name}",
        hint=f"logs of: {', '.join(sorted({*component_names, *logs.paths})) or 'nothing yet'}",
    )


def _level(text: str | None) -> Level | None:
    level = None if text is None else parse_level(text)
    if text is not None and level is None:
        raise unknown_name("level", text, Level)
    return level
