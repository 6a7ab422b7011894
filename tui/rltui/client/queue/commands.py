"""What clients do about the queue: add, remove, move, pause. Its supervisor sees it, or is started."""

from __future__ import annotations

import hashlib
import os
import secrets
import string
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltui.core import hints
from rltui.core.interpreter import module_command
from rltui.core.queue import LaunchEnvironment, QueueEntry, QueueOptions, RunQueue, is_kept_variable
from rltui.core.states import ENTRY_STATES
from rltui.core.text import join_words, parse_whole_number, unknown_name
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services import subprocesses
from rltui.services.fingerprints import fingerprint
from rltui.services.queue_file import change_queue, queue_folder, read_queue, supervisor_lock
from rltui.services.runs.experiment_files import same_folder
from rltui.services.runs.experiments import find_experiment
from rltui.services.subprocesses import OUTER_VARIABLES

START = "start"
"""What `python -m rltui.scheduler` is told to start the supervisor in the private tmux server."""
START_TIMEOUT_S = 20.0
_ID_LETTERS = string.ascii_lowercase + string.digits
_ID_LENGTH = 8
_LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """A run as somebody wants it: what `rltui up` is told, and what the queue is."""

    words: tuple[str, ...]
    """Without a name, an output folder, and what stands behind `--`."""
    overrides: tuple[str, ...]
    name: str
    folder: Path
    """As `rltui up` would have them now."""
    files: tuple[Path, ...] = ()
    is_named: bool = False
    """A person chose the name."""
    own: str = ""
    """What makes it another one than others of its sweep; empty: it is alone."""
    own_name: str = ""
    """The same as a part of a name."""
    needs: tuple[int | None, int] = (None, 0)
    """Devices, and memory of each in bytes, where nobody says how many."""
    is_job: bool = False
    jobs: tuple[str, ...] = ()
    """Components that would be jobs now, where somebody asked."""
    array: str = ""
    """The job array that it becomes a task of, and which one."""
    is_taken: bool = False
    """Its folder holds an earlier run."""
    is_resumed: bool = False


def add_to_queue(
    wishes: Sequence[QueueRequest],
    options: QueueOptions,
    *,
    group: str = "",
    after_reboot: bool | None = None,
) -> tuple[QueueEntry, ...]:
    """Put them behind the others, in this order, and see to it that somebody minds the queue.

    `group`: name of a sweep; another one is found where there is such a one already. `after_reboot`: what the
    queue does from now on; `None`: as before.

    Raises:
        ConflictError: if a name or folder that was asked for is taken.
        RltuiError: if the queue cannot be written, or its supervisor not be started; then they wait in it.
    """
    variables = {
        name: value
        for name, value in sorted(os.environ.items())
        if is_kept_variable(name) and name not in OUTER_VARIABLES
    }
    around = LaunchEnvironment(cwd=os.getcwd(), variables=variables)  # noqa: PTH109 - as the child is told
    key = hashlib.sha256(around.model_dump_json().encode()).hexdigest()[:12]
    contents = [_contents(wish.files) for wish in wishes]
    wishes = [replace(wish, folder=wish.folder.resolve()) for wish in wishes]
    added: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        added.clear()
        taken = {each.group for each in queue.entries}
        names = (group, *(f"{group}-{number}" for number in range(2, len(taken) + 3)))
        free_group = next(name for name in names if not name or name not in taken)
        fixed = {**options.model_dump(), "group": free_group, "surroundings": key}
        for wish, files in zip(wishes, contents, strict=True):
            added.append(_entry(wish, (*queue.entries, *added), {**fixed, "files": files}))
        entries = (*queue.entries, *added)
        told = {} if after_reboot is None else {"after_reboot": after_reboot}
        everywhere = {**queue.surroundings, key: around}
        return queue.model_copy(update={"surroundings": everywhere, **told}).with_entries(entries)

    change_queue(change)
    ensure_scheduler()
    return tuple(added)


def _entry(wish: QueueRequest, others: Sequence[QueueEntry], fixed: dict[str, Any]) -> QueueEntry:
    name, folder = _place(wish, others)
    gpus, gpu_bytes = wish.needs
    if fixed["gpus"] is not None:
        gpus = fixed["gpus"]
    return QueueEntry(
        id="".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH)),
        name=name,
        folder=str(folder),
        words=wish.words,
        overrides=wish.overrides,
        told=wish.own,
        added_at=time.time(),
        **{**fixed, "gpus": gpus, "gpu_bytes": gpu_bytes, "is_job": wish.is_job, "array": wish.array},
    )


