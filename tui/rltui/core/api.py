"""What the supervisor tells its clients. These models document every `--json` shape.

All are frozen values. Times are seconds since the epoch (`…_at`) or durations in seconds (`…_s`),
memory is in bytes. `None` means "unknown" or "does not apply".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Literal

from pydantic import Field, computed_field

from rltui.core.config_report import DerivedValue, FileConflict, KnobTable, PendingKnob, Problem
from rltui.core.evals import QueuedEval
from rltui.core.gpu.report import GpuReport, MemoryVerdict, OutOfMemory, Remedy
from rltui.core.servers import ServerStatus
from rltui.core.states import ComponentState
from rltui.core.values import Value

PROTOCOL_VERSION = 1
"""Raised when a client of the previous version would misunderstand a message."""


_URGENT = (ComponentState.FAILED, ComponentState.BACKOFF)
_ON_THE_WAY = (ComponentState.STOPPING, ComponentState.STARTING, ComponentState.WAITING)


class RollbackOffer(Value):
    """What to take back: an edit after which a component died within its start window, or the run went bad.

    `undo` with `restart` and this `resume_step` does it; where there are `edits`, `set` with those; a plain
    `restart` where neither an edit is to blame nor another value known that would help.
    """

    edit: str
    """The edit in words; empty where none is to blame."""
    component: str
    reason: str
    resume_step: int | None = None
    """The last good checkpoint, from before the edit; `None`: the newest will do, as the run is well."""
    edits: dict[str, str | None] = Field(default_factory=dict)
    """Knob → its value as TOML, `None` to remove it: before an edit that `undo` does not reach, or a lower
    learning rate where no edit is to blame."""


class HealthIssue(Value):
    """A reason to look at a run that goes on: it may not learn any more."""

    word: str
    """Such as `reward collapsed`."""
    text: str
    """All of it in words: the figures, what to do, where to go back to, what was edited."""
    id: str = ""
    """Of the rule, as the settings name it."""
    severity: Literal["error", "warning"] = "warning"
    component: str | None = None
    since: int | None = None
    """The first step of which it holds, counted from 1."""
    evidence: str = ""
    advice: str = ""
    last_good: int | None = None
    """The newest complete checkpoint from before `since`; `None` where there is none."""
    edits: tuple[str, ...] = ()
    """Edits of the config since that checkpoint, in words, oldest first."""
    back: RollbackOffer | None = None
    """How to go back to it; `None` where that alone would help nothing."""


class HostStatus(Value):
    """What is known of a component that runs elsewhere. Times are seconds since 1970."""

    where: str
    """`job 1234 on node-[1-2]`, `node-2`, `pod my-exp-trainer-0`."""
    phase: Literal["pending", "running", "ended"]
    """`pending`: its host has not begun to run it, for this `reason`."""
    reason: str = ""
    """In words; of a running one, what its host wants to be known."""
    since: float
    starts: int = 0
    ends_at: float | None = None
    """When its host will end it, whatever it does: the time limit of a job."""
    lost_at: float | None = None
    """Since when nobody answers there: all else that is said of it is as old."""
    problem: str = ""
    script: str = ""
    """The file that was submitted, where it is a job."""


class ComponentStatus(Value):
    id: str
    kind: Literal["service", "job"] = "job"
    state: ComponentState = ComponentState.STOPPED
    prepares: bool = False
    """A job that makes something the others need, once; not part of the run itself."""
    manual: bool = False
    """It starts only when somebody names it, is no part of the run, and is listed only while it is not
    `stopped`."""
    stalled: bool = False
    """It lives but gives no sign of life any more; `evidence` says what is missing."""
    evidence: str | None = None
    """Why it counts as stalled, in words."""
    reason: str | None = None
    """Why it is not running, or what it waits for, in words."""
    retry_at: float | None = None
    """When it is started again, in state `backoff`."""
    pid: int | None = None
    attempt: int | None = None
    """Number of the newest start, counted from 1."""
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended it, such as `SIGKILL`."""
    from_outside: bool = False
    """It was killed by somebody else: another start may well live."""
    started_at: float | None = None
    uptime_s: float | None = None
    log: str | None = None
    """Path of the newest attempt's output file."""
    log_end: int | None = None
    """Of one that was not ready in time: bytes of its log by then. Behind it stands how it was stopped."""
    host: HostStatus | None = None
    """Where it runs, if not on this machine, and what is said of it there; `None` until it was started."""
    port: int | None = None
    gpus: tuple[int, ...] = ()
    """NVML's indices of the devices it was given, as far as that is known."""
    out_of_memory: OutOfMemory | None = None
    """It ended for want of device memory: what its output says of that."""
    remedies: tuple[Remedy, ...] = ()
    """What would help against that, most advisable first."""
    facts: tuple[str, ...] = ()
    """Short texts for the pane title, most important first: `step 12`, `4.1 s/step`."""
    concerns: tuple[HealthIssue, ...] = ()
    """Those of the run that its figures tell, while it lives; the worst first."""


