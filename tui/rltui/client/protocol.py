"""What the UI needs of an experiment, and of all runs.

The real ones talk to supervisors and read files, tests bring their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rltui.core.api import Alert, JournalEntry, Plan, Publication, Request, Status
from rltui.core.batch import Way
from rltui.core.config_report import Conversion, KnobTable
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.errors import RltuiError

if TYPE_CHECKING:  # the first frame need not wait for what later screens ask
    from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention
    from rltui.core.compare import Comparison
    from rltui.core.evals import EvalReport, EvalRequest, QueuedEval
    from rltui.core.forks import ForkPlan, ForkRequest
    from rltui.core.layout import Screen
    from rltui.core.lines import Level, LogEntry, LogSearching, LogSource, MergedSource
    from rltui.core.log_query import Query
    from rltui.core.queue import QueueAction, RunQueue
    from rltui.core.report import Draw
    from rltui.core.rollouts import RolloutSource
    from rltui.core.runs import RunChange, RunRow
    from rltui.core.series import SeriesSource

Event = Status | GpuReport | KnobTable | JournalEntry | Alert
"""A pushed message: a new whole value replaces the older one of its type."""


class ShutDownError(RltuiError):
    """Somebody has ended the experiment with `rltui down`: only a person's wish starts a supervisor again."""


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A config file as it was when it was read."""

    path: str
    text: str
    sha256: str
    """Of its bytes, as `Request.base` takes it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One that can be set, as a text has it."""

    key: str
    """Dotted, such as `alerts.bell`."""
    value: str
    """As it is written there, else the default, on one line."""
    meaning: str
    line: int
    """Where it is set, else where its table begins, counted from 1; the last line where there is neither."""


@dataclass(frozen=True, slots=True)
class SettingsText:
    """The user's settings file, to be edited as text."""

    path: str
    text: str
    """What it holds; where there is none, every setting with its default."""
    is_new: bool
    """There is no such file yet."""
    known: tuple[Setting, ...]
    """All that can be set, in the order of the shipped file."""


