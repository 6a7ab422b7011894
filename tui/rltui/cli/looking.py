"""`logs`, `events`, `attach`."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rltui.client import launch
from rltui.core.api import JournalEntry
from rltui.core.levels import Level, parse_level
from rltui.core.line_filter import LineFilter
from rltui.errors import ExitCode, UsageError
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.journal_file import read_journal
from rltui.services.log_tail import follow_lines, tail_lines

ALL_LINES = sys.maxsize
DEFAULT_FOLLOWED_LINES = 20


def logs(arguments: argparse.Namespace) -> int:
    """Print, and follow, the output of one attempt, or a log file that the layout names."""
    record = launch.choose(arguments.name)
    path = _log_path(record, arguments.component, arguments.attempt)
    line_filter = LineFilter(_pattern(arguments.grep), _level(arguments.level))
    if not arguments.follow:
        for line in tail_lines(path, arguments.lines or ALL_LINES, line_filter):
            print(line)
        return 0
    for line in follow_lines(path, arguments.lines or DEFAULT_FOLLOWED_LINES, threading.Event(), line_filter):
        print(line, flush=True)
    return 0


def _log_path(record: ExperimentRecord, component: str, attempt: int | None) -> Path:
    control = ControlFolder(Path(record.output_dir))
    attempts = control.attempts(component)
    if not attempts:
        return _other_log(record, component, attempt)
    if attempt is not None and attempt not in attempts:
        known = ", ".join(map(str, attempts))
        raise UsageError(f"{component} has no attempt {attempt}", hint=f"there are: {known}")
    return control.log_file(component, attempt or attempts[-1])


def _other_log(record: ExperimentRecord, log_id: str, attempt: int | None) -> Path:
    """A file that the layout's `[[log]]` follows."""
    from rltui.services import layout_files  # pydantic takes 60 ms
    from rltui.services.followed_logs import FollowedLogs

    logs = FollowedLogs(Path(record.run_dir), layout_files.load_for(record).log)
    logs.look()
    if attempt is not None and any(log.id == log_id for log in logs.logs):
        raise UsageError(f"{log_id} is a log file and has no attempts", hint="leave --attempt out")
    if (path := logs.paths.get(log_id)) is not None:
        return path
    for log in logs.logs:
        if log.id == log_id:
            raise UsageError(
                f"{log_id} of {record.name} has no log file yet",
                hint=f"looked in {record.run_dir} for: {', '.join(log.wanted)}",
            )
    started = (entry.name for entry in (ControlFolder(Path(record.output_dir)).path / "components").glob("*"))
    raise UsageError(
        f"{log_id!r} has not been started in {record.name}",
        hint=f"there are logs of: {', '.join(sorted({*started, *logs.paths})) or 'nothing yet'}",
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep {text!r} is no regular expression: {error}") from None


def _level(text: str | None) -> Level | None:
    level = None if text is None else parse_level(text)
    if text is not None and level is None:
        raise UsageError(f"--level {text!r} is not known", hint=f"use one of: {', '.join(Level)}")
    return level


def events(arguments: argparse.Namespace) -> int:
    """Print the journal."""
    record = launch.choose(arguments.name)
    for entry in read_journal(ControlFolder(Path(record.output_dir)).journal_file):
        print(_event_line(entry, as_json=arguments.json or False), flush=True)
    if arguments.follow:
        for entry in _new_entries(record):
            print(_event_line(entry, as_json=arguments.json or False), flush=True)
    return 0


def _new_entries(record: ExperimentRecord) -> Iterator[JournalEntry]:
    wire = launch.connect(record)
    if wire is None:
        raise UsageError(f"{record.name} does not run: there is nothing to follow")
    with wire:
        for kind, data in wire.events():
            if kind == "journal":
                yield JournalEntry.model_validate(data)


def _event_line(entry: JournalEntry, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(entry.model_dump(mode="json"), ensure_ascii=False)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    return f"{when}  {entry.kind:<10} {entry.text}"


def attach(arguments: argparse.Namespace) -> int:
    """Become tmux, showing the component's pane."""
    record = launch.choose(arguments.name)
    argv = launch.attach_command(record, arguments.component, readonly=arguments.readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal", hint=f"read the log instead: rltui logs {arguments.component}"
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)