def _contents(files: Iterable[Path | str]) -> dict[str, str]:
    """By path: the SHA-256 of what it says; a file that cannot be read has none. Not while the queue is
    locked: a disk may not answer.
    """
    prints = ((str(path), fingerprint(str(path))) for path in files)
    return {path: file_print.sha256 for path, file_print in prints if file_print.sha256}


def _place(wish: QueueRequest, others: Sequence[QueueEntry]) -> tuple[str, Path]:
    """Its name and its folder, which nobody else has or will have."""
    taken_names = {each.name for each in others}
    folders = {each.folder for each in others}
    folder = wish.folder

    def is_free(name: str, candidate: Path) -> bool:
        experiment = find_experiment(name)
        return (
            name not in taken_names
            and str(candidate) not in folders  # both were resolved: other people's disks may not answer
            and (experiment is None or same_folder(experiment.output_dir, str(candidate)))
            and (wish.is_resumed or not (wish.is_taken if candidate == folder else _holds_files(candidate)))
        )

    if wish.own:
        stem = f"{wish.name}-{wish.own_name}"
        for number in range(1, 1000):
            name = _shortened(stem, "" if number == 1 else f"-{number}")
            if is_free(name, folder.parent / name):
                return name, folder.parent / name
    if is_free(wish.name, folder):
        return wish.name, folder
    if wish.is_named:
        if is_free(wish.name, folder.parent / wish.name):
            return wish.name, folder.parent / wish.name
        raise ConflictError(
            f"the name {wish.name} or the folder {folder} is taken", hint="choose others with -n and -o"
        )
    for number in range(2, 1000):
        other = folder.with_name(f"{folder.name}-{number}")
        if is_free(_shortened(other.name), other):
            return _shortened(other.name), other
    raise ConflictError(f"no name like {wish.name} is free", hint="choose one with -n NAME")


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _shortened(name: str, end: str = "") -> str:
    """With `end`, at most as long as the name of an experiment may be."""
    if len(name) + len(end) <= _LONGEST_NAME:
        return name + end
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - len(end) - 7]}-{digest}{end}"


# --- changing it ------------------------------------------------------------------------------------------


def pause() -> RunQueue:
    """Start nothing any more; what runs goes on."""
    return change_queue(lambda queue: queue.model_copy(update={"paused": queue.paused or "by hand"}))


def resume(*, after_reboot: bool | None = None) -> RunQueue:
    def change(queue: RunQueue) -> RunQueue:
        told = {} if after_reboot is None else {"after_reboot": after_reboot}
        return queue.model_copy(update={"paused": "", "told": "", **told})

    queue = change_queue(change)
    ensure_scheduler()
    return queue


def limit(most: int | None) -> RunQueue:
    """So many run at once, of all; `None`: as devices allow, without devices one."""
    queue = change_queue(lambda queue: queue.model_copy(update={"max_parallel": most}))
    ensure_scheduler()
    return queue


def remove(words: Sequence[str]) -> tuple[QueueEntry, ...]:
    """Take these out: what waits is not started, what has ended is forgotten. Their runs stay.

    Raises:
        UsageError: if there is no such entry, or sweep.
        ConflictError: if one runs and was named alone; of a sweep, those that run stay.
    """
    gone: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        gone.clear()
        for word in words:
            found = _found(queue, word)
            going = [each for each in found if each.state == "waiting" or not each.is_open]
            if not going:
                names = join_words([each.name for each in found])
                raise ConflictError(
                    f"{names} {found[0].state}", hint=f"end it: {hints.DOWN(name=found[0].name)}"
                )
            gone.extend(going)
        return queue.with_entries(each for each in queue.entries if each not in gone)

    change_queue(change)
    return tuple(gone)