class Experiment(Protocol):
    """One experiment as its clients see it. All calls may raise `RltuiError`."""

    name: str
    host: str
    """The machine that it is on, as the person calls it; empty: this one."""
    layout_name: str
    """Of its layout: what it is chosen by."""
    screen: Screen
    """What the layout wants to see."""
    readonly: bool
    """`execute` is refused; `plan` is not."""
    observed: bool
    """Somebody else runs it. Then it is read-only as well."""
    finished: bool
    """It is read from its files alone, as nothing of it lives. Then it is read-only as well."""
    component_ids: tuple[str, ...]
    """Of its components that start by themselves, as the layout has them: what the first frame shows."""
    log_ids: tuple[str, ...]
    """Of the log files of the layout."""

    @property
    def run_id(self) -> str:
        """Id of the run in the index (`RunRow.id`); empty where it has none yet. Blocking."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Current values first (status, gpus, knobs), then every change. Ends when the supervisor ends.

        Raises:
            ShutDownError: where that was wanted, until somebody starts it again.
        """
        ...

    async def plan(self, request: Request) -> Plan:
        """What `request` would do. No side effects."""
        ...

    async def execute(self, request: Request) -> Plan:
        """Do it, and return the plan that is being carried out, once it has begun."""
        ...

    async def gpu_history(self) -> GpuHistories:
        """Memory of each device over time, since the supervisor started at the earliest."""
        ...

    async def checkpoints(self) -> CheckpointReport:
        """Those that lie in the run's folder now. Sizes of large ones may take a while."""
        ...

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        """Which of them `retention` leaves over. No side effects."""
        ...

    async def prune(self, retention: Retention, only: Collection[int]) -> PrunePlan:
        """Delete those, as far as their steps are among `only`: what the person was shown."""
        ...

    async def bring_back(self, name: str) -> CheckpointReport:
        """Put back what a restart has set aside (`CheckpointReport.set_aside`) while nothing runs. What the
        run has written since is set aside instead.
        """
        ...

    async def evals(self) -> EvalReport:
        """Those that have ended, and those that wait or run (also in `Status.evals`)."""
        ...

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        """Put an evaluation behind the others."""
        ...

    async def cancel_eval(self, id_: str) -> EvalReport:
        """Take one from the queue, or end the one that runs."""
        ...

    async def order_evals(self, every: int, request: EvalRequest) -> EvalReport:
        """Evaluate one of so many checkpoints as `request` says, whatever its target; 0: none any more."""
        ...

    async def convert(self, to: Way, mean_tokens: float | None = None) -> Conversion:
        """The batch counted the other way; nothing is written.

        `mean_tokens` of an accepted rollout; `None`: what was measured.
        """
        ...

    def read_config(self, path: str) -> ConfigText:
        """One of the config files (`KnobTable.files`), for an editor."""
        ...

    def edit_text(self, path: str, text: str) -> str:
        """Let a person edit the text of the file `path` in their own editor, and return what was saved.

        Blocking; takes the terminal over. The file itself is left alone.
        """
        ...

    def open_log(self, path: str) -> LogSource:
        """Open the output of an attempt (`ComponentStatus.log`)."""
        ...

    def logs(self) -> tuple[LogEntry, ...]:
        """Every attempt's log and the files of the layout, in the order in which they began."""
        ...

    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        """Several logs as one, by time."""
        ...

    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        """Where the first line of a log begins that was written at the moment `at` or later. Blocking."""
        ...

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogSearching:
        """A search from the byte `start` of a log on, for a thread to go through. Without `with_text`, the
        texts of what is found may be empty, which spares a slow line.
        """
        ...

    def open_series(self) -> SeriesSource:
        """Open the metrics of the run, whole and up to now. Of a run that has ended as well."""
        ...

    async def journal(self) -> tuple[JournalEntry, ...]:
        """Everything that happened, oldest first, whether or not anything of it lives. To ask again is cheap.

        Later ones come as `events` as well.
        """
        ...

    def pins(self) -> tuple[str, ...]:
        """Charts that a person has pinned, in order. Blocking, as the next two."""
        ...

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Keep these instead."""
        ...

    def save(self, name: str, text: str) -> str:
        """Write an export into a new file named like `name`, beside the run, and return its path."""
        ...

    async def note(self, text: str) -> JournalEntry:
        """Have a person's words kept in the journal, also of a run that is only observed."""
        ...

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        """The rollouts in a folder, whatever generation wrote them. Empty: the run's. Nothing is read yet."""
        ...

    def pager_command(self, path: str) -> list[str]:
        """Argument list of the person's pager for a file.

        Raises:
            UsageError: if there is no such program.
        """
        ...

    async def publication(self, what: str, repo: str) -> Publication:
        """What an upload of a step's weights to the hub consists of. No side effects."""
        ...

    async def publish(self, published: Publication, *, private: bool) -> None:
        """Begin it. A repository that is made for it is `private`, or anybody's to see."""
        ...

    async def open_shell(self, like: str | None) -> str:
        """Start a terminal in the surroundings of the component `like`, unless one lives; its id."""
        ...

    async def open_url(self, url: str) -> bool:
        """Have a browser show a page; false where there is none to be seen."""
        ...

    def attach_command(self, component: str) -> list[str]:
        """Argument list of the program that shows the component's raw terminal until the person detaches."""
        ...


