"""The queue of runs on disk: one file, changed under a lock, and a journal of changes.

Clients change the file; the scheduler sees that and acts. If either is killed, the file is as it was or as it
should be.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rltui import paths
from rltui.base.values import InvalidValueError
from rltui.core.experiment.actor import Actor
from rltui.core.runs.queue import RunQueue
from rltui.errors import RltuiError
from rltui.services.actor import actor
from rltui.services.own_files import FileLock, append_line, make_folder, read_own, write_atomically
from rltui.services.processes import boot_identity

_LOCK_TIMEOUT_S = 30.0
_LARGEST_JOURNAL = 4 << 20
"""Size in bytes at which a new journal is started, and the old one renamed."""
_RUNS_CONTINUE = "started runs continue"


def scheduler_lock() -> FileLock:
    """Return the lock that the queue's scheduler holds while it runs."""
    return FileLock(paths.queue_folder() / "supervisor.lock")


def start_lock(id_: str) -> FileLock:
    """Return the lock that the program that starts an entry holds while it works."""
    return FileLock(paths.queue_folder() / f"start-{id_}.lock")


def read_queue() -> RunQueue:
    """The current queue. A damaged or deleted file counts as empty, with a message in `told`, until somebody
    changes it.

    Raises:
        RltuiError: if it cannot be read at all.
    """
    queue, damage = _read()
    message = f"the queue file {damage}" if damage else queue.told
    return queue.since_boot(boot_identity()).replace(told=message)


def change_queue(
    change: Callable[[RunQueue], RunQueue],
    *,
    fallback: RunQueue | None = None,
    author: Callable[[], Actor | None] = actor,
) -> RunQueue:
    """Replace the queue by the result of `change`, and return that. A damaged file is moved aside first; if
    it is damaged or was deleted, `fallback`, the last known queue, or an empty one is used instead.

    `author`: who makes the change; where that is nobody, it is journaled for whoever added the entry.

    Raises:
        ConflictError: if another holds the lock for long.
        RltuiError: if it cannot be read or written, or what `change` raises; nothing is changed then.
    """
    with _locked():
        before, damage = _read()
        if damage:
            damaged_file = paths.queue_file().with_name(f"queue.json.damaged-{time.time_ns()}")
            location_text = ""
            with suppress(FileNotFoundError):
                paths.queue_file().rename(damaged_file)
                location_text = f". It was saved as {damaged_file}"
            outcome = (
                f"starts empty; {_RUNS_CONTINUE}"
                if fallback is None
                else "was restored from its last known state"
            )
            message = f"the queue file {damage}: the queue {outcome}{location_text}"
            _add_to_journal(message, None)
            before = (fallback or before).replace(told=message)
        after = change(before.since_boot(boot_identity()))
        if damage or after != before:
            write_atomically(paths.queue_file(), after.to_json())
            _journal_changes(before, after, author())
    return after


@contextmanager
def _locked() -> Iterator[None]:
    make_folder(paths.queue_folder(), mode=0o700)
    with FileLock(paths.queue_folder() / "queue.lock").hold(wait_s=_LOCK_TIMEOUT_S):
        yield


def _read() -> tuple[RunQueue, str]:
    """The queue, and what happened to its file; empty if it is sound, or there was none yet."""
    try:
        return RunQueue.from_json(read_own(paths.queue_file())), ""
    except (FileNotFoundError, NotADirectoryError):
        return RunQueue(), "was deleted" if _journal().exists() else ""
    except InvalidValueError as error:
        return RunQueue(), f"was damaged ({error})"
    except OSError as error:
        raise RltuiError(f"cannot read the queue {paths.queue_file()}: {error.strerror}") from error


def _journal_changes(before: RunQueue, after: RunQueue, by: Actor | None) -> None:
    old_entries = {entry.id: entry for entry in before.entries}
    for entry in after.entries:
        old = old_entries.pop(entry.id, None)
        if old is None:
            _add_to_journal(f"{entry.name} was added", by or entry.by, entry=entry.id, state=entry.state)
        elif old.state != entry.state:
            facts = {"entry": entry.id, "state": entry.state, "why": entry.why}
            _add_to_journal(f"{entry.name}: {entry.state}", by or entry.by, **facts)
    for entry in old_entries.values():
        _add_to_journal(f"{entry.name} was removed", by, entry=entry.id)
    if before.paused != after.paused:
        text = f"the queue was paused: {after.paused}" if after.paused else "the queue was resumed"
        _add_to_journal(text, by)


def _journal() -> Path:
    """The journal exists only if a queue was ever written."""
    return paths.queue_folder() / "journal.jsonl"


def _add_to_journal(text: str, by: Actor | None, **fields: str) -> None:
    """Append to the queue's `journal.jsonl`. On a full disk only the line is missing."""
    path = _journal()
    with suppress(OSError):
        if path.exists() and path.stat().st_size > _LARGEST_JOURNAL:
            path.replace(path.with_name("journal.1.jsonl"))
        append_line(
            path,
            json.dumps(
                {"at": time.time(), "text": text, "by": None if by is None else by.fields, **fields}
            ).encode(),
        )
