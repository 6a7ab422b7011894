"""Messages from the supervisor to its clients. These models document every `--json` shape.

All are frozen values. Times are seconds since the epoch (`…_at`) or durations in seconds (`…_s`),
memory is in bytes. `None` means "unknown" or "does not apply".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Literal

from msgspec import field

from rltui.base.values import Value
from rltui.core.config.report import DerivedValue, FileConflict, KnobTable, PendingKnob, Problem
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.servers import ServerStatus
from rltui.core.experiment.states import ComponentKind, ComponentState, HostPhase, Reason, RunState
from rltui.core.gpu.report import GpuReport, MemoryVerdict, OutOfMemory, Remedy
from rltui.core.runs.evals import QueuedEval
from rltui.errors import RltuiError


class RollbackOffer(Value):
    """An offer to undo an edit after which a component died within its start window, or the run went bad.

    `undo` with `restart` and this `resume_step` does it; if there are `edits`, `set` with those; a plain
    `restart` if neither an edit is to blame nor another value known that would help.
    """

    edit: str
    """The edit in words; empty if none is to blame."""
    component: str
    reason: str
    resume_step: int | None = None
    """The last good checkpoint, from before the edit; `None`: the newest will do, as the run is well."""
    edits: dict[str, str | None] = field(default_factory=dict)
    """Knob → its value as TOML, `None` to remove it: from before an edit that `undo` does not reach, or a
    lower learning rate if no edit is to blame.
    """


HealthSeverity = Literal["error", "warning"]


class HealthIssue(Value):
    """A reason to look at a live run: it may not learn any more."""

    word: str
    """Short name, such as `reward collapsed`."""
    text: str
    """The whole issue in words: numbers, advice, the checkpoint to go back to, edits since."""
    id: str = ""
    """Name of the rule in the settings."""
    severity: HealthSeverity = "warning"
    component: str | None = None
    since: int | None = None
    """The first affected step, counted from 1."""
    evidence: str = ""
    advice: str = ""
    last_good: int | None = None
    """The newest complete checkpoint from before `since`; `None` if there is none."""
    edits: tuple[str, ...] = ()
    """Edits of the config since that checkpoint, in words, oldest first."""
    back: RollbackOffer | None = None
    """Offer to go back to it; `None` if that alone would not help."""


class HostStatus(Value):
    """State of a component that runs on another host. Times are seconds since 1970."""

    where: str
    """Location in words: `job 1234 on node-[1-2]`, `node-2`, `pod my-exp-trainer-0`."""
    phase: HostPhase
    """`pending`: its host has not begun to run it, for this `reason`."""
    reason: str = ""
    """Explanation in words; for a running one, a remark of its host."""
    since: float
    starts: int = 0
    ends_at: float | None = None
    """Time at which its host will end it in any case: the time limit of a job."""
    lost_at: float | None = None
    """Time since which nobody answers there: all other fields are as old."""
    problem: str = ""
    script: str = ""
    """Path of the submitted file, if it is a job."""


class ComponentStatus(Value):
    id: str
    kind: ComponentKind = "job"
    state: ComponentState = ComponentState.STOPPED
    prepares: bool = False
    """A job that creates something the others need, once; not part of the run itself."""
    writes_run: bool = False
    """A job of the run, which ends when these have ended."""
    manual: bool = False
    """It starts only if a request names it, is no part of the run, and is listed only while it is not
    `stopped`.
    """
    stalled: bool = False
    """It is alive but gives no sign of life any more; `evidence` says what is missing."""
    evidence: str | None = None
    """Reason for `stalled`, in words."""
    reason: str | None = None
    """Reason why it is not running, or what it waits for, in words."""
    code: str = ""
    """Code of `reason`, a row of `core/experiment/reason_codes.py`; empty if there is nothing to explain."""
    retry_at: float | None = None
    """Time of the next start, in state `backoff`."""
    pid: int | None = None
    attempt: int | None = None
    """Number of the newest start, counted from 1."""
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended it, such as `SIGKILL`."""
    lost: bool = False
    """True if it ended and nobody saw how."""
    from_outside: bool = False
    """It was killed by somebody else: another start may well succeed."""
    started_at: float | None = None
    uptime_s: float | None = None
    log: str | None = None
    """Path of the newest attempt's output file."""
    log_end: int | None = None
    """For one that was not ready in time: bytes of its log by then. The rest of the log is about its stop."""
    host: HostStatus | None = None
    """State on its host, if that is not this machine; `None` until it was started."""
    port: int | None = None
    gpus: tuple[int, ...] = ()
    """NVML's indices of its devices, as far as known."""
    out_of_memory: OutOfMemory | None = None
    """Details from its output if it failed for lack of device memory."""
    remedies: tuple[Remedy, ...] = ()
    """Edits that would help against that, most advisable first."""
    step: int | None = None
    """Newest step of a job that prepares, as its output says."""
    max_steps: int | None = None
    """Number of steps of such a job, by its config."""
    facts: tuple[str, ...] = ()
    """Short texts for the pane title, most important first: `step 12`, `4.1 s/step`."""
    concerns: tuple[HealthIssue, ...] = ()
    """Health issues of the run that its metrics show while it is alive; the worst first."""


