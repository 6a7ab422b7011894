"""The queue screen: runs that wait and why, that run, that have ended. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from textual.content import Content

from rltui.core.experiment.states import ENTRY_STATES
from rltui.core.runs.queue import QueueAction, QueueEntry, RunQueue
from rltui.core.runs.row import RunRow
from rltui.ui import verbs
from rltui.ui.actions import Action, Footer, KeyContext, Scope, key_of
from rltui.ui.base_screen import SCREEN_KEYS
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.requests import OpenRunRequested
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.state import AppState
from rltui.ui.styles import STYLES
from rltui.ui.text import clean_line
from rltui.ui.widgets.resource_table import ResourceTable
from rltui.ui.widgets.row_list import READING, Row, list_keys, note_row
from rltui.views.experiment import badge_of
from rltui.views.queue_entry import VIEW, QueuedRun, entry_details, queue_counts, queue_notices, queued_runs

_TABLE = ResourceTable(
    VIEW,
    VIEW.named(
        ("sign", "run", "state", "step", "reward", "what", "why"), first_to_go=("reward", "what", "step")
    ),
    style=lambda queued: STYLES[badge_of(queued.verdict.state).role] if not queued.entry.is_open else "",
    last_least=24,
)

_PAUSE = Action("queue.pause", "P", "pause", "Pause or resume the queue", Scope.PICKING, changes=True)


class QueueScreen(ResourceScreen):
    BINDINGS = keys(
        KeyContext.QUEUE, *SCREEN_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "open_queued", "Open the run", footer=Footer.YES),
        bind(verbs.COMPONENT_RESTART, "change('retry')",
             "Restart the run with the current config",
             footer=Footer.YES),
        bind(_PAUSE, "change('pause')", "Pause the queue; running runs continue", footer=Footer.YES),
        bind(_PAUSE, "change('resume')", "Resume the queue", label="resume", footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.REMOVE, "change('remove')", "Remove from the queue; the run is kept", footer=Footer.YES),
        own("queue.earlier", "shift+up", "change('move', 'up')", "earlier", "Move the queued run up",
            Scope.PICKING, footer=Footer.YES, changes=True),
        own("queue.later", "shift+down", "change('move', 'down')", "later", "Move the queued run down",
            Scope.PICKING, footer=Footer.YES, changes=True),
        own("queue.first", "", "change('move', 'first')", "first", "Move the queued run to the front",
            Scope.PICKING, changes=True),
        bind(verbs.SEARCH, "search", "Search the rows", footer=Footer.FIRST_TO_GO),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    place = KeyContext.QUEUE
    is_of_all_runs = True

    part = "queue"
    reading = "Reading the queue"
    interval_s = 1.0

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self._queue: RunQueue | None = None
        self._runs: Mapping[str, RunRow] = {}
        """Rows of runs by their folders."""

    async def ask(self) -> None:
        self._queue = await asyncio.to_thread(self.app_state.runs.queue)
        rows = await asyncio.to_thread(self.app_state.runs.rows)
        self._runs, self.problem = {row.folder: row for row in rows}, ""

    def update_title(self) -> None:
        queue = self._queue
        facts = ["‖ paused"] if queue is not None and queue.paused else []
        facts += [] if queue is None else queue_counts(queued_runs(queue, self._run_of))
        facts += [f"⚠ {clean_line(self.problem)}"] if self.problem else []
        title = (" rltui ", "bold $accent"), ("Queue", "bold"), "".join(f" · {fact}" for fact in facts)
        self.title_line.update(Content.assemble(*title))
        notes = [] if queue is None else queue_notices(queue, f"{key_of('queue.pause')} resumes.")
        self.notes.update("\n".join(map(clean_line, notes)))
        self.notes.display = bool(notes)

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        if self._queue is None:
            return READING
        if not self._queue.entries:
            text = f"The queue is empty. {key_of('fork')} on a run ({key_of('screen.runs')}) adds one."
            return (note_row(text, width),)
        now = self.app_state.clock()

        def details(queued: QueuedRun) -> list[tuple[str, str]]:
            return [(label, " · ".join(texts)) for label, texts in entry_details(queued.entry, now)]

        return _TABLE.rows(queued_runs(self._queue, self._run_of), width, selected, now, details)

    def _run_of(self, entry: QueueEntry) -> RunRow | None:
        return None if entry.state == "queued" else self._runs.get(entry.folder)

    # --- keys ---------------------------------------------------------------------------------------------

    @property
    def _entry(self) -> QueueEntry | None:
        return None if self._queue is None or self.rows.key is None else self._queue.entry(self.rows.key)

    def action_open_queued(self) -> None:
        """The run takes the place of the experiment that is open."""
        if self._entry is not None and (row := self._run_of(self._entry)) is not None:
            self.post_message(OpenRunRequested(row.id))

    def action_change(self, action: QueueAction, position: str = "") -> None:
        """Pausing and resuming are of the whole queue, the others of the entry under the cursor."""
        entry = "" if self._entry is None else self._entry.id
        self.work(self._change(action, "" if action in ("pause", "resume") else entry, position))

    def action_back(self) -> None:
        if not self.end_search():
            self.show_screen("runs")

    async def _change(self, action: QueueAction, entry: str = "", position: str = "") -> None:
        async with self.waiting("Changing the queue"):
            await asyncio.to_thread(self.app_state.runs.change_queue, action, entry, place=position)
        await self.look()

    def enabled(self, command: str, *arguments: object) -> bool:
        entry = self._entry
        match command, *arguments:
            case "change", ("pause" | "resume") as action:
                return self._queue is not None and bool(self._queue.paused) is (action == "resume")
            case "open_queued", *_:
                return entry is not None and self._run_of(entry) is not None
            case "change", "move", _:
                return entry is not None and entry.state == "queued"
            case "change", "retry":
                return entry is not None and ENTRY_STATES[entry.state].can_be_retried
            case "change", "remove":
                return entry is not None and (entry.state == "queued" or not entry.is_open)
            case _:
                return super().enabled(command, *arguments)
