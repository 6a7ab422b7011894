"""Commands of the queue: add, remove, move, pause. A running scheduler sees changes; else one is started."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import string
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from rltui import paths
from rltui.base.interpreter import OUTER_VARIABLES, module_command
from rltui.base.text import join_words, numbered, parse_whole_number, unknown_name
from rltui.core import hints
from rltui.core.experiment.rights import Act
from rltui.core.experiment.states import ENTRY_STATES
from rltui.core.runs.queue import (
    LaunchEnvironment,
    QueueEntry,
    QueueOptions,
    RunQueue,
    is_kept_variable,
)
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.actor import actor
from rltui.services.experiment.files import same_folder
from rltui.services.experiment.registry import find_experiment
from rltui.services.experiment.rights import require, trials_of
from rltui.services.fingerprints import fingerprint
from rltui.services.processes import subprocesses
from rltui.services.runs.queue_file import change_queue, read_queue, scheduler_lock

if TYPE_CHECKING:
    from rltui.client.fork import Fork
    from rltui.core.experiment.request import ExperimentRequest
    from rltui.core.runs.evals import EvalRequest
    from rltui.services.experiment.files import ExperimentRecord

START = "start"
"""Argument of `python -m rltui.scheduler` that starts it in the private tmux server."""
START_TIMEOUT_S = 20.0
_ID_LETTERS = string.ascii_lowercase + string.digits
_ID_LENGTH = 8
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 48
_UNTRIED: Mapping[str, Any] = {
    "state": "queued", "why": "", "failures": 0, "not_before": None, "ended_at": None, "outcome": None,
}  # fmt: skip
"""Fields of an entry that nobody has tried to start."""


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """A run as somebody wants it, and what the queue needs to know of it."""

    request: ExperimentRequest
    name: str
    folder: Path
    """Output folder that it would have now, like the name."""
    words: tuple[str, ...] = ()
    """Arguments of `rltui up` as they were typed; none for a fork."""
    overrides: tuple[str, ...] = ()
    """The same for those after `--`."""
    files: tuple[Path, ...] = ()
    is_named: bool = False
    """True if a person chose the name."""
    own: str = ""
    """Differences from the others of its sweep; empty: it is in no sweep."""
    own_name: str = ""
    """The same as a part of a name."""
    needs: tuple[int | None, int] = (None, 0)
    """Devices, and memory of each in bytes, where nobody says how many."""
    is_job: bool = False
    jobs: tuple[str, ...] = ()
    """Components that would be jobs now, where somebody asked."""
    array: str = ""
    """The job array that it becomes a task of, and which one."""
    told: str = ""
    """What is different in it, in words, where it is in no sweep."""
    is_taken: bool = False
    """True if its folder holds an earlier run."""
    id: str = ""
    """Id of its entry; one that is there already stays. Empty: a new one."""
    evals: tuple[EvalRequest, ...] = ()
    """Evaluations that are queued with it."""


def fork_for_queue(fork: Fork) -> QueueRequest:
    """The request for the queue to start a fork, which its scheduler plans again from the same parent."""
    plan, record = fork.plan, fork.record
    return QueueRequest(
        fork.request,
        name=plan.name,
        folder=Path(plan.folder),
        is_named=True,
        told=fork_text(fork.request) or f"fork of {plan.parent}",
        needs=needs_of(record),
        is_job=is_submitted(record),
    )


def in_sweep(request: QueueRequest, point: Sequence[tuple[str, str]]) -> QueueRequest:
    """The request as one of a sweep, named by its values."""
    values = (_NOT_IN_NAMES.sub("_", key.rpartition(".")[2] + value).strip("_") for key, value in point)
    point_text = " ".join(f"{key}={value}" for key, value in point)
    return replace(request, own=point_text, own_name="-".join(values))


def fork_text(request: ExperimentRequest) -> str:
    """Return the changes of a fork, such as `lr=1e-4 from 20`."""
    changes = [f"{key}={value}" for key, value in request.config.edits.items()]
    step = request.origin.parent_step
    return " ".join([*changes, *([] if step is None else [f"from {step}"])])


def is_submitted(record: ExperimentRecord) -> bool:
    """True if all that it starts is submitted to a cluster."""
    from rltui.services.experiment import layout_files

    return all(spec.is_submitted for spec in layout_files.load_for(record).automatic)


def needs_of(record: ExperimentRecord) -> tuple[int | None, int]:
    """Number of devices that it would use here, and bytes that it needs of the fullest; none where it is
    submitted, a person named devices, or no GPU can be read.
    """
    from rltui.client.gpu import needed_bytes

    if record.devices or is_submitted(record):
        return None, 0
    sizes = needed_bytes(record)
    return len(sizes) or None, max(sizes.values(), default=0)


def add_to_queue(
    requests: Sequence[QueueRequest],
    options: QueueOptions,
    *,
    group: str = "",
    after_reboot: bool | None = None,
    around: LaunchEnvironment | None = None,
) -> tuple[QueueEntry, ...]:
    """Put them behind the others, in this order, and see to it that somebody minds the queue.

    `group`: name of a sweep; another one is found where there is such a one already. `after_reboot`: what the
    queue does from now on; `None`: as before. `around`: where they start; `None`: here.

    Raises:
        ConflictError: if a name or folder that was asked for is taken.
        RltuiError: if the queue cannot be written, or its supervisor not be started; then they wait in it.
    """
    around = around or launch_environment()
    key = hashlib.sha256(around.to_json()).hexdigest()[:12]
    contents = [_contents(request.files) for request in requests]
    requests = [replace(request, folder=request.folder.resolve()) for request in requests]
    by = actor()
    new_entries: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        new_entries.clear()
        used_groups = {entry.group for entry in queue.entries}
        is_shared = all(request.id for request in requests)  # others of the group may be there
        free_group = next(
            name for name in numbered(group) if is_shared or not name or name not in used_groups
        )
        shared_fields = {**asdict(options), "group": free_group, "surroundings": key, "by": by}
        for request, files in zip(requests, contents, strict=True):
            if request.id and queue.entry(request.id) is not None:
                continue
            new_entries.append(
                _entry(request, (*queue.entries, *new_entries), {**shared_fields, "files": files})
            )
        _require_entries(queue, new_entries, is_new=True)
        entries = (*queue.entries, *new_entries)
        rule_change = {} if after_reboot is None else {"after_reboot": after_reboot}
        everywhere = {**queue.surroundings, key: around}
        return queue.replace(surroundings=everywhere, **rule_change).with_entries(entries)

    change_queue(change)
    ensure_scheduler()
    return tuple(new_entries)


def launch_environment() -> LaunchEnvironment:
    """The environment of this process, for starts later on."""
    variables = {
        name: value
        for name, value in sorted(os.environ.items())
        if is_kept_variable(name) and name not in OUTER_VARIABLES
    }
    return LaunchEnvironment(cwd=os.getcwd(), variables=variables)  # noqa: PTH109 - as the child is told


def _require_entries(queue: RunQueue, entries: Iterable[QueueEntry], *, is_new: bool = False) -> None:
    """Return where whoever acts here may add or change these entries: an agent its own, which wait for a
    person where it may only propose.

    Raises:
        UsageError: if it may not.
    """
    who = actor()
    for number, entry in enumerate(entries, 1):
        act = Act("queue", entry.name, queues=number if is_new else 0)
        require(act, can_wait=who.is_same(entry.by), trials=trials_of(queue, who.name))


def _entry(
    request: QueueRequest, other_entries: Sequence[QueueEntry], shared_fields: dict[str, Any]
) -> QueueEntry:
    name, folder = _name_and_folder(request, other_entries)
    gpus, gpu_bytes = request.needs
    if shared_fields["gpus"] is not None:
        gpus = shared_fields["gpus"]
    return QueueEntry(
        id=request.id or new_id(),
        name=name,
        folder=str(folder),
        request=request.request,
        evals=request.evals,
        words=request.words,
        overrides=request.overrides,
        told=request.own or request.told,
        added_at=time.time(),
        **{
            **shared_fields,
            "gpus": gpus,
            "gpu_bytes": gpu_bytes,
            "is_job": request.is_job,
            "array": request.array,
        },
    )


def new_id() -> str:
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def _contents(files: Iterable[Path | str]) -> dict[str, str]:
    """Path → SHA-256 of each readable file. Not called while the queue is locked: a disk may not answer."""
    prints = ((str(path), fingerprint(str(path))) for path in files)
    return {path: file_print.sha256 for path, file_print in prints if file_print.sha256}


def _name_and_folder(request: QueueRequest, other_entries: Sequence[QueueEntry]) -> tuple[str, Path]:
    """Name and folder of the entry, which no other entry or experiment has."""
    used_names = {entry.name for entry in other_entries}
    folders = {entry.folder for entry in other_entries}
    folder = request.folder

    def is_free(name: str, candidate: Path) -> bool:
        experiment = find_experiment(name)
        return (
            name not in used_names
            and str(candidate) not in folders  # both were resolved: other people's disks may not answer
            and (experiment is None or same_folder(experiment.output_dir, str(candidate)))
            and (
                request.request.earlier_run == "resume"
                or not (
                    request.is_taken
                    if candidate == folder
                    else candidate.is_dir() and any(candidate.iterdir())
                )
            )
        )

    if request.own:
        stem = f"{request.name}-{request.own_name}"
        for number in range(1, 1000):
            name = _shortened(stem, "" if number == 1 else f"-{number}")
            if is_free(name, folder.parent / name):
                return name, folder.parent / name
    if is_free(request.name, folder):
        return request.name, folder
    if request.is_named:
        if is_free(request.name, folder.parent / request.name):
            return request.name, folder.parent / request.name
        raise ConflictError(
            f"the name {request.name} or the folder {folder} is taken",
            hint="choose others with -n and -o",
            code="name_taken",
        )
    for number in range(2, 1000):
        candidate = folder.with_name(f"{folder.name}-{number}")
        if is_free(_shortened(candidate.name), candidate):
            return _shortened(candidate.name), candidate
    raise ConflictError(f"no name like {request.name} is free", hint="choose one with -n NAME")


def _shortened(name: str, end: str = "") -> str:
    """The text and `end`, cut to the length that an experiment's name may have."""
    if len(name) + len(end) <= _LONGEST_NAME:
        return name + end
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - len(end) - 7]}-{digest}{end}"