class FollowedLog(Value):
    """A log file that no component of the experiment prints, requested by a `[[log]]` of the layout."""

    id: str
    title: str = ""
    """The layout's name for it; empty: the id."""
    wanted: tuple[str, ...] = ()
    """Patterns to look for, relative to the run's folder, with `*` and `?`."""
    path: str | None = None
    """The file that is followed; `None` while there is none."""
    name: str = ""
    """The path relative to the run's folder."""
    size_bytes: int | None = None
    changed_at: float | None = None
    """Time of the last write. For a growing file this may be some seconds old."""


class Link(Value):
    """A page about the run that one of its programs named in its output."""

    title: str
    """Short name, such as `W&B run`, `dashboard`."""
    url: str
    """The URL without any part that may be a key."""
    component: str | None = None
    """The component that named it first."""


class Orphan(Value):
    """A living process that no component needs, and that may still hold GPU memory or a port.

    It is of a dead attempt; or rltui did not start it, and it holds GPU memory.
    """

    pid: int
    start: int
    """Start time in clock ticks since boot: with the pid it names the process for good."""
    command: str = ""
    """Command line or title, for people."""
    experiment: str | None = None
    """Name of another experiment, if the attempt was one of that."""
    component: str | None = None
    attempt: int | None = None
    evidence: Literal["descendant", "session", "recorded", "environment", "gpu"] = "recorded"
    """The way in which it was recognised; never by its name."""
    age_s: float | None = None
    gpu_bytes: int | None = None
    """Memory it holds on all devices; `None` if NVML does not say."""
    ports: tuple[int, ...] = ()


class Bottleneck(Value):
    """The waiting program and the awaited one of a run, over its last steps."""

    waits: str
    waits_for: str
    """The awaited thing in words: `a batch`, `weights`."""
    share_frac: float
    """Share of its time that it waits, 0 to 1."""
    steps: int
    """Number of steps it was measured over."""
    text: str
    """The whole finding in words, with advice."""
    knob: str | None = None
    """Dotted key of the knob that moves it, if this config has one."""


class Curve(Value):
    """A metric other than the reward."""

    title: str
    unit: str = ""
    """Unit of the values, as `MetricConcept.unit`."""
    points: tuple[tuple[int, float], ...]
    """Step, counted from 1, and value: at most 200 points, chosen to include the extremes."""


class Progress(Value):
    step: int | None = None
    """Number of completed steps."""
    max_steps: int | None = None
    reward: float | None = None
    """Mean reward of the newest step."""
    reward_all: float | None = None
    """Mean over all rollouts of that step, if `reward` covers only the trained ones, and differs."""
    rewards: tuple[float, ...] = ()
    """Mean reward per step, oldest first, at most the last 200."""
    curve: tuple[tuple[int, float], ...] = ()
    """Step, counted from 1, and mean reward, over the whole run: at most 400 points, chosen to include the
    extremes.
    """
    target: Curve | None = None
    """What a run learns by that has no reward to learn from, such as the KL to a teacher; `None`: it has one,
    or no value of that is known.
    """
    served: int | None = None
    """Version of the weights that the engine samples with: N after step N; `None`: unknown."""
    beside: Curve | None = None
    """`None` if no such metric has two values."""
    tokens_per_s: float | None = None
    step_time_s: float | None = None
    """Median of the recent steps."""
    eta_s: float | None = None
    concerns: tuple[HealthIssue, ...] = ()
    """The worst first. Empty: it seems to be well."""
    bottleneck: Bottleneck | None = None
    """`None` if nobody waits much, or nobody says."""