class FollowedLog(Value):
    """A log file that no component of the experiment prints, as the layout's `[[log]]` asks for it."""

    id: str
    title: str = ""
    """The layout's name for it; empty: the id."""
    wanted: tuple[str, ...] = ()
    """Where it is looked for, relative to the run's folder, with `*` and `?`."""
    path: str | None = None
    """The file that is followed; `None` while there is none."""
    name: str = ""
    """Its path relative to the run's folder."""
    size_bytes: int | None = None
    changed_at: float | None = None
    """When something was last written to it. Of a growing file this may be some seconds old."""


class Link(Value):
    """A page about the run that one of its programs named in its output."""

    title: str
    """Such as `W&B run`, `dashboard`."""
    url: str
    """Without what may be a key in it."""
    component: str | None = None
    """Who named it first."""


class Orphan(Value):
    """A living process that no component needs, and that may still hold GPU memory or a port.

    Of a dead attempt; or one that rltui did not start, which holds GPU memory.
    """

    pid: int
    start: int
    """Its start in clock ticks since boot: with the pid it names the process for good."""
    command: str = ""
    """Command line or title, for people."""
    experiment: str | None = None
    """Name of another experiment, where the attempt was one of that."""
    component: str | None = None
    attempt: int | None = None
    evidence: Literal["descendant", "session", "recorded", "environment", "gpu"] = "recorded"
    """How it was recognised; never by its name."""
    age_s: float | None = None
    gpu_bytes: int | None = None
    """Memory it holds on all devices; `None` where NVML does not say."""
    ports: tuple[int, ...] = ()


class Bottleneck(Value):
    """Who waits for whom in a run, over its last steps."""

    waits: str
    waits_for: str
    """In words: `a batch`, `weights`."""
    share_frac: float
    """Of its time that it waits, 0 to 1."""
    steps: int
    """So many steps it was measured over."""
    text: str
    """All of it in words, with what to do."""
    knob: str | None = None
    """Dotted key of the knob that moves it, where this config has one."""


class Progress(Value):
    step: int | None = None
    """Steps completed."""
    max_steps: int | None = None
    reward: float | None = None
    """Mean reward of the newest step."""
    reward_all: float | None = None
    """Of all rollouts of that step, where `reward` is of those alone that were trained on, and differs."""
    rewards: tuple[float, ...] = ()
    """Mean reward per step, oldest first, at most the last 200."""
    curve: tuple[tuple[int, float], ...] = ()
    """Step, counted from 1, and mean reward, over the whole run: at most 400 points, so chosen that what
    stands out is among them."""
    tokens_per_s: float | None = None
    step_time_s: float | None = None
    """Median of the recent steps."""
    eta_s: float | None = None
    concerns: tuple[HealthIssue, ...] = ()
    """The worst first. Empty: it seems to be well."""
    bottleneck: Bottleneck | None = None
    """`None` where nobody waits much, or nobody says."""


class Down(Value):
    """An end that somebody asked for with `rltui down`: nobody else's client starts a supervisor after it."""

    by: str
    """Who, in words: user, process, terminal."""
    at: float
    complete: bool = False
    """Everything is ended that can be."""
    left: tuple[str, ...] = ()
    """Processes that could not be ended, and why, in words."""
    unseen: tuple[str, ...] = ()
    """What ran on other machines, of which nobody here knows whether it has ended, in words."""


