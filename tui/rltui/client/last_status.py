"""The status of an experiment of which nothing is alive, saved beside it, so that asking again costs little.

Making it takes the framework, the config and the metrics; that none of them has changed is seen by `stat`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltui import __version__
from rltui.errors import RltuiError
from rltui.paths import ATTEMPT_LOG, ATTEMPT_RECORD
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.own_files import file_fingerprint, read_own, write_atomically

FILE_NAME = "last_status.json"


def saved_status(record: ExperimentRecord) -> dict[str, Any] | None:
    """The status that was saved, if nothing that it was made of has changed; then nothing was started
    either.
    """
    try:
        document = json.loads(read_own(_file(record)))
        status: dict[str, Any] | None = document["status"] if document["of"] == fingerprint(record) else None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return status


def save_status(record: ExperimentRecord, status: dict[str, Any], of: list[Any]) -> None:
    """Save the status that was made of files with the fingerprint `of`. Where that fails, nothing is lost.

    The status of an observed run depends on the clock, that of leftover processes on these: neither is saved.
    """
    if not record.observed and not status["orphans"] and of == fingerprint(record):
        with suppress(RltuiError):
            write_atomically(_file(record), json.dumps({"of": of, "status": status}).encode())


def fingerprint(record: ExperimentRecord) -> list[Any]:
    """Fingerprint of all that the status is made of. A supervisor that starts leaves its mark in the
    journal.
    """
    return [__version__, *(_state(path) for path in _sources(record))]


def _sources(record: ExperimentRecord) -> Iterator[Path]:
    control = record.control
    yield from (control.record_file, control.journal_file, control.intent_file)
    yield from map(Path, (*record.config_files, record.layout_file, record.run_dir))
    for folder in control.newest_attempts():
        yield from (folder, folder / ATTEMPT_RECORD, folder / ATTEMPT_LOG)


def _state(path: Path) -> list[Any]:
    return [str(path), *(file_fingerprint(path) or ())]


def _file(record: ExperimentRecord) -> Path:
    return record.control.path / FILE_NAME
