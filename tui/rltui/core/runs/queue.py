"""The queue of runs: its entries, which one may start, and reasons to wait. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from rltui.base.kinds import EXPERIMENT_NAME
from rltui.base.secrets import is_secret
from rltui.base.values import Value
from rltui.core import hints
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.experiment.states import ENTRY_STATES, RETRYING, RUN_STATES, EntryState
from rltui.core.runs.evals import EvalRequest
from rltui.errors import UsageError

QueueAction = Literal["pause", "resume", "remove", "retry", "move"]
Outcome = Literal["done", "failed", "stopped", "lost"]

REBOOTED = "the machine was restarted"
"""Reason of a pause that nobody requested."""
_BACKOFF_S, _LONGEST_BACKOFF_S, _BACKOFF_FACTOR = 5.0, 300.0, 4.0
_MOST_ENDED = 200
"""Number of finished entries that are stored, the newest."""
_RULE = re.compile(r"(?P<condition>.+?)(?:\s+at\s+(?:step\s+)?(?P<step>\d{1,15}))?", re.DOTALL)
_KEPT_VARIABLE = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|TMPDIR|TMUX_TMPDIR|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|SLURM_CONF|SLURM_CLUSTERS"
    r"|(CUDA|NVIDIA|HF|RLTUI|XDG|LC|CONDA|UV|TORCH|NCCL|OMP|VLLM|WANDB|PRIME|SBATCH)_.+"
)


def is_kept_variable(name: str) -> bool:
    """Whether a variable of the environment is stored with an entry. A variable that may be a key
    never is.
    """
    return bool(_KEPT_VARIABLE.fullmatch(name)) and not is_secret(name)


class LaunchEnvironment(Value):
    """Variables at the time an entry was added, which its start uses, and the folder that it was added in."""

    cwd: str
    variables: dict[str, str] = field(default_factory=dict)
    """Variables of the environment that may be stored: no keys."""


class QueueOptions(Value):
    gpus: int | None = None
    """Number of devices it needs; `None`: it needs none, or the number is unknown."""
    is_job: bool = False
    """It is submitted to SLURM: it takes nothing of this machine, and waits for nothing here."""
    gpu_bytes: int = 0
    """Memory that it needs of each device, as far as known."""
    retries: int = 0
    stop_if: tuple[str, ...] = ()
    """Rules, each enough to end it: `reward < 0.2 at 50`."""
    priority: int = 0
    """Entries with higher ones go first."""
    max_parallel: int | None = None
    """Limit of simultaneous runs in its group."""


class QueueEntry(QueueOptions):
    """A run that is to be started once, and started again if it fails and has retries."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}\Z")]
    """Files are named by it."""
    name: Annotated[str, Meta(pattern=f"^{EXPERIMENT_NAME}\\Z")]
    """Name of the experiment."""
    folder: Annotated[str, Meta(pattern=r"^/[^\x00]*\Z")]
    group: str = ""
    request: ExperimentRequest | None = None
    """The run that it is; `None`: an older version added it, which knew only its `words`."""
    words: tuple[str, ...] = ()
    """Arguments of `rltui up` as somebody typed them, for display; none: it is a fork."""
    overrides: tuple[str, ...] = ()
    """The same for those after `--`."""
    evals: tuple[EvalRequest, ...] = ()
    """Evaluations that are queued with its first start."""
    array: str = ""
    """The job array that its first start becomes a task of, and the task's number."""
    told: str = ""
    """Values of this entry in a sweep: `lr=1e-06 seed=0`."""
    files: dict[str, str] = field(default_factory=dict)
    """Path of a config file → the SHA-256 of its content when the entry was added."""
    surroundings: str = ""
    """Name of its launch environment in the queue."""
    added_at: float
    by: Actor | None = None
    """Who added it; `None`: an earlier version did."""
    accepted: Actor | None = None
    """The person who has accepted an entry that an agent proposed."""
    state: EntryState = "queued"
    outcome: Outcome | None = None
    """State after the end, known in state `stopping`."""
    why: str = ""
    """Reason why it waits (also in the queue of SLURM), failed or was stopped, in words."""
    failure: str = ""
    failures: int = 0
    not_before: float | None = None
    """Earliest next start, after a failure."""
    attempts_before: int = 0
    """Attempts in its folder when its last start began."""
    devices: str = ""
    """Devices of the run, in the grammar of `CUDA_VISIBLE_DEVICES`."""
    run: str = ""
    """Id of the run, once it is known."""
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def is_open(self) -> bool:
        return ENTRY_STATES[self.state].is_open

    @property
    def is_proposed(self) -> bool:
        """An agent has queued it, and no person has accepted it so far."""
        return self.state == "queued" and self.by is not None and self.by.is_agent and self.accepted is None

    def run_request(self, *, is_resumed: bool) -> ExperimentRequest:
        """The request of its next start. `is_resumed`: an earlier start made its run, which goes on.

        Raises:
            UsageError: if an older version added it.
        """
        request = self.request
        if request is None:
            raise UsageError(self.outdated)
        host_options = request.host_options
        if self.array and not is_resumed:
            host_options = {kind: {**options, "array": self.array} for kind, options in host_options.items()}
        return replace(
            request,
            name=self.name,
            output_dir=Path(self.folder),
            devices=self.devices or request.devices,
            host_options=host_options,
            earlier_run="resume" if is_resumed else request.earlier_run,
            origin=replace(request.origin, entry=self.id, group=self.group),
        )

    @property
    def outdated(self) -> str:
        """Reason why it cannot start if an older version added it; else empty."""
        if self.request is not None:
            return ""
        return f"an older version of rltui queued it; to queue it again: {hints.QUEUE_RETRY(entry=self.name)}"

    def ended(self, outcome: Outcome, reason: str, now: float) -> QueueEntry:
        """The entry after its end: it waits for another try if it failed and has one left."""
        is_failure = RUN_STATES[outcome].is_failure
        if is_failure and self.failures < self.retries:
            pause = min(_LONGEST_BACKOFF_S, _BACKOFF_S * _BACKOFF_FACTOR**self.failures)
            retry = {"state": "queued", "outcome": None, "failure": reason, "not_before": now + pause}
            return self.replace(**retry, failures=self.failures + 1)
        failed = {"failure": reason, "failures": self.failures + 1} if is_failure else {}
        return self.replace(state=outcome, outcome=None, why=reason, ended_at=now, **failed)


