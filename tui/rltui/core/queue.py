"""The queue of runs: its entries, who may start, who waits and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from rltui.core.kinds import EXPERIMENT_NAME
from rltui.core.secrets import is_secret
from rltui.core.states import ENTRY_STATES, EntryState
from rltui.core.values import Value

QueueAction = Literal["pause", "resume", "remove", "retry", "move"]
Outcome = Literal["done", "failed", "stopped"]

REBOOTED = "the machine was restarted"
"""Why a queue is paused that nobody paused."""
_BACKOFF_S, _LONGEST_BACKOFF_S, _BACKOFF_FACTOR = 5.0, 300.0, 4.0
_MOST_ENDED = 200
"""So many entries that ended are remembered, the newest."""
_RULE = re.compile(r"(?P<condition>.+?)(?:\s+at\s+(?:step\s+)?(?P<step>\d{1,15}))?", re.DOTALL)
_KEPT_VARIABLE = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|TMPDIR|TMUX_TMPDIR|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|SLURM_CONF|SLURM_CLUSTERS"
    r"|(CUDA|NVIDIA|HF|RLTUI|XDG|LC|CONDA|UV|TORCH|NCCL|OMP|VLLM|WANDB|PRIME|SBATCH)_.+"
)


def is_kept_variable(name: str) -> bool:
    """Whether a variable of the environment is written down with an entry. What may be a key never is."""
    return bool(_KEPT_VARIABLE.fullmatch(name)) and not is_secret(name)


class LaunchEnvironment(Value):
    """Where an entry was added: its start happens there."""

    cwd: str
    variables: dict[str, str] = Field(default_factory=dict)
    """Of the environment, those that may be written down: no keys."""


class QueueOptions(Value):
    gpus: int | None = None
    """So many devices it needs; `None`: it needs none, or nobody knows."""
    is_job: bool = False
    """It is submitted to SLURM: it takes nothing of this machine, and waits for nothing here."""
    gpu_bytes: int = 0
    """Memory that it needs of each, as far as that is known."""
    retries: int = 0
    stop_if: tuple[str, ...] = ()
    """Rules, each enough to end it: `reward < 0.2 at 50`."""
    priority: int = 0
    """Higher ones go first."""
    max_parallel: int | None = None
    """So many of its group at once."""


class QueueEntry(QueueOptions):
    """A run that is to be started once, and started again where it fails and may."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    """Files are named by it."""
    name: Annotated[str, Field(pattern=f"^{EXPERIMENT_NAME}$")]
    """Of the experiment."""
    folder: Annotated[str, Field(pattern=r"^/[^\x00]*$")]
    group: str = ""
    words: tuple[str, ...] = ()
    """What `rltui up` is told: files and options."""
    overrides: tuple[str, ...] = ()
    """What stands behind `--`."""
    array: str = ""
    """The job array that its first start becomes a task of, and which one."""
    told: str = ""
    """What is its own in a sweep, in words: `lr=1e-06 seed=0`."""
    files: dict[str, str] = Field(default_factory=dict)
    """By path of a config file: the SHA-256 of what it said when the entry was added."""
    surroundings: str = ""
    """Name of those in the queue."""
    added_at: float
    state: EntryState = "waiting"
    outcome: Outcome | None = None
    """What it will be once it has ended, in state `ending`."""
    why: str = ""
    """Why it waits (also in the queue of SLURM), failed or was stopped, in words."""
    failure: str = ""
    failures: int = 0
    not_before: float | None = None
    """It waits until then, after a failure."""
    attempts_before: int = 0
    """Attempts in its folder when its last start began."""
    devices: str = ""
    """Those that it was given, as `CUDA_VISIBLE_DEVICES` lists them."""
    run: str = ""
    """Id of the run, once it is known."""
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def is_open(self) -> bool:
        return ENTRY_STATES[self.state].is_open

    def ended(self, outcome: Outcome, why: str, now: float) -> QueueEntry:
        """As it is once nothing of it runs: it waits for another try where it failed and has one left."""
        if outcome == "failed" and self.failures < self.retries:
            pause = min(_LONGEST_BACKOFF_S, _BACKOFF_S * _BACKOFF_FACTOR**self.failures)
            again = {"state": "waiting", "outcome": None, "failure": why, "not_before": now + pause}
            return self.model_copy(update={**again, "failures": self.failures + 1})
        failed = {"failure": why, "failures": self.failures + 1} if outcome == "failed" else {}
        return self.model_copy(
            update={"state": outcome, "outcome": None, "why": why, "ended_at": now, **failed}
        )


class RunQueue(Value):
    """`rltui queue --json`: all of it, as it lies on disk."""

    entries: tuple[QueueEntry, ...] = ()
    """In the order in which they may start; priorities count on top."""
    surroundings: dict[str, LaunchEnvironment] = Field(default_factory=dict)
    paused: str = ""
    """Why nothing is started; empty: it is."""
    after_reboot: bool = False
    """It goes on by itself once the machine was restarted."""
    boot: str = ""
    """Of the machine when it was written last."""
    max_parallel: int | None = None
    """So many at once, of all on this machine; `None`: as devices allow, without devices one."""
    told: str = ""
    """What a person should know of the queue itself, such as that its file was damaged."""

    def entry(self, id_: str) -> QueueEntry | None:
        """`None` where it was removed meanwhile."""
        return next((each for each in self.entries if each.id == id_), None)

    def with_entry(self, entry: QueueEntry) -> RunQueue:
        """With this one in the place of that of its id; unchanged where there is none."""
        entries = tuple(entry if each.id == entry.id else each for each in self.entries)
        return self.model_copy(update={"entries": entries})

    def with_entries(self, entries: Iterable[QueueEntry]) -> RunQueue:
        """With these in place of all; the oldest that ended are forgotten, and surroundings nobody needs."""
        kept = tuple(entries)
        ended = sorted((each.ended_at or 0.0, each.id) for each in kept if not each.is_open)
        gone = {id_ for _, id_ in ended[: max(0, len(ended) - _MOST_ENDED)]}
        kept = tuple(each for each in kept if each.id not in gone)
        used = {each.surroundings for each in kept}
        around = {name: each for name, each in self.surroundings.items() if name in used}
        return self.model_copy(update={"entries": kept, "surroundings": around})

    @property
    def is_idle(self) -> bool:
        """Nothing is to be done, or not before somebody resumes it."""
        states = {each.state for each in self.entries if each.is_open}
        return not states or (bool(self.paused) and states == {"waiting"})

    def since_boot(self, boot: str) -> RunQueue:
        """As it is to be understood on a machine that was started as `boot`: what ran elsewhere is over."""
        if not self.boot or not boot or self.boot == boot or not any(each.is_open for each in self.entries):
            return self.model_copy(update={"boot": boot or self.boot})
        paused = self.paused or ("" if self.after_reboot else REBOOTED)
        entries = tuple(map(_after_reboot, self.entries))
        return self.model_copy(update={"boot": boot, "paused": paused, "entries": entries})


def _after_reboot(entry: QueueEntry) -> QueueEntry:
    if entry.state == "ending" and entry.outcome is not None:
        return entry.ended(entry.outcome, entry.why, entry.started_at or entry.added_at)
    if entry.state in ("starting", "running"):
        return entry.model_copy(update={"state": "waiting", "why": REBOOTED})
    return entry


@dataclass(frozen=True, slots=True)
class NextStart:
    start: QueueEntry | None = None
    """The one that starts now, with its devices."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """By id of each other one that waits: why."""


Devices = Callable[[QueueEntry], tuple[str, str]]
"""Devices for an entry, as `CUDA_VISIBLE_DEVICES` lists them, or `""` and why there are none."""


def decide(
    queue: RunQueue, now: float, *, devices: Devices, changed: Callable[[QueueEntry], str]
) -> NextStart:
    """Who starts next. At most one, and none while another start is under way: what that takes shows later.

    Of those that wait for a place or for devices, none overtakes another; jobs need neither. Who waits for
    something of its own (its sweep, its back-off, a file) holds up nobody. `changed`: what is not as it was
    when the entry was added, in words.
    """
    holding = [each for each in queue.entries if ENTRY_STATES[each.state].holds_devices]
    waits: dict[str, str] = {}
    start: QueueEntry | None = None
    ahead = next((each.name for each in holding if each.state == "starting"), "")
    behind = dict.fromkeys((True, False), f"{ahead} is being started" if ahead else "")  # jobs, others
    for entry in sorted(
        (each for each in queue.entries if each.state == "waiting"), key=lambda each: -each.priority
    ):
        why = _own_reason(queue, entry, holding, now) or changed(entry) or behind[entry.is_job]
        if not why:
            given, why = _place(queue, entry, holding, devices)
            if why:
                behind[entry.is_job] = f"behind {entry.name}: {why}"
            else:
                start = entry.model_copy(update={"devices": given})
                behind = {kind: each or f"{entry.name} is being started" for kind, each in behind.items()}
                continue
        waits[entry.id] = why
    return NextStart(start, waits)


def _own_reason(queue: RunQueue, entry: QueueEntry, holding: Sequence[QueueEntry], now: float) -> str:
    """Why it waits although others need not."""
    if queue.paused:
        return f"the queue is paused: {queue.paused}" if queue.paused == REBOOTED else "the queue is paused"
    if 0 < (entry.not_before or 0.0) - now <= _LONGEST_BACKOFF_S:  # longer: the clock was set back
        return f"{entry.failure}; it is tried again"
    if entry.group and entry.max_parallel is not None:
        running = sum(each.group == entry.group for each in holding)
        if running >= entry.max_parallel:
            return f"{entry.group} has {running} at work, of at most {entry.max_parallel}"
    return ""


def _place(
    queue: RunQueue, entry: QueueEntry, holding: Sequence[QueueEntry], devices: Devices
) -> tuple[str, str]:
    """Its devices, and why it has no place; empty where it has."""
    if entry.is_job:
        return "", ""
    here = [each for each in holding if not each.is_job]
    if queue.max_parallel is not None and len(here) >= queue.max_parallel:
        return "", f"{len(here)} at work, of at most {queue.max_parallel}"
    if entry.gpus:
        return devices(entry)
    if queue.max_parallel is None and entry.max_parallel is None:
        others = [each.name for each in here if not each.gpus]
        if others:
            return "", f"{others[0]} runs, and without devices one runs at a time"
    return "", ""


def stop_rule(text: str) -> tuple[str, int | None]:
    """The condition of a rule, and the step at which it is looked at; `None`: at every one."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        return text.strip(), None
    return found["condition"], int(found["step"]) if found["step"] else None