class Runs(Protocol):
    """All runs there are, as their clients see them. All calls are blocking, for a thread, and may raise
    `RltuiError`.
    """

    readonly: bool
    """Nothing of a run is changed, and what is opened is read-only as well."""
    host: str
    """The other machine that all of them are on; empty: this one, or several."""
    hosts: tuple[str, ...]
    """Other machines whose runs are among those of this one: `RunRow.host` says of each which it is on."""

    @property
    def trouble(self) -> str:
        """Why not all of them are as they are now, in words: a machine that cannot be reached; else empty."""
        ...

    def rows(self) -> tuple[RunRow, ...]:
        """Those that the index has, in no order. The same tuple as before where nothing has changed, which
        costs next to nothing.
        """
        ...

    def catch_up(self) -> tuple[str, ...]:
        """Bring the index up to date with the folders. Returns, in sentences, what a person should know."""
        ...

    def configs(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """By id of a run: its config as it last ran, flat, by knob name."""
        ...

    def change(self, id_: str, change: RunChange) -> RunRow:
        """Change what is said of a run, or move it to the trash and back. Returns it as it is then.

        Raises:
            UsageError: if there is no such run any more, or it cannot be called so.
            ConflictError: if its folder is not there, or something of it lives.
        """
        ...

    def kept(self, owner: str) -> Mapping[str, Any]:
        """What screens keep from one look to the next, plain JSON: of `app`, `runs`, a layout, a run. Empty
        where nothing was kept. Never raises.
        """
        ...

    def keep(self, owner: str, values: Mapping[str, Any]) -> None:
        """Keep that instead."""
        ...

    def give_to_tmux(self, text: str) -> bool:
        """Have the person's own tmux keep what was copied, and pass it on; false where there is none."""
        ...

    def keep_copy(self, text: str) -> str:
        """Put what was copied into the file for it, in place of the copy before, and return its path."""
        ...

    def settings(self) -> SettingsText:
        """The user's settings file.

        Raises:
            ConfigError: if it cannot be read.
        """
        ...

    def edit_settings(self, text: str, line: int) -> str:
        """Let a person edit `text` in their own editor, from `line` on, and return what was saved.

        Takes the terminal over. The file itself is left alone.
        """
        ...

    def replace_settings(self, seen: SettingsText, text: str) -> None:
        """Have `text` be the settings.

        Raises:
            ConfigError: if it cannot be understood.
            ConflictError: if the file is not what was `seen` any more.
        """
        ...

    def open(self, id_: str, *, again: bool = False) -> Experiment:
        """Look at a run: through its supervisor where something of it lives, else from its files alone.

        With `again` a supervisor is started where there is none: then it can be changed and started.

        Raises:
            UsageError: if there is no such run any more.
            RltuiError: if its folder is gone or damaged.
        """
        ...

    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        """Runs beside each other, in this order. `metrics`: ids of concepts or names of series; none: the
        usual ones.

        Raises:
            UsageError: if one of the runs is not there any more, or no run has one of the metrics.
        """
        ...

    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        """What a fork of a run comes to. No side effects.

        Raises:
            UsageError: if there is no such run any more, or it cannot be started.
            ConfigError: if an edit names no knob, or the config breaks a rule with it.
            ConflictError: if there is no such checkpoint, or name or folder are taken.
        """
        ...

    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        """Make it and start it. What a person should know of it, in sentences.

        Raises:
            ConfigError, ConflictError: as `plan_fork`; nothing is left of it.
            RltuiError: if it cannot be made; likewise.
        """
        ...

    def open_series(self, id_: str) -> SeriesSource:
        """The metrics of a run, whole and up to now."""
        ...

    def open_rollouts(self, id_: str) -> RolloutSource:
        """The rollouts of a run. Nothing is read yet."""
        ...

    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        """Write a report of a run into `folder`, empty: a new one in the working folder. Returns where it is.

        `draw` makes the curves; `samples`: so many of the best and of the worst rollouts.

        Raises:
            ConflictError: if something lies there.
            RltuiError: if it cannot be written; nothing is left then.
        """
        ...

    def queue(self) -> RunQueue:
        """The runs that wait, and those that the queue has started. Cheap: it reads a file."""
        ...

    def change_queue(self, action: QueueAction, entry: str = "", *, place: str = "") -> None:
        """Do something about it, and see to it that somebody minds it. `entry`: its id; `place` of `move`:
        `up`, `down`, `first`, `last`.

        Raises:
            UsageError: if there is no such entry any more.
            ConflictError: if it runs, where that is in the way.
        """
        ...