def move(word: str, place: str) -> RunQueue:
    """Put what waits of it `first`, `last`, or at that number among those that wait, counted from 1.

    Raises:
        UsageError: if there is no such entry, or no such place.
    """
    number = parse_whole_number(place)
    if place not in ("first", "last", "up", "down") and not number:
        raise UsageError(
            f"{place!r} is no place in the queue", hint="first, last, up, down, or a number from 1"
        )

    def change(queue: RunQueue) -> RunQueue:
        moved = [entry for entry in _found(queue, word) if entry.state == "waiting"]
        if not moved:
            raise UsageError(f"nothing of {word} waits")
        waiting = [entry for entry in queue.entries if entry.state == "waiting"]
        rest = [entry for entry in waiting if entry not in moved]
        before = waiting.index(moved[0])
        at = {"first": 0, "last": len(rest), "up": max(0, before - 1), "down": before + 1}.get(place)
        at = (number or 1) - 1 if at is None else at
        others = [entry for entry in queue.entries if entry.state != "waiting"]
        priority = _between(rest, at, moved[0].priority)
        placed = [entry.model_copy(update={"priority": priority}) for entry in moved]
        return queue.with_entries([*others, *rest[:at], *placed, *rest[at:]])

    return change_queue(change)


def _between(rest: Sequence[QueueEntry], at: int, own: int) -> int:
    """The priority that a place among others needs, so that it is one."""
    before = [entry.priority for entry in rest[:at]]
    after = [entry.priority for entry in rest[at:]]
    least, most = max(after, default=own), min(before, default=own)
    return min(max(own, least), most) if before else max(own, least)


def retry(
    words: Sequence[str], mend: Callable[[QueueEntry], Mapping[str, Any]] = lambda _: {}
) -> tuple[QueueEntry, ...]:
    """Let these wait again: what failed or was stopped goes on where it was; config files count as they are.
    `mend`: fields of an entry that get another value.

    Raises:
        UsageError: if there is no such entry, or sweep; as `mend`, and then nothing was changed.
    """
    queue = read_queue()
    chosen = [each for word in words for each in _found(queue, word)]
    files = _contents({path for each in chosen for path in each.files})
    news = {each.id: mend(each) for each in chosen if ENTRY_STATES[each.state].can_be_retried}
    again: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        again.clear()
        for word in words:
            for each in _found(queue, word):
                if ENTRY_STATES[each.state].can_be_retried and (not each.is_open or len(words) == 1):
                    again.append(_afresh(each, files).model_copy(update=news.get(each.id, {})))
                    queue = queue.with_entry(again[-1])
        if not again:
            raise UsageError(f"nothing of {join_words(words)} failed, was stopped or waits")
        return queue

    change_queue(change)
    ensure_scheduler()
    return tuple(again)


def _afresh(entry: QueueEntry, files: Mapping[str, str]) -> QueueEntry:
    own = {path: files[path] for path in entry.files if path in files}
    fields = {"state": "waiting", "why": "", "failures": 0, "not_before": None, "ended_at": None}
    return entry.model_copy(update={**fields, "outcome": None, "files": own})


def _found(queue: RunQueue, word: str) -> list[QueueEntry]:
    """The entry of that id, or of that name, the newest, rather one that is open; or those of that sweep."""
    if (entry := queue.entry(word)) is not None:
        return [entry]
    named = [each for each in queue.entries if each.name == word]
    if named:
        return [each for each in named if each.is_open][-1:] or named[-1:]
    if of_group := [each for each in queue.entries if each.group == word]:
        return of_group
    names = dict.fromkeys((*(each.name for each in queue.entries), *(each.group for each in queue.entries)))
    raise unknown_name("entry of the queue", word, [name for name in names if name])


# --- its supervisor ---------------------------------------------------------------------------------------


def is_scheduler_running() -> bool:
    """A supervisor of the queue lives."""
    if not queue_folder().is_dir():
        return False
    lock = supervisor_lock()
    is_free = lock.acquire()
    lock.release()
    return not is_free


def ensure_scheduler() -> None:
    """Have a supervisor of the queue, where there is something to do.

    Raises:
        RltuiError: if it cannot be started.
    """
    if not read_queue().is_idle and not is_scheduler_running():
        # By a process of its own: the TUI, which may have asked, must not import libtmux.
        try:
            subprocesses.check_output(
                module_command("rltui.scheduler", START), timeout_s=START_TIMEOUT_S + 10
            )
        except RltuiError as error:
            raise RltuiError(
                "the queue has no supervisor, and none can be started",
                details=[error.title],
                hint=f"what was asked for is in the queue; start one: {hints.QUEUE}",
            ) from None