class RunQueue(Value):
    """The whole queue as stored on disk: `rltui queue --json`."""

    entries: tuple[QueueEntry, ...] = ()
    """In the order in which they may start; priorities count on top."""
    surroundings: dict[str, LaunchEnvironment] = field(default_factory=dict)
    paused: str = ""
    """Reason why nothing is started; empty: the queue runs."""
    after_reboot: bool = False
    """It goes on by itself after a restart of the machine."""
    boot: str = ""
    """Boot id of the machine at the last write."""
    max_parallel: int | None = None
    """Limit of simultaneous runs on this machine; `None`: as devices allow, without devices one."""
    told: str = ""
    """Message about the queue itself, such as that its file was damaged."""

    def entry(self, id_: str) -> QueueEntry | None:
        """The entry of that id; `None` if it was removed meanwhile."""
        return next((entry for entry in self.entries if entry.id == id_), None)

    def with_entry(self, entry: QueueEntry) -> RunQueue:
        """The queue with this entry in place of the one of its id; unchanged if there is none."""
        entries = tuple(entry if old.id == entry.id else old for old in self.entries)
        return self.replace(entries=entries)

    def with_entries(self, entries: Iterable[QueueEntry]) -> RunQueue:
        """The queue with these entries in place of all; the oldest finished ones are dropped, and unused
        environments.
        """
        new_entries = tuple(entries)
        finished = sorted((entry.ended_at or 0.0, entry.id) for entry in new_entries if not entry.is_open)
        forgotten = {id_ for _, id_ in finished[: max(0, len(finished) - _MOST_ENDED)]}
        new_entries = tuple(entry for entry in new_entries if entry.id not in forgotten)
        used_names = {entry.surroundings for entry in new_entries}
        environments = {name: entry for name, entry in self.surroundings.items() if name in used_names}
        return self.replace(entries=new_entries, surroundings=environments)

    @property
    def is_idle(self) -> bool:
        """True if nothing can be done now, or nothing before a person resumes the queue."""
        states = {entry.state for entry in self.entries if entry.is_open}
        return not states or (bool(self.paused) and states == {"queued"})

    def since_boot(self, boot: str) -> RunQueue:
        """The queue on a machine that was started as `boot`: runs of an earlier boot are over."""
        if not self.boot or not boot or self.boot == boot or not any(entry.is_open for entry in self.entries):
            return self.replace(boot=boot or self.boot)
        paused = self.paused or ("" if self.after_reboot else REBOOTED)
        entries = tuple(map(_after_reboot, self.entries))
        return self.replace(boot=boot, paused=paused, entries=entries)