# --- changing it ------------------------------------------------------------------------------------------


def pause() -> RunQueue:
    """Start nothing any more; what runs goes on."""
    require(Act("queue"))
    return change_queue(lambda queue: queue.replace(paused=queue.paused or "by hand"))


def resume(*, after_reboot: bool | None = None) -> RunQueue:
    require(Act("queue"))

    def change(queue: RunQueue) -> RunQueue:
        rule_change = {} if after_reboot is None else {"after_reboot": after_reboot}
        return queue.replace(paused="", told="", **rule_change)

    queue = change_queue(change)
    ensure_scheduler()
    return queue


def limit(most: int | None) -> RunQueue:
    """Set how many entries run at once; `None`: as devices allow, without devices one."""
    require(Act("queue"))
    queue = change_queue(lambda queue: queue.replace(max_parallel=most))
    ensure_scheduler()
    return queue


def remove(references: Sequence[str]) -> tuple[QueueEntry, ...]:
    """Take these out: what waits is not started, what has ended is forgotten. Their runs stay.

    Raises:
        UsageError: if there is no such entry, or sweep.
        ConflictError: if one runs and was named alone; of a sweep, those that run stay.
    """
    removed: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        removed.clear()
        for reference in references:
            matches = entries_of(queue, reference)
            removable = [entry for entry in matches if entry.state == "queued" or not entry.is_open]
            if not removable:
                names = join_words([entry.name for entry in matches])
                raise ConflictError(
                    f"{names} is {matches[0].state}",
                    hint=f"to end the run: {hints.DOWN(name=matches[0].name)}",
                )
            _require_entries(queue, removable)
            removed.extend(removable)
        return queue.with_entries(entry for entry in queue.entries if entry not in removed)

    change_queue(change)
    return tuple(removed)


