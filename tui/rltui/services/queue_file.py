"""The queue of runs on disk: one file, changed under a lock, and a journal of what was done about it.

Whoever wants something of the queue changes the file; its supervisor sees that and acts. Killed anywhere,
either leaves the file as it was or as it should be.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from rltui import paths
from rltui.core.queue import RunQueue
from rltui.errors import ConflictError, RltuiError
from rltui.services.own_files import FileLock, make_folder, open_own, read_own, write_atomically
from rltui.services.processes import boot_identity

_LOCK_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.01
_LARGEST_JOURNAL = 4 << 20
"""Bytes; a longer one is begun anew, and the one before kept."""
_GONE_ON = "the runs that it had started go on by themselves"


def queue_folder() -> Path:
    return paths.state_dir() / "queue"


def queue_file() -> Path:
    return queue_folder() / "queue.json"


def supervisor_lock() -> FileLock:
    """Held by the supervisor of the queue as long as it minds it."""
    return FileLock(queue_folder() / "supervisor.lock")


def start_lock(id_: str) -> FileLock:
    """Held by the program that starts an entry as long as it is at work, whoever started that."""
    return FileLock(queue_folder() / f"start-{id_}.lock")


def read_queue() -> RunQueue:
    """As it is now. A damaged or deleted file counts as none, which it tells, until somebody changes it.

    Raises:
        RltuiError: if it cannot be read at all.
    """
    queue, damage = _read()
    told = f"the file of the queue {damage}" if damage else queue.told
    return queue.since_boot(boot_identity()).model_copy(update={"told": told})


def change_queue(change: Callable[[RunQueue], RunQueue], *, known: RunQueue | None = None) -> RunQueue:
    """Replace the queue by what `change` makes of it, and return that. A damaged file is set aside first;
    where it is damaged or was deleted, the queue is taken to be as it was `known` last, or empty.

    Raises:
        ConflictError: if another holds it for long.
        RltuiError: if it cannot be read or written, or what `change` raises; nothing is changed then.
    """
    with _locked():
        before, damage = _read()
        if damage:
            aside = queue_file().with_name(f"queue.json.damaged-{time.time_ns()}")
            where = ""
            with suppress(FileNotFoundError):
                queue_file().rename(aside)
                where = f". It lies in {aside}"
            what = f"begins anew; {_GONE_ON}" if known is None else "was written again as it was known last"
            told = f"the file of the queue {damage}: the queue {what}{where}"
            note_in_journal(told)
            before = (known or before).model_copy(update={"told": told})
        after = change(before.since_boot(boot_identity()))
        if damage or after != before:
            write_atomically(queue_file(), after.model_dump_json(exclude_defaults=True).encode())
            _tell_changes(before, after)
    return after


@contextmanager
def _locked() -> Iterator[None]:
    make_folder(queue_folder(), mode=0o700)
    lock = FileLock(queue_folder() / "queue.lock")
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not lock.take():
        if time.monotonic() > deadline:
            raise ConflictError(f"another rltui holds {lock.path}", hint="try again; nothing was changed")
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.release()


def _read() -> tuple[RunQueue, str]:
    """It, and what became of its file; empty where it is sound, or there was none yet."""
    try:
        return RunQueue.model_validate_json(read_own(queue_file())), ""
    except (FileNotFoundError, NotADirectoryError):
        return RunQueue(), "was deleted" if _journal().exists() else ""
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return RunQueue(), f"was damaged ({first['msg']})"
    except OSError as error:
        raise RltuiError(f"cannot read the queue {queue_file()}: {error.strerror}") from error


def _tell_changes(before: RunQueue, after: RunQueue) -> None:
    known = {each.id: each for each in before.entries}
    for each in after.entries:
        old = known.pop(each.id, None)
        if old is None:
            note_in_journal(f"{each.name} was added", entry=each.id, state=each.state)
        elif old.state != each.state:
            note_in_journal(f"{each.name}: {each.state}", entry=each.id, state=each.state, why=each.why)
    for each in known.values():
        note_in_journal(f"{each.name} was removed", entry=each.id)
    if before.paused != after.paused:
        note_in_journal(f"paused: {after.paused}" if after.paused else "resumed")


def _journal() -> Path:
    """Of a queue that there is, or was."""
    return queue_folder() / "journal.jsonl"


def note_in_journal(text: str, **about: str) -> None:
    """Append to `journal.jsonl` of the queue. Of a full disk nothing comes but that the line is missing."""
    path = _journal()
    line = json.dumps({"at": time.time(), "text": text, **about}).encode() + b"\n"
    with suppress(OSError):
        if path.exists() and path.stat().st_size > _LARGEST_JOURNAL:
            path.replace(path.with_name("journal.1.jsonl"))
        descriptor = open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