class Status(Value):
    """`rltui status --json`."""

    experiment: str
    state: Literal["running", "stopped"]
    framework: str
    output_dir: str
    step: int | None = None
    max_steps: int | None = None
    reward: float | None = None
    components: tuple[ComponentStatus, ...] = ()
    done: bool = False
    """Every job has ended with code 0 and every service is ready or stopped on request."""
    title: str = ""
    """The framework's or layout's name for people, such as `tinyrl (embedded)`."""
    config_files: tuple[str, ...] = ()
    workspace: str = ""
    progress: Progress = Progress()
    run_dir: str = ""
    """Where the framework writes the run; mostly the output folder."""
    observed: bool = False
    """Somebody else runs it, rltui only looks at its files. `running` then means that they grow."""
    logs: tuple[FollowedLog, ...] = ()
    """Log files that no component here prints."""
    servers: tuple[ServerStatus, ...] = ()
    transaction: str | None = None
    """The plan that is being carried out, until all its starts have begun."""
    down: Down | None = None
    """It is being taken down, or was, since its last start."""
    rollback: RollbackOffer | None = None
    orphans: tuple[Orphan, ...] = ()
    """Processes that outlived their attempt. A start of their component waits until they are gone."""
    evals: tuple[QueuedEval, ...] = ()
    """Evaluations that have not ended: the one that runs first, then in the order in which they will."""
    links: tuple[Link, ...] = ()
    """Pages about the run, in the order in which its programs named them."""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def word(self) -> str:
        """What most needs a person's eye: `done`, `stalled`, a component's state, a concern, else `state`."""
        components = [component for component in self.components if not component.manual]
        states = [component.state for component in components]
        if self.done:
            return "done"
        urgent = next((state for state in _URGENT if state in states), None)
        if urgent is not None:
            return urgent.value
        if any(component.stalled for component in components):
            return "stalled"
        on_the_way = next((state for state in _ON_THE_WAY if state in states), None)
        if on_the_way is not None:
            return on_the_way.value
        if self.state == "running" and self.progress.concerns:
            return self.progress.concerns[0].word
        return self.state

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def failed(self) -> tuple[str, ...]:
        """Components that ended with an error or never became ready, while `state` may well be `running`."""
        return tuple(
            each.id for each in self.components if each.state is ComponentState.FAILED and not each.manual
        )


class OrphanReport(Value):
    """`rltui orphans --json`."""

    experiment: str
    orphans: tuple[Orphan, ...] = ()
    ended: tuple[Orphan, ...] = ()
    """Those that `--free` ended."""
    elsewhere: dict[str, str] = Field(default_factory=dict)
    """Component → where it may go on, on another machine, without being followed from here."""
    strangers: tuple[Orphan, ...] = ()
    """Other processes of this user's that hold GPU memory and belong to no living component. They are ended
    only where they are named."""


class Loss(IntEnum):
    """How much something costs, at worst. Ordered; `core/consent.py` has what each verb does."""

    NOTHING = 0
    INTERVAL = 1
    """Something that runs is disturbed, for at most the work since the newest checkpoint; or what goes is
    brought back by a command."""
    MORE = 2
    """Work before that, a file of the user's, many runs at once, whatever a warning is about."""
    FOR_GOOD = 3


class Lost(Value):
    steps: int = 0
    """Completed steps since the checkpoint that the restarted components resume from."""
    resume_step: int | None = None
    """Step they resume after; `None` means from the beginning."""
    newest: bool = False
    """It is that of the newest checkpoint, and will be that of a newer one if there is one by then."""
    interval: int | None = None
    """Steps between two checkpoints; `None`: the run makes none, or nobody knows."""
    rollouts: int | None = None
    """Rollouts being generated that are thrown away; `None` where nobody counts them."""


class Archived(Value):
    """What a plan moves aside of a run's files: never deleted."""

    folder: str
    """Relative to the run's folder, such as `checkpoints`; or a file."""
    steps: tuple[int, ...] = ()
    """Of its `step_<N>` folders, ascending."""


class Request(Value):
    """What a client wants done. Sent to be planned first, then, unchanged, to be carried out."""

    action: Literal["start", "stop", "restart", "set", "write", "undo", "redo", "free"]
    """`set` changes knobs, `write` whole files; `undo` and `redo` walk through the edits in the journal."""
    components: tuple[str, ...] = ()
    """Empty means all (for `set`: none besides those that read what is edited; for `free`: the orphans of
    all)."""
    pids: tuple[int, ...] = ()
    """For `free`: which orphans, or other processes on the GPU, to end; empty means all orphans of the
    components named."""
    edits: dict[str, Any] = Field(default_factory=dict)
    """Dotted key to new value, for `set`; `None` removes the key from the file."""
    texts: dict[str, str] = Field(default_factory=dict)
    """Path of a config file to its new content, for `write`: what came out of a person's editor."""
    base: dict[str, str] = Field(default_factory=dict)
    """Path of a config file to the SHA-256 of the content that the person has seen, as `Plan.base` gave it.
    Where the file holds something else by now, the request is refused as a conflict. Empty: whatever is
    there."""
    thorough: bool = False
    """While planning an edit or a start, also ask the framework's own models, where its checkout is
    found."""
    unasked: bool = False
    """Nor do they overrule what our rules refuse: that would take as long as their process to start."""
    restart: bool = False
    """For edits: also restart the components that read the changed knobs."""
    force: bool = False
    """For `set`: a key that neither the framework nor the files know is added. Errors still forbid it."""
    kill: bool = False
    """For `stop`: end the whole tree at once, without grace."""
    resume: Literal["latest", "scratch"] = "latest"
    """Whether restarted trainers continue from the newest complete checkpoint or from the beginning."""
    resume_step: int | None = None
    """The complete checkpoint that they continue from instead."""
    by: str = ""
    """Who asks, in words: user, process, terminal. Kept in the journal."""
    accepts: Loss = Loss.INTERVAL
    """The loss that somebody has agreed to: where it would be more by now, `execute` refuses."""
    given: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    """For a start of manual components: what stands for `{given.NAME}` in the layout. Kept on disk."""