def move(name: str, position: str) -> RunQueue:
    """Put what waits of it `first`, `last`, or at that number among those that wait, counted from 1.

    Raises:
        UsageError: if there is no such entry, or no such place.
    """
    number = parse_whole_number(position)
    if position not in ("first", "last", "up", "down") and not number:
        raise UsageError(
            f"{position!r} is not a position in the queue", hint="use first, last, up, down or a number ≥ 1"
        )

    def change(queue: RunQueue) -> RunQueue:
        moving = [entry for entry in entries_of(queue, name) if entry.state == "queued"]
        if not moving:
            raise UsageError(f"no entry of {name} is queued")
        _require_entries(queue, moving)
        waiting_entries = [entry for entry in queue.entries if entry.state == "queued"]
        remaining = [entry for entry in waiting_entries if entry not in moving]
        before = waiting_entries.index(moving[0])
        index = {"first": 0, "last": len(remaining), "up": max(0, before - 1), "down": before + 1}.get(
            position
        )
        index = (number or 1) - 1 if index is None else index
        other_entries = [entry for entry in queue.entries if entry.state != "queued"]
        priority = _between(remaining, index, moving[0].priority)
        moved_entries = [entry.replace(priority=priority) for entry in moving]
        return queue.with_entries([*other_entries, *remaining[:index], *moved_entries, *remaining[index:]])

    return change_queue(change)


