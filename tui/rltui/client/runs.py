"""The interface of all runs to clients: of this machine, of another one, or of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rltui import paths
from rltui.base.questions import command, question
from rltui.services import screen_state

if TYPE_CHECKING:  # the first frame need not wait for what later screens ask
    from rltui.client.experiment import Experiment
    from rltui.client.settings_text import SettingsText
    from rltui.core.metrics.series import SeriesSource
    from rltui.core.rollouts.batches import RolloutSource
    from rltui.core.runs.bench import Bench
    from rltui.core.runs.compare import Comparison
    from rltui.core.runs.forks import ForkPlan, ForkRequest
    from rltui.core.runs.queue import QueueAction, RunQueue
    from rltui.core.runs.row import RunChange, RunRow
    from rltui.services.runs.query import QueryableRuns, RunQuery
    from rltui.views.report import Draw


class Runs(ABC):
    """All runs of one or several machines. All calls block, for a thread, and may raise `RltuiError`."""

    readonly: bool
    """True if no run is changed; experiments that are opened are read-only as well."""
    host: str
    """The other machine that all of them are on; empty: this one, or several."""
    hosts: tuple[str, ...]
    """Other machines whose runs are among those of this one: `RunRow.host` says of each which it is on."""

    @property
    @abstractmethod
    def trouble(self) -> str:
        """The reason why some rows may be outdated, such as a machine that cannot be reached; else empty."""

    @abstractmethod
    def rows(self) -> tuple[RunRow, ...]:
        """The runs of the index, in no order. The same tuple as before where nothing has changed, which costs
        next to nothing.
        """

    def select(self, query: RunQuery) -> Sequence[str]:
        """Ids of the runs that a query means, in its order."""
        return self._queryable.select(query, self.rows(), self.configs)

    @cached_property
    def _queryable(self) -> QueryableRuns:
        from rltui.services.runs.query import QueryableRuns

        return QueryableRuns()

    @question()
    def catch_up(self) -> tuple[str, ...]:
        """Bring the index up to date with the folders. Returns, in sentences, what a person should know."""

    @question()
    def configs(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The flat config that each run last had, by knob name, by id of the run."""

    @command()
    def change(self, id_: str, change: RunChange) -> RunRow:
        """Change the name of a run or what is said of it, or move it to the trash and back. Returns the run
        after the change.

        Raises:
            ConfigError: for an invalid name.
            UsageError: if the run is gone, or for an invalid tag or note.
            ConflictError: if the name is taken, if its folder is missing, or if the run lives.
        """

    @abstractmethod
    def open(self, id_: str, *, again: bool = False) -> Experiment:
        """Look at a run: through its supervisor where something of it lives, else from its files alone.

        With `again` a supervisor is started where there is none: then it can be changed and started.

        Raises:
            UsageError: if there is no such run any more.
            RltuiError: if its folder is gone or damaged.
        """

    @question()
    def compare(self, ids: Sequence[str], metrics: Sequence[str] = ()) -> Comparison:
        """Runs beside each other, in this order. `metrics`: ids of concepts or names of series; none: the
        usual ones.

        Raises:
            UsageError: if one of the runs is not there any more, or no run has one of the metrics.
        """

    @question()
    def plan_fork(self, id_: str, wish: ForkRequest) -> ForkPlan:
        """Plan a fork of a run. No side effects.

        Raises:
            UsageError: if there is no such run any more, or it cannot be started.
            ConfigError: if an edit names no knob, or the config breaks a rule with it.
            ConflictError: if there is no such checkpoint, or name or folder are taken.
        """

    @command()
    def fork(self, id_: str, wish: ForkRequest) -> tuple[str, ...]:
        """Make it and start it. What a person should know of it, in sentences.

        Raises:
            ConfigError, ConflictError: as `plan_fork`; nothing is left of it.
            RltuiError: if it cannot be made; likewise.
        """

    @command()
    def start_demo(self) -> str:
        """Make the demo and start it. Returns the id of its run.

        Raises:
            RltuiError: if torch is missing, or it cannot be made or started.
        """

    @abstractmethod
    def open_series(self, id_: str) -> SeriesSource:
        """The metrics of a run, whole and up to now."""

    @abstractmethod
    def open_rollouts(self, id_: str) -> RolloutSource:
        """The rollouts of a run. Nothing is read yet."""

    @abstractmethod
    def export(self, id_: str, folder: str, draw: Draw, *, samples: int) -> str:
        """Write a report of a run into `folder`, empty: a new one in the working folder. Returns where it is.

        `draw` makes the curves; `samples`: so many of the best and of the worst rollouts.

        Raises:
            ConflictError: if something lies there.
            RltuiError: if it cannot be written; nothing is left then.
        """

    @abstractmethod
    def queue(self) -> RunQueue:
        """The runs that wait, and those that the queue has started. Cheap: it reads a file."""

    @command()
    def pause_agents(self) -> str:
        """Let agents only look, on all runs of the machine, or end such a pause. Returns who has paused them;
        empty: nobody has.
        """

    @command()
    def change_queue(self, action: QueueAction, entry: str = "", *, place: str = "") -> None:
        """Do something about it, and see to it that somebody minds it. `entry`: its id; `place` of `move`:
        `up`, `down`, `first`, `last`.

        Raises:
            UsageError: if there is no such entry any more.
            ConflictError: if it runs, where that is in the way.
        """

    @question()
    def benches(self) -> tuple[Bench, ...]:
        """The benches, the newest first."""

    # --- the person's own, on this machine wherever the runs are ------------------------------------------

    def view_state(self, owner: str) -> Mapping[str, Any]:
        """Saved state of a screen, plain JSON: of `app`, `runs`, a layout, a run. Empty where nothing was
        saved. Never raises.
        """
        return screen_state.load_state(owner)

    def save_view_state(self, owner: str, values: Mapping[str, Any]) -> None:
        screen_state.save_state(owner, values)

    def copy_to_tmux(self, text: str) -> bool:
        """Have the person's own tmux keep what was copied, and pass it on; false where there is none."""
        from rltui.client.programs import copy_to_tmux

        return copy_to_tmux(text)

    def save_copy(self, text: str) -> str:
        """Put what was copied into the file for it, in place of the copy before, and return its path."""
        return str(screen_state.save_copy(text))

    def settings(self) -> SettingsText:
        """The user's settings file.

        Raises:
            ConfigError: if it cannot be read.
        """
        from rltui.client import settings_text  # knows the frameworks

        return settings_text.as_text()

    def edit_settings(self, text: str, line: int) -> str:
        """Let a person edit `text` in their own editor, from `line` on, and return what was saved.

        Takes the terminal over. The file itself is left alone.
        """
        from rltui.client.programs import edit_text

        return edit_text(str(paths.settings_file()), text, line=line)

    def replace_settings(self, seen: SettingsText, text: str) -> None:
        """Have `text` be the settings.

        Raises:
            ConfigError: if it cannot be understood.
            ConflictError: if the file is not what was `seen` any more.
        """
        from rltui.client import settings_text

        settings_text.replace_text(seen, text)