EDITS = frozenset({"set", "write", "undo", "redo"})


class Plan(Value):
    """What a start, stop, restart or edit would do: `--plan`, `--dry-run`, and the dialog in the TUI."""

    action: Literal["start", "stop", "restart", "set", "write", "undo", "redo", "free"] = "restart"
    diff: str = ""
    """Unified diff of the config files, empty where nothing is edited."""
    base: dict[str, str] = Field(default_factory=dict)
    """Path of each config file to the SHA-256 of the content that this was planned on."""
    pending: tuple[PendingKnob, ...] = ()
    """Knobs that will differ between the files and what runs when this is done."""
    derived: tuple[DerivedValue, ...] = ()
    conflicts: tuple[FileConflict, ...] = ()
    """Files that are not what `Request.base` says any more. `execute` refuses then; the same request without
    `base` writes onto what is there now."""
    stop: tuple[str, ...] = ()
    """In the order they stop."""
    start: tuple[str, ...] = ()
    """In the order they start."""
    keep: tuple[str, ...] = ()
    """Alive now and left alone."""
    reasons: tuple[str, ...] = ()
    lost: Lost = Lost()
    resume_from: int | None = None
    """The checkpoint that the request or the config asks for, 0 for the beginning; `None`: as the request
    says, the newest or the beginning."""
    checkpoints: tuple[int, ...] = ()
    """Complete ones, ascending, where the jobs of the run begin again."""
    archived: tuple[Archived, ...] = ()
    """Files of the run that are moved aside before its jobs begin again: no later resume must meet them."""
    archive: str = ""
    """The folder below which they are kept then."""
    free: tuple[Orphan, ...] = ()
    """Processes of dead attempts that are ended."""
    written: tuple[str, ...] = ()
    """Of an edit: what changes in each file, in words."""
    estimate_s: float | None = None
    """From now until all is ready, by the medians of earlier starts; `None` where one was never timed."""
    problems: tuple[Problem, ...] = ()
    asks_more: bool = False
    """Of an edit: the framework's own models can be asked too. A thorough plan has what they say."""
    memory: tuple[MemoryVerdict, ...] = ()
    """What each start will meet on its devices, at worst. The bad ones are among `problems`, as warnings."""

    @property
    def blocked(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)


class Publication(Value):
    """`rltui publish --json`: weights on their way to the hub."""

    repo: str
    """`USER/NAME`."""
    folder: str
    """Absolute."""
    files: tuple[str, ...]
    """Paths within the folder of what is uploaded."""
    size_bytes: int
    private: bool = False
    """Where the repository does not exist yet: only its owner sees it."""
    options: tuple[str, ...] = ()
    """Of `hf upload`, besides `--private`."""
    url: str | None = None
    """Where it is; `None` before that."""


class JournalEntry(Value):
    """A line of `journal.jsonl`."""

    at: float
    kind: str
    """`start`, `ready`, `exit`, `stop`, `edit`, `plan`, `resume`, `checkpoint`, `link`, `alert`, `note`,
    `supervisor` …"""
    text: str
    component: str | None = None
    attempt: int | None = None
    step: int | None = None
    """Steps that the run had completed then; of a `resume`, the checkpoint it goes on from; of a
    `checkpoint`, its own."""
    data: dict[str, Any] = Field(default_factory=dict)


AlertKind = Literal[
    "crash", "stall", "recovered", "finished", "metric", "health", "disk", "config", "orphan", "notice"
]


class Alert(Value):
    kind: AlertKind = "notice"
    severity: Literal["error", "warning", "information"]
    title: str
    text: str
    component: str | None = None
    rule: str = ""
    """Of kind `health`: which rule speaks, as the settings name it."""


class ErrorReply(Value):
    """A refused request; becomes an `RltuiError` again on the client's side."""

    exit_code: int = 1
    title: str
    details: tuple[str, ...] = ()
    hint: str = ""


EventKind = Literal["status", "gpus", "knobs", "journal", "alert"]
EVENT_MODELS: dict[EventKind, type[Value]] = {
    "status": Status,
    "gpus": GpuReport,
    "knobs": KnobTable,
    "journal": JournalEntry,
    "alert": Alert,
}
"""What a subscriber receives: one of each first (journal and alert only as they happen), then changes."""