class Down(Value):
    """A shutdown requested with `rltui down`: no other client starts a supervisor after it."""

    by: str
    """Requester in words: user, process, terminal."""
    actor: Actor | None = None
    at: float
    complete: bool = False
    """Everything that can be ended is ended."""
    idle: bool = False
    """True if nothing of the run was alive: only its supervisor ended."""
    left: tuple[str, ...] = ()
    """Processes that could not be ended, and the reason, in words."""
    unseen: tuple[str, ...] = ()
    """Programs on other machines whose end nobody here can see, in words."""


class Status(Value):
    """`rltui status --json`."""

    experiment: str
    state: RunState
    reason: Reason = Reason()
    alive: bool = False
    """True if something of it runs, or will without a request; of an observed run: its logs grow."""
    framework: str
    output_dir: str
    step: int | None = None
    max_steps: int | None = None
    reward: float | None = None
    components: tuple[ComponentStatus, ...] = ()
    title: str = ""
    """The framework's or layout's name for people, such as `tinyrl (embedded)`."""
    config_files: tuple[str, ...] = ()
    workspace: str = ""
    progress: Progress = Progress()
    run_dir: str = ""
    """Folder into which the framework writes the run; mostly the output folder."""
    observed: bool = False
    """True if another program runs it and rltui only reads its files."""
    logs: tuple[FollowedLog, ...] = ()
    """Log files that no component here prints."""
    servers: tuple[ServerStatus, ...] = ()
    transaction: str | None = None
    """The plan that is being executed, until all its starts have begun."""
    down: Down | None = None
    """Set if it is being shut down, or was, since its last start."""
    rollback: RollbackOffer | None = None
    orphans: tuple[Orphan, ...] = ()
    """Processes that outlived their attempt. A start of their component waits until they are gone."""
    evals: tuple[QueuedEval, ...] = ()
    """Unfinished evaluations: the running one first, then in the order of their start."""
    links: tuple[Link, ...] = ()
    """Pages about the run, in the order in which its programs named them."""
    agents: tuple[str, ...] = ()
    """Names of the agents at work on it: connected, or with an act in the last 15 minutes."""
    proposals: tuple[AgentProposal, ...] = ()
    """Proposals of agents that wait for a person, oldest first."""
    agents_paused: str = ""
    """Says who has paused the agents of this machine, and when; empty: nobody has."""

    @property
    def failed(self) -> tuple[str, ...]:
        """Components that exited with an error or never became ready, whatever the state of the run is."""
        return tuple(
            component.id
            for component in self.components
            if component.state is ComponentState.FAILED and not component.manual
        )


class OrphanReport(Value):
    """The document that `rltui gpus orphans --json` prints."""

    experiment: str
    orphans: tuple[Orphan, ...] = ()
    ended: tuple[Orphan, ...] = ()
    """The ones that `--end` ended."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """Component → its last known location on another machine, where it may go on without being followed."""
    strangers: tuple[Orphan, ...] = ()
    """Other processes of this user's that hold GPU memory and belong to no living component. They are ended
    only if they are named.
    """


class Loss(IntEnum):
    """The worst cost of an action. Ordered; `core/experiment/consent.py` has the loss of each verb."""

    NOTHING = 0
    INTERVAL = 1
    """Something that runs is disturbed, for at most the work since the newest checkpoint; or the deleted
    thing can be brought back by a command.
    """
    MORE = 2
    """Work before that, a file of the user's, many runs at once, or anything with a warning."""
    FOR_GOOD = 3


