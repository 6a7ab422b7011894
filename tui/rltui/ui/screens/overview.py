"""The screen to live in: header, panes, keys. Binds and forwards."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.events import DescendantFocus, Resize
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from rltui.client.experiment import Event
from rltui.core.config.edit_log import edited_keys
from rltui.core.config.report import KnobInfo, KnobTable
from rltui.core.experiment.api import Alert, Request, Status
from rltui.core.experiment.journal import JournalEntry
from rltui.core.gpu.report import GpuReport
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, Scope, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.commands.components import COMPONENT_KEYS, ComponentCommands
from rltui.ui.commands.config import CONFIG_KEYS, ConfigCommands
from rltui.ui.commands.forks import ForkCommands
from rltui.ui.commands.panels import PANEL_KEYS, PanelCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.logs.view import LogView
from rltui.ui.messages import NotifyingApp
from rltui.ui.panels.arrange_line import ArrangeLine
from rltui.ui.panels.arrangement import Arrangement
from rltui.ui.panels.body import Body
from rltui.ui.requests import ConfirmableRequest, access_text, is_all_stopped, is_same_rollback, rollback_text
from rltui.ui.screens.tour import TOUR_KEYS, Tour
from rltui.ui.screens.view_state import SavedViewState
from rltui.ui.state import AppState, UiStateStore
from rltui.ui.widgets.bars import HeaderBar, KeyBar, OrphanBar, ProposalBar, RewardCurve, ServerBar
from rltui.ui.widgets.knob_table import KnobRows
from rltui.views.gpu.account import freeable

_AGE_INTERVAL_S = 1.0
"""Uptimes are computed this often; only a changed text is painted."""
_SAVE_INTERVAL_S = 1.0
"""Changes of a person are saved this often: a killed terminal loses no more than that."""

_CURVE_FROM_ROWS = 36
"""Least height of a screen with the rewards of the whole run, in three rows below the header."""
_BUSY_S = 10.0
"""A person is at work for so long after a key: nothing else changes the selection."""
_WITH_CONFIG = (KeyContext.OVERVIEW, KeyContext.CONFIG)
"""Screens that have the keys of the config."""


class Overview(BaseScreen):
    """Shows the newest value of each kind and turns keys into commands."""

    BINDINGS: ClassVar = [*keys(
        KeyContext.OVERVIEW, *EXPERIMENT_KEYS, *CONFIG_KEYS, *COMPONENT_KEYS, *PANEL_KEYS,
        bind(verbs.COMPONENT_FULL_LOG, "show_full_log",
             "Open the log of the selected component in full width"),
        bind(verbs.PROCESS_FREE, "free_orphans", footer=Footer.YES),
        own("proposal.answer", "X", "commands.answer_proposal", "proposal",
            "Accept or decline what an agent proposes", Scope.GLOBAL, footer=Footer.YES, changes=True),
        bind(verbs.EDIT, "edit_knob", "Edit the knob under the cursor, or one that the component reads",
             footer=Footer.YES),
        bind(verbs.KNOB_DIFF, "config.show_pending", footer=Footer.YES),
        bind(verbs.KNOB_CONVERT, "config.convert"),
        bind(verbs.FORK, "forks.fork_open"),
        own("panels.arrange", "", "arrange", "arrange", "Move, resize, hide and show panels",
            Scope.LOOKING),
        bind(verbs.BACK, "show_overview"),
    ), *keys(KeyContext.TOUR, *TOUR_KEYS, priority=True)]  # fmt: skip
    place = KeyContext.OVERVIEW

    class Composed(Message):
        """All panes exist: values may come."""

    status: reactive[Status | None] = reactive(None, init=False, bindings=True)

    def __init__(self, app_state: AppState, *, ask_to_start: bool) -> None:
        super().__init__(app_state)
        description, state = self.experiment.description, self.state
        state.watch("config", self._show_config)
        state.watch("connection", self._show_connection)
        self._clock = app_state.clock
        self._ask_to_start = ask_to_start and description.screen.ask_to_start
        self._component_ids = description.component_ids
        self._log_ids = description.log_ids
        self._readonly = description.readonly
        self._claim = ""
        """Pid of the process that a person most likely wants to end; empty where there is none."""
        layout_state = UiStateStore(app_state.runs, f"layout-{description.layout_name}")
        self.panels = PanelCommands(self, layout_state, self._default_arrangement)
        self.view_state = SavedViewState(self, self.panels, layout_state)
        self.components = ComponentCommands(self, state, self.commands, lambda: self.panels.component)
        self.config = ConfigCommands(self, state, self.commands, lambda: self.cursor_knob)
        self.forks = ForkCommands(self, app_state)
        self.tour = Tour(self)

    def compose(self) -> ComposeResult:
        access = access_text(self.experiment, all_readonly=self.app_state.runs.readonly)
        yield HeaderBar(access=access, host=self.experiment.host)
        yield RewardCurve()
        yield KeyBar()
        yield Static(id="banner", markup=False)
        yield ProposalBar(is_readonly=self._readonly)
        yield OrphanBar(
            hint="" if self._readonly else f" · {key_of('process.free')} ends them", clock=self._clock
        )
        yield ServerBar()
        yield self._new_body()

    def _new_body(self) -> Body:
        return Body(self.state, self.panels.arrangement, self._component_ids, self._log_ids)

    def _default_arrangement(self, is_wide: bool) -> Arrangement:
        screen = self.experiment.description.screen
        ids = (*self._component_ids, *self._log_ids)
        return Arrangement.of_layout(screen, ids, has_charts=is_wide)

    def on_mount(self) -> None:
        """The first frame need not wait for what was saved of this run."""
        self.post_message(self.Composed())
        self.set_interval(_AGE_INTERVAL_S, self.update_ages, name="uptimes")
        self.set_interval(_SAVE_INTERVAL_S, self.view_state.save, name="save view state")
        in_background(self, self.view_state.read, group="view state", exclusive=False)

    async def on_unmount(self) -> None:
        await self.view_state.write()

    def on_screen_resume(self) -> None:
        self.tour.show()

    def on_resize(self, event: Resize) -> None:
        self.query_one(RewardCurve).is_wanted = event.size.height >= _CURVE_FROM_ROWS
        self._share_header()
        self.panels.fit(event.size)
        self.call_after_refresh(self.tour.show)

    def _share_header(self) -> None:
        """The rewards are drawn once."""
        self.query_one(HeaderBar).graph = not self.query_one(RewardCurve).is_shown

    # values in

    async def show(self, event: Event) -> None:
        """Take over a pushed value, unless all this goes: the app ends, or shows another run."""
        if not self.display:  # says that too, which the parts of a screen do not outlive (Textual 8.2)
            return
        match event:
            case Status():
                await self._arrange(event)
                if not self.display:
                    return
                self.status = event
                self.view_state.restore()
            case GpuReport():
                self._show_gpus(event)
            case KnobTable():
                self.state.show_table(event)
            case JournalEntry():
                self.state.show_journal()
                self.state.add_edited(edited_keys((event,)))
            case Alert():
                """The app says it."""

    def _show_config(self) -> None:
        for body in self.panels.bodies:
            body.show_knobs(self.view_state.pins)
        self.refresh_bindings()

    @on(KnobRows.PinsChanged)
    def _save_pins(self, event: KnobRows.PinsChanged) -> None:
        self.view_state.save_pins(event.pins)
        self._show_config()

    def _show_gpus(self, report: GpuReport) -> None:
        processes = freeable(report)
        could_free, self._claim = bool(self._claim), str(processes[0][0].pid) if processes else ""
        if bool(self._claim) is not could_free:
            self.refresh_bindings()
        self.state.show_gpus(report)
        for body in self.panels.bodies:
            body.show_gpus()

    def _show_connection(self) -> None:
        problem = self.state.connection_problem
        for banner in self.query("#banner").results(Static):  # none any more when the app is closing
            banner.update(f"⚠ {problem}" if problem else "")
            banner.set_class(problem is not None, "-shown")

    async def _arrange(self, status: Status) -> None:
        ids = tuple(component.id for component in status.components if not component.manual)
        logs = tuple(log.id for log in status.logs)
        panels = self.panels
        if (ids, logs) == (self._component_ids, self._log_ids):
            await panels.body.show_extra([item.id for item in status.components if item.manual])
            if panels.selected is not None and panels.body.reader(panels.selected) is None:
                panels.focus_first()
            return
        self._component_ids, self._log_ids = ids, logs
        await self.query_one(Body).remove()
        await self.mount(self._new_body())
        self._show_config()
        panels.body.show_gpus()
        panels.focus_first()

    def show_pause(self, text: str) -> None:
        if self.status is not None:
            self.status = self.status.replace(agents_paused=text)

    def watch_status(self, previous: Status | None, status: Status | None) -> None:
        if status is None:
            return
        self.state.status = status
        self.query_one(HeaderBar).status = status
        rewards = self.query_one(RewardCurve)
        target = status.progress.target
        rewards.title = "reward" if target is None else target.title
        rewards.curve = status.progress.curve if target is None else target.points
        rewards.beside = status.progress.beside
        self._share_header()
        self.query_one(ProposalBar).show(status)
        self.query_one(OrphanBar).orphans = status.orphans
        self.query_one(ServerBar).servers = status.servers
        self.panels.body.show_status(status)
        self.panels.leave_gone()
        if previous is None and self._ask_to_start and not self._readonly and is_all_stopped(status):
            self.commands.request(ConfirmableRequest(Request(action="start"), "Start everything?"))
        self._attend()
        self._offer_rollback(previous, status)
        if previous is None:
            self.call_after_refresh(self.tour.show)

    def _attend(self) -> None:
        """Select what has failed or works, for the keys to act on, once a person leaves these alone."""
        is_busy = isinstance(self.app, NotifyingApp) and (
            asyncio.get_running_loop().time() - self.app.touched_at < _BUSY_S or self.app.screen.is_modal
        )
        if not is_busy and self.status is not None:
            self.panels.attend(self.status.failed)

    @on(Body.Rearranged)
    def _save_arrangement(self) -> None:
        self.panels.save_arrangement()
        self.refresh_bindings()

    @on(DescendantFocus)
    def _select_focused(self) -> None:
        """Select by what has the focus now: the event may be older than the last key."""
        self.panels.select(self.panels.current_pane)
        self.refresh_bindings()

    def _offer_rollback(self, previous: Status | None, status: Status) -> None:
        """Waits while a person is busy with a dialog or the GPUs: it would catch their keys."""
        old_offer = previous.rollback if previous is not None else None
        offer = status.rollback
        if self._readonly or offer is None or offer == old_offer:
            return
        top = self.app.screen
        if offer.resume_step is None and isinstance(top, BaseScreen) and top.place in _WITH_CONFIG:
            self.config.roll_back()
        elif not is_same_rollback(offer, old_offer):
            self.notify(rollback_text(offer), severity="warning", markup=False)

    def update_ages(self) -> None:
        self._attend()
        self.query_one(OrphanBar).update_ages()
        for body in self.panels.bodies:
            body.update_ages()

    # what the keys act on

    @property
    def cursor_knob(self) -> KnobInfo | None:
        """`None` unless the table has the keys."""
        return next((rows.knob for rows in self.query(KnobRows) if rows.has_focus), None)

    def copied(self) -> CopyRequested | None:
        return self.config.copied() or super().copied()

    def log_of_errors(self, log: LogView) -> LogView:
        """Answer a log view that asks which log to search for errors (`ManyLogs`)."""
        return self.panels.log_of_errors(log)

    @on(LogView.NoErrors)
    def _find_errors_elsewhere(self, event: LogView.NoErrors) -> None:
        self.panels.find_errors_elsewhere(event.view)

    # screens on top

    def action_show_screen(self, name: str) -> None:
        knob = self.cursor_knob
        self.show_screen(name, aim=knob.key if knob is not None and name == "config" else "")

    def action_show_overview(self) -> None:
        """Back from zoom: this is the overview."""
        self.panels.body.zoom(None)
        self.refresh_bindings()

    def action_arrange(self) -> None:
        self.app.push_screen(ArrangeLine(self.panels))

    def action_show_tour(self) -> None:
        self.tour.begin()

    # requests out

    def action_free_orphans(self) -> None:
        """Asks, default no. Of what rltui did not start, the GPU screen shows all there is to know first."""
        if self.status is not None and self.status.orphans:
            self.components.request("free-orphans")
        elif self._claim:
            self.show_screen("gpus", aim=self._claim)

    def action_edit_knob(self) -> None:
        component = self.panels.component
        if not self.config.edit_chosen(None if component is None else component.id):
            self.panels.focus_knobs()

    @on(KnobRows.EditRequested)
    def _edit(self, event: KnobRows.EditRequested) -> None:
        event.stop()
        self.config.edit(event.knob)

    @on(KnobRows.Moved)
    def _look_at_knob(self) -> None:
        if self.state.staged:  # else no key depends on it
            self.refresh_bindings()
        else:
            self.query_one(KeyBar).refresh()

    def action_show_full_log(self) -> None:
        if self.panels.selected is not None:
            self.show_screen("logs", aim=self.panels.selected)

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "free_orphans":
                has_orphans = self.status is not None and bool(self.status.orphans)
                return has_orphans or bool(self._claim)
            case "edit_knob":
                return bool(self.state.knobs)
            case _:
                return super().enabled(command, *arguments)