def _after_reboot(entry: QueueEntry) -> QueueEntry:
    if entry.state == "stopping" and entry.outcome is not None:
        return entry.ended(entry.outcome, entry.why, entry.started_at or entry.added_at)
    if entry.state in ("starting", "running"):
        return entry.replace(state="queued", why=REBOOTED)
    return entry


@dataclass(frozen=True, slots=True)
class NextStart:
    start: QueueEntry | None = None
    """The entry that starts now, with its devices."""
    waits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Id of each other waiting entry → reason."""


Devices = Callable[[QueueEntry], tuple[str, str]]
"""Returns devices for an entry, in the grammar of `CUDA_VISIBLE_DEVICES`, or `""` and the reason why there
are none.
"""


def decide(
    queue: RunQueue, now: float, *, devices: Devices, changed: Callable[[QueueEntry], str]
) -> NextStart:
    """The next entry to start. At most one, and none while another start is under way: its needs are visible
    later.

    Of entries that wait for a slot or for devices, none overtakes another; jobs need neither. An entry that
    waits for a reason of its own (its sweep, its back-off, a file) holds up nobody. `changed`: returns the
    changes since the entry was added, in words.
    """
    holding = [candidate for candidate in queue.entries if ENTRY_STATES[candidate.state].holds_devices]
    waits: dict[str, str] = {}
    start: QueueEntry | None = None
    starting_name = next((candidate.name for candidate in holding if candidate.state == "starting"), "")
    blockers = dict.fromkeys(
        (True, False), f"{starting_name} is starting" if starting_name else ""
    )  # jobs, others
    for entry in sorted(
        (candidate for candidate in queue.entries if candidate.state == "queued"),
        key=lambda candidate: -candidate.priority,
    ):
        reason = _blocking_reason(queue, entry, holding, now) or changed(entry) or blockers[entry.is_job]
        if not reason:
            devices_text, reason = _assign_devices(queue, entry, holding, devices)
            if reason:
                blockers[entry.is_job] = f"after {entry.name}: {reason}"
            else:
                start = entry.replace(devices=devices_text)
                blockers = {
                    kind: candidate or f"{entry.name} is starting" for kind, candidate in blockers.items()
                }
                continue
        waits[entry.id] = reason
    return NextStart(start, waits)


def _blocking_reason(queue: RunQueue, entry: QueueEntry, holding: Sequence[QueueEntry], now: float) -> str:
    """Reason why it waits although others need not."""
    if queue.paused:
        return f"the queue is paused: {queue.paused}" if queue.paused == REBOOTED else "the queue is paused"
    if 0 < (entry.not_before or 0.0) - now <= _LONGEST_BACKOFF_S:  # longer: the clock was set back
        return f"{entry.failure}; {RETRYING}"
    if entry.outdated:
        return entry.outdated
    if entry.group and entry.max_parallel is not None:
        running = sum(other.group == entry.group for other in holding)
        if running >= entry.max_parallel:
            return f"{entry.group}: {running} of at most {entry.max_parallel} running"
    return ""


def _assign_devices(
    queue: RunQueue, entry: QueueEntry, holding: Sequence[QueueEntry], devices: Devices
) -> tuple[str, str]:
    """Devices for the entry, and the reason why it has no slot; empty if it has one."""
    if entry.is_job:
        return "", ""
    here = [other for other in holding if not other.is_job]
    if queue.max_parallel is not None and len(here) >= queue.max_parallel:
        return "", f"{len(here)} of at most {queue.max_parallel} running"
    if entry.gpus:
        return devices(entry)
    if queue.max_parallel is None and entry.max_parallel is None:
        others = [other.name for other in here if not other.gpus]
        if others:
            return "", f"{others[0]} is running; without devices, runs start one at a time"
    return "", ""


def stop_rule(text: str) -> tuple[str, int | None]:
    """The condition of a rule, and the step at which it is tested; `None`: at every one."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        return text.strip(), None
    return match["condition"], int(match["step"]) if match["step"] else None
