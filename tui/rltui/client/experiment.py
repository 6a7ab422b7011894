"""An experiment as its clients see it, wherever it is and whether or not anything of it lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltui.base.questions import command, question
from rltui.core.config.report import KnobTable
from rltui.core.experiment.api import Alert, Publication, Status
from rltui.core.experiment.dashboard import DashboardPage, DashboardPlace
from rltui.core.experiment.description import RunDescription, ScreenLayout
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.gpu.report import GpuReport
from rltui.core.logs.lines import Level
from rltui.core.logs.source import LogEntry, LogScan, LogSource, MergedSource
from rltui.core.runs.checkpoints import CheckpointReport
from rltui.errors import RltuiError

if TYPE_CHECKING:  # the first frame need not wait for what later screens ask
    from rltui.core.logs.query import Query
    from rltui.core.metrics.series import SeriesSource
    from rltui.core.rollouts.batches import RolloutSource

Event = Status | GpuReport | KnobTable | JournalEntry | Alert
"""A pushed message: a new whole value replaces the older one of its type."""


class ShutDownError(RltuiError):
    """`rltui down` has ended the experiment: only a person's request starts a supervisor again."""

    code = "shut_down"


@dataclass(frozen=True, slots=True)
class ConfigText:
    path: str
    text: str
    sha256: str
    """The hash of its bytes, as `Request.base` takes it."""


@dataclass(frozen=True, slots=True)
class JournalTail:
    is_new: bool
    """True if it is another journal: entries that the client has are obsolete."""
    entries: tuple[JournalEntry, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """Properties of an experiment that do not change while it is open."""

    name: str
    layout_name: str
    """Name that `--layout` chooses it by."""
    screen: ScreenLayout
    readonly: bool
    """`execute` is refused; `plan` is not."""
    observed: bool
    """True if somebody else runs it. It is read-only then as well."""
    finished: bool
    """True if it is read from its files alone, as nothing of it runs. It is read-only then as well."""
    component_ids: tuple[str, ...]
    """Components that start by themselves, as the layout has them: what the first frame shows."""
    log_ids: tuple[str, ...]


class Experiment(ExperimentApi, ABC):
    """One experiment. A declared question is answered where the experiment is: by its supervisor, or from its
    files. All calls may raise `RltuiError`.
    """

    def __init__(self, description: Description, *, host: str = "") -> None:
        """`host`: the machine that it is on, as the person calls it; empty: this one."""
        self.description = description
        self.name, self.host, self.readonly = description.name, host, description.readonly
        self.observed, self.finished = description.observed, description.finished

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Id of the run in the index (`RunRow.id`); empty where it has none yet. Blocking."""

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """Current values first (status, gpus, knobs), then every change. Ends when the supervisor ends.

        Raises:
            ShutDownError: where that was wanted, until somebody starts it again.
        """

    # --- journal, checkpoints, tools ------------------------------------------------------------------------

    @abstractmethod
    async def journal(self) -> tuple[JournalEntry, ...]:
        """All events, oldest first, whether or not anything runs. A repeated call is cheap.

        Later ones come as `events` as well.
        """

    @question()
    async def journal_after(self, count: int, last_at: float | None) -> JournalTail:
        """The journal beyond the first `count` entries, if the last of these has the time `last_at`."""

    @command()
    async def bring_back(self, name: str) -> CheckpointReport:
        """Put back what a restart has set aside (`CheckpointReport.set_aside`) while nothing runs. What the
        run has written since is set aside instead.
        """

    @question()
    async def publication(self, step: int, repo: str) -> Publication:
        """Files and command of an upload of a step's weights to the hub. No side effects."""

    @command()
    async def publish(self, published: Publication, *, private: bool) -> None:
        """Begin it. A repository that is made for it is `private`, or anybody's to see."""

    @command()
    async def open_shell(self, like: str | None) -> str:
        """Start a terminal in the surroundings of the component `like`, unless one lives; its id."""

    @question()
    async def show_in_dashboard(self, place: DashboardPlace) -> DashboardPage:
        """Have the framework's own dashboard, where the experiment is, show a place of the run."""

    # --- files of the experiment: blocking ------------------------------------------------------------------

    @question()
    def read_run_id(self) -> str:
        """Read `run_id` again from the files."""

    @question()
    def describe(self) -> RunDescription:
        """Describe the run and how its components were started, or would be."""

    @question()
    def read_config(self, path: str) -> ConfigText:
        """Read one of the config files (`KnobTable.files`), for an editor."""

    @question()
    def logs(self) -> tuple[LogEntry, ...]:
        """Every attempt's log and the files of the layout, in the order in which they began."""

    @question()
    def log_offset_at(self, log: LogEntry, at: float) -> int | None:
        """Byte offset of the first line of a log that was written at the time `at` or later."""

    @question()
    def pins(self) -> tuple[str, ...]:
        """Charts that a person has pinned, in order."""

    @command()
    def save_pins(self, pins: Sequence[str]) -> None: ...

    # --- what is read as it is looked at --------------------------------------------------------------------

    @abstractmethod
    def open_log(self, path: str) -> LogSource:
        """Open the output of an attempt (`ComponentStatus.log`)."""

    @abstractmethod
    def open_merged(self, logs: Sequence[LogEntry]) -> MergedSource:
        """Several logs as one, by time."""

    @abstractmethod
    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> LogScan:
        """A search from the byte `start` of a log on, for a thread to go through. Without `with_text`, the
        texts of what is found may be empty, which spares a slow line.
        """

    @abstractmethod
    def open_series(self) -> SeriesSource:
        """Open the metrics of the run, whole and up to now. Of a run that has ended as well."""

    @abstractmethod
    def open_rollouts(self, folder: str = "") -> RolloutSource:
        """The rollouts in a folder, whatever generation wrote them. Empty: the run's. Nothing is read yet."""

    # --- on the machine of the person -----------------------------------------------------------------------

    def edit_text(self, path: str, text: str) -> str:
        """Let a person edit the text of the file `path` in their own editor, and return what was saved.

        Blocking; takes the terminal over. The file itself is left alone.
        """
        from rltui.client import programs  # 10 ms, which the first frame need not wait for

        return programs.edit_text(path, text)

    @abstractmethod
    def save(self, name: str, text: str) -> str:
        """Write an export into a new file named like `name`, beside the run, and return its path."""

    @abstractmethod
    def pager_command(self, path: str) -> list[str]:
        """Argument list of the person's pager for a file.

        Raises:
            UsageError: if there is no such program.
        """

    async def reachable_url(self, url: str) -> str:
        """The address under which a page of the run's machine is reached from this one.

        Raises:
            RltuiError: if it is not; says how it could be.
        """
        return url

    async def open_url(self, url: str) -> bool:
        """Have a browser show a page; false where there is none to be seen."""
        from rltui.client import programs

        return await programs.open_url(url)

    @abstractmethod
    def attach_command(self, component: str) -> list[str]:
        """Argument list of the program that shows the component's raw terminal until the person detaches."""