def _between(neighbours: Sequence[QueueEntry], index: int, priority: int) -> int:
    """The priority that a place among others needs, so that it is one."""
    before = [entry.priority for entry in neighbours[:index]]
    after = [entry.priority for entry in neighbours[index:]]
    least, most = max(after, default=priority), min(before, default=priority)
    return min(max(priority, least), most) if before else max(priority, least)


def retry(
    names: Sequence[str], mend: Callable[[QueueEntry], Mapping[str, Any]] = lambda _: {}
) -> tuple[tuple[QueueEntry, ...], tuple[QueueEntry, ...]]:
    """Let these wait again: what failed or was stopped goes on where it was; config files count as they are.
    `mend`: fields of an entry that get another value. Returns those that wait again, and the others.

    Raises:
        UsageError: if there is no such entry, or sweep; as `mend`, and then nothing was changed.
    """
    queue = read_queue()
    matches = [entry for name in names for entry in entries_of(queue, name)]
    files = _contents({path for entry in matches for path in entry.files})
    changes = {entry.id: mend(entry) for entry in matches if ENTRY_STATES[entry.state].can_be_retried}
    by = actor()
    new_entries: list[QueueEntry] = []
    others: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        new_entries.clear()
        others.clear()
        for name in names:
            _require_entries(queue, entries_of(queue, name))
            for entry in entries_of(queue, name):
                if ENTRY_STATES[entry.state].can_be_retried and (not entry.is_open or len(names) == 1):
                    own_files = {path: files[path] for path in entry.files if path in files}
                    update = {**_UNTRIED, "files": own_files, "by": by, **changes.get(entry.id, {})}
                    if by.is_agent:
                        update["accepted"] = None
                    new_entries.append(entry.replace(**update))
                    queue = queue.with_entry(new_entries[-1])
                else:
                    others.append(entry)
        if not new_entries:
            raise UsageError(f"no entry of {join_words(names)} is queued, stopped, failed or lost")
        return queue

    change_queue(change)
    ensure_scheduler()
    again = {entry.id for entry in new_entries}
    return tuple(new_entries), tuple(entry for entry in others if entry.id not in again)


def answer(reference: str, *, accepted: bool, word: str = "") -> tuple[QueueEntry, ...]:
    """Let what an agent has queued start, or decline it with a word.

    Raises:
        UsageError: if an agent answers, or no entry of that name waits for a person.
    """
    require(Act("agents"))
    person = actor()
    answered: list[QueueEntry] = []

    def change(queue: RunQueue) -> RunQueue:
        answered.clear()
        for entry in entries_of(queue, reference):
            if entry.is_proposed:
                if accepted:
                    now = entry.replace(accepted=person)
                else:
                    reason = f"declined by {person.short}{f': {word}' if word else ''}"
                    now = entry.ended("stopped", reason, time.time())
                queue = queue.with_entry(now)
                answered.append(now)
        if not answered:
            raise UsageError(f"no entry of {reference} waits for a person", hint=hints.PROPOSALS())
        return queue

    change_queue(change)
    ensure_scheduler()
    return tuple(answered)


def entries_of(queue: RunQueue, reference: str) -> list[QueueEntry]:
    """The entry of that id, or of that name, the newest, rather one that is open; or those of that sweep."""
    if (entry := queue.entry(reference)) is not None:
        return [entry]
    same_name = [entry for entry in queue.entries if entry.name == reference]
    if same_name:
        return [entry for entry in same_name if entry.is_open][-1:] or same_name[-1:]
    if of_group := [entry for entry in queue.entries if entry.group == reference]:
        return of_group
    names = dict.fromkeys(
        (*(entry.name for entry in queue.entries), *(entry.group for entry in queue.entries))
    )
    raise unknown_name("queue entry", reference, [name for name in names if name])


# --- its supervisor ---------------------------------------------------------------------------------------


def is_scheduler_running() -> bool:
    if not paths.queue_folder().is_dir():
        return False
    lock = scheduler_lock()
    is_free = lock.acquire()
    lock.release()
    return not is_free


def ensure_scheduler() -> None:
    """Have a scheduler of the queue, where there is something to do.

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
                "the queue has no scheduler and cannot start one",
                details=[error.title],
                hint=f"the request is in the queue; start a scheduler: {hints.QUEUE}",
            ) from None