class Lost(Value):
    steps: int = 0
    """Completed steps since the checkpoint that the restarted components resume from."""
    resume_step: int | None = None
    """Step they resume after; `None` means from the beginning."""
    newest: bool = False
    """It is that of the newest checkpoint, and will be that of a newer one if there is one by then."""
    interval: int | None = None
    """Steps between two checkpoints; `None`: the run makes none, or it is unknown."""
    rollouts: int | None = None
    """Rollouts being generated that are thrown away; `None` if nobody counts them."""


class Archived(Value):
    """Files of a run that a plan moves aside: never deleted."""

    folder: str
    """Path relative to the run's folder, such as `checkpoints`; or a file."""
    steps: tuple[int, ...] = ()
    """Steps of its `step_<N>` folders, ascending."""


Action = Literal["start", "stop", "restart", "set", "write", "undo", "redo", "free"]


class Request(Value):
    """An action that a client requests. Sent to be planned first, then, unchanged, to be executed."""

    action: Action
    """`set` changes knobs, `write` whole files; `undo` and `redo` walk through the edits in the journal."""
    components: tuple[str, ...] = ()
    """Empty means all (for `set`: none besides the readers of the edited keys; for `free`: the orphans of
    all).
    """
    pids: tuple[int, ...] = ()
    """For `free`: the orphans, or other processes on the GPU, to end; empty means all orphans of the named
    components.
    """
    edits: dict[str, Any] = field(default_factory=dict)
    """Dotted key → new value, for `set`; `None` removes the key from the file."""
    texts: dict[str, str] = field(default_factory=dict)
    """Path of a config file → its new content, for `write`: the result of a person's editor."""
    base: dict[str, str] = field(default_factory=dict)
    """Path of a config file → the SHA-256 of the content that the person has seen, as `Plan.base` gave it.
    If the file holds something else by now, the request is refused as a conflict. Empty: no check.
    """
    thorough: bool = False
    """While planning an edit or a start, also ask the framework's own models, if its checkout is
    available.
    """
    unasked: bool = False
    """The framework's models do not overrule our rules either: that would take as long as their process to
    start.
    """
    restart: bool = False
    """For edits: also restart the components that read the changed knobs."""
    force: bool = False
    """For `set`: a key that neither the framework nor the files know is added. Errors still forbid it."""
    kill: bool = False
    """For `stop`: end the whole tree at once, without grace."""
    resume: Literal["latest", "scratch"] = "latest"
    """Restarted trainers continue from the newest complete checkpoint, or from the beginning."""
    resume_step: int | None = None
    """The complete checkpoint that they continue from instead."""
    accepts: Loss = Loss.INTERVAL
    """The loss that somebody has agreed to: if it would be more by now, `execute` refuses."""
    given: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Values for `{given.NAME}` in the layout, for a start of manual components. Stored on disk."""
    is_first: bool = False
    """The experiment was made for this start, and is taken back if that is refused."""

    @property
    def moves(self) -> bool:
        """Whether components stop or start by it: an edit alone only writes files."""
        return self.action not in EDITS or self.restart


EDITS = frozenset({"set", "write", "undo", "redo"})


class Plan(Value):
    """Effects of a start, stop, restart or edit: `--plan`, and the dialog in the TUI."""

    action: Action = "restart"
    diff: str = ""
    """Unified diff of the config files, empty if nothing is edited."""
    base: dict[str, str] = field(default_factory=dict)
    """Path of each config file → the SHA-256 of the content that this was planned on."""
    pending: tuple[PendingKnob, ...] = ()
    """Knobs that will differ between the files and what runs when this is done."""
    derived: tuple[DerivedValue, ...] = ()
    conflicts: tuple[FileConflict, ...] = ()
    """Files that differ from `Request.base`. `execute` refuses then; the same request without `base`
    overwrites their present content.
    """
    stop: tuple[str, ...] = ()
    """Component ids, in the order of the stops."""
    start: tuple[str, ...] = ()
    """Component ids, in the order of the starts."""
    keep: tuple[str, ...] = ()
    """Components that are alive now and stay untouched."""
    reasons: tuple[str, ...] = ()
    lost: Lost = Lost()
    resume_from: int | None = None
    """The checkpoint that the request or the config names, 0 for the beginning; `None`: as the request says,
    the newest or the beginning.
    """
    checkpoints: tuple[int, ...] = ()
    """Steps of the complete ones, ascending, if the jobs of the run begin again."""
    archived: tuple[Archived, ...] = ()
    """Files of the run that are moved aside before its jobs begin again: no later resume must meet them."""
    archive: str = ""
    """The folder below which they are stored then."""
    free: tuple[Orphan, ...] = ()
    """Processes of dead attempts that are ended."""
    written: tuple[str, ...] = ()
    """For an edit: the changes in each file, in words."""
    estimate_s: float | None = None
    """Time from now until all is ready, by the medians of earlier starts; `None` if one was never timed."""
    problems: tuple[Problem, ...] = ()
    asks_more: bool = False
    """For an edit: the framework's own models can be asked too, by a thorough plan."""
    memory: tuple[MemoryVerdict, ...] = ()
    """The worst verdict for each start on its devices. The bad ones are among `problems`, as warnings."""

    @property
    def blocked(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    @property
    def made_from(self) -> dict[str, Any]:
        """What has happened if a later plan of the same request differs, in words → what to compare. Where
        the run goes on from the newest checkpoint, a newer one is as good.
        """
        return {
            "the config files have changed": (self.base, self.diff),
            "other components would stop or start": (self.stop, self.start),
            "other processes would be ended": [(orphan.pid, orphan.start) for orphan in self.free],
            "it would resume from another checkpoint": (
                self.resume_from,
                None if self.lost.newest else self.lost.resume_step,
            ),
        }


ProposalState = Literal["open", "accepted", "declined", "expired"]


class AgentProposal(Value):
    """An act that an agent may not do without a person: `rltui agents proposals --json`."""

    id: str
    verb: str
    text: str
    """Its effect in words."""
    by: Actor
    reason: str = ""
    """The agent's own words."""
    at: float
    method: str = "execute"
    """The question to the supervisor that it is."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its arguments, which are shown to nobody, as they may hold keys."""
    plan: Plan | None = None
    """Effects by now, of an `execute`."""
    was_alive: bool = False
    """Something of the run was alive then: with that it expires."""
    state: ProposalState = "open"
    word: str = ""
    """The person's word, or why it expired."""
    answered_by: Actor | None = None
    answered_at: float | None = None

    @property
    def shown(self) -> AgentProposal:
        return self.replace(params={})


class Publication(Value):
    """Weights that are being uploaded to the hub: `rltui checkpoints upload --json`."""

    repo: str
    """Name on the hub, `USER/NAME`."""
    folder: str
    """Absolute path."""
    files: tuple[str, ...]
    """Paths, within the folder, of the files to upload."""
    size_bytes: int
    private: bool = False
    """Applies if the repository does not exist yet: only its owner sees it."""
    options: tuple[str, ...] = ()
    """Options of `hf upload`, besides `--private`."""
    url: str | None = None
    """Address of the upload; `None` before that."""


AlertSeverity = Literal["error", "warning", "information"]
AlertKind = Literal[
    "crash", "stall", "recovered", "finished", "metric", "health", "disk", "config", "orphan", "notice"
]


class Alert(Value):
    kind: AlertKind = "notice"
    severity: AlertSeverity
    title: str
    text: str
    component: str | None = None
    rule: str = ""
    """For kind `health`: name of the rule in the settings."""


class ErrorReply(Value):
    """A refused request; becomes an `RltuiError` again on the client's side."""

    exit_code: int = 1
    title: str
    details: tuple[str, ...] = ()
    hint: str = ""
    code: str = ""

    @classmethod
    def of(cls, error: RltuiError) -> ErrorReply:
        return cls(
            exit_code=int(error.exit_code),
            title=error.title,
            details=error.details,
            hint=error.hint,
            code=error.code,
        )


EventKind = Literal["status", "gpus", "knobs", "journal", "alert"]
EVENT_MODELS: dict[EventKind, type[Value]] = {
    "status": Status,
    "gpus": GpuReport,
    "knobs": KnobTable,
    "journal": JournalEntry,
    "alert": Alert,
}
"""Events that a subscriber receives: one of each first (journal and alert only as they happen), then
changes.
"""
