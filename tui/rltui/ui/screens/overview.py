"""The screen to live in: header, panes, keys. Binds and forwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.events import Resize
from textual.message import Message
from textual.widgets import Static

from rltui.client.experiment import Event
from rltui.core.api import Alert, ComponentStatus, JournalEntry, Request, Status
from rltui.core.config_report import KnobInfo, KnobTable
from rltui.core.edit_log import edited_keys
from rltui.core.gpu.report import GpuReport
from rltui.core.states import ComponentState
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, Scope, key_of
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.commands.components import ComponentActions
from rltui.ui.config_actions import CONFIG_KEYS, ConfigActions
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.messages import NotifyingApp, waiting
from rltui.ui.panels.arrangement import Arrangement
from rltui.ui.requests import ConfirmableRequest, access_text
from rltui.ui.screens.fork_dialog import ForkActions
from rltui.ui.screens.kept_place import SavedViewState
from rltui.ui.screens.tour import TOUR_KEYS, TourActions
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import HeaderBar, KeyBar, OrphanBar, RewardCurve, ServerBar
from rltui.ui.widgets.body import Body
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobRows, is_worth_a_row
from rltui.ui.widgets.panes import ComponentPane, LogFilePane, ReaderPane
from rltui.views.gpu import freeable

_TITLE_INTERVAL_S = 1.0
"""How often uptimes are looked at; only a changed text is painted."""

_CURVE_FROM_ROWS = 36
"""From here on the rewards of the whole run have three rows below the header."""
_BUSY_S = 10.0
"""After a key a person is at work, and nothing else takes the selection away."""
_TINY_ROWS = 9
"""Below this, a pane is zoomed from the start."""


class Overview(TourActions, SavedViewState, ComponentActions, ConfigActions, ForkActions):
    """Shows the newest value of each kind and turns keys into requests."""

    BINDINGS: ClassVar = [*keys(
        KeyContext.OVERVIEW, *EXPERIMENT_KEYS, *CONFIG_KEYS,
        bind(verbs.COMPONENT_START, "request('start')", footer=Footer.YES),
        bind(verbs.COMPONENT_STOP, "request('stop')", footer=Footer.YES),
        bind(verbs.COMPONENT_RESTART, "request('restart')", footer=Footer.YES),
        own("component.restart-menu", "R", "restart_menu", "restart…",
            "Choose what to restart: set or all, from checkpoint or from scratch", Scope.COMPONENTS,
            changes=True),
        own("component.fix", "F", "fix_memory", "fix memory",
            "After an out-of-memory error: choose an edit that helps, plan first", Scope.COMPONENTS,
            footer=Footer.YES, changes=True),
        own("component.kill", "X", "request('kill')", "kill",
            "Kill the selected component's whole tree at once", Scope.COMPONENTS, changes=True),
        bind(verbs.COMPONENT_START_ALL, "request('start-all')"),
        bind(verbs.COMPONENT_STOP_ALL, "request('stop-all')"),
        bind(verbs.COMPONENT_INFERENCE, "focus_component('inference')"),
        bind(verbs.COMPONENT_ORCHESTRATOR, "focus_component('orchestrator')"),
        bind(verbs.COMPONENT_TRAINER, "focus_component('trainer')"),
        own("component.attach", "a", "attach_component", "attach",
            "Attach to the raw terminal of the component", Scope.COMPONENTS),
        bind(verbs.COMPONENT_FULL_LOG, "show_full_log"),
        own("component.script", "J", "show_script", "job script",
            "Show the script with which the selected component was submitted to SLURM", Scope.COMPONENTS),
        own("component.shell", "", "open_shell", "shell",
            "Open a shell with the folder, variables and devices of the selected component",
            Scope.COMPONENTS, changes=True),
        bind(verbs.PROCESS_FREE, "free_orphans", footer=Footer.YES),
        bind(verbs.EDIT, "edit_knob",
             help="Edit the knob under the cursor; from a component, one of those that it reads",
             footer=Footer.YES),
        bind(verbs.KNOB_DIFF, "show_pending", footer=Footer.FIRST_TO_GO),
        bind(verbs.KNOB_CONVERT, "convert_batch"),
        own("knob.focus", "ctrl+k", "focus_knobs", "knobs", "Go to the knobs", Scope.KNOBS),
        bind(verbs.HIDE, "hide_pane", "hide panel", "Hide the panel that has the keys"),
        bind(verbs.FORK),
        bind(verbs.PANE_NEXT, "focus_beside(1)"),
        bind(verbs.PANE_PREVIOUS, "focus_beside(-1)"),
        bind(verbs.ZOOM, footer=Footer.YES),
        own("panels.arrange", "ctrl+w", "arrange", "arrange",
            "Move, resize, hide and show panels; kept with the layout", Scope.LOOKING),
        own("panels.all", "", "show_all_panes", "all panels", "Show the panels that were hidden",
            Scope.LOOKING),
        own("panels.charts", "", "toggle_charts", "charts", "Charts beside the other panels, or no more",
            Scope.LOOKING),
        own("panels.usual", "", "usual_panes", "usual panels", "All panels as the layout has them",
            Scope.LOOKING),
        bind(verbs.CURSOR_NEXT, "select_beside(1)", help="Select the next component"),
        bind(verbs.CURSOR_PREVIOUS, "select_beside(-1)", help="Select the previous component"),
        bind(verbs.FIND_ERRORS, palette=InPalette.NO),
        bind(verbs.BACK, "show_overview", help="Back from zoom to all panes"),
    ), *keys(KeyContext.TOUR, *TOUR_KEYS, priority=True)]  # fmt: skip
    place = KeyContext.OVERVIEW

    class Composed(Message):
        """All panes exist: values may come."""

    @dataclass
    class AttachRequested(Message):
        """A person wants the raw terminal of a component."""

        component_id: str

    def __init__(self, home: AppState, *, ask_to_start: bool) -> None:
        super().__init__(home)
        experiment = self.experiment
        self.shared.watch("config", self._show_config)
        self.shared.watch("connection", self._show_connection)
        self._clock = home.clock
        self._ask_to_start = ask_to_start and experiment.screen.ask_to_start
        self._component_ids = experiment.component_ids
        self._log_ids = experiment.log_ids
        self._is_tiny = False
        self._readonly = experiment.readonly
        self.open_layout_memory(home)
        self._claim = ""
        """Pid of the process that a person most likely wants to end; empty where there is none."""

    def compose(self) -> ComposeResult:
        access = access_text(self.experiment, all_readonly=self.home.runs.readonly)
        yield HeaderBar(access=access, host=self.experiment.host)
        yield RewardCurve()
        yield KeyBar()
        yield Static(id="banner", markup=False)
        yield OrphanBar(
            hint="" if self._readonly else f" · {key_of('process.free')} ends them", clock=self._clock
        )
        yield ServerBar()
        yield self._new_body()

    def _new_body(self) -> Body:
        return Body(self.shared, self.arrangement, self._component_ids, self._log_ids)

    @property
    def default_arrangement(self) -> Arrangement:
        return Arrangement.of_layout(self.experiment.screen, (*self._component_ids, *self._log_ids))

    def on_mount(self) -> None:
        self.post_message(self.Composed())
        self.set_interval(_TITLE_INTERVAL_S, self._update_titles, name="uptimes")

    def on_resize(self, event: Resize) -> None:
        """On a high screen the rewards are drawn; on a tiny one there is a single pane."""
        self.query_one(RewardCurve).wanted = event.size.height >= _CURVE_FROM_ROWS
        self._share_header()
        is_tiny = event.size.height < _TINY_ROWS
        if is_tiny != self._is_tiny and self.body.panes:
            self._is_tiny = is_tiny
            self.body.zoom((self.current_pane or self.body.panes[0]) if is_tiny else None)

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
                self.restore_place()
            case GpuReport():
                self._show_gpus(event)
            case KnobTable():
                self.shared.show_table(event)
            case JournalEntry():
                self.shared.show_journal()
                self.shared.add_edited(edited_keys((event,)))
            case Alert():
                """The app says it."""

    def _show_config(self) -> None:
        self.show_knobs()
        self.refresh_bindings()

    def _show_gpus(self, report: GpuReport) -> None:
        found = freeable(report)
        could_free, self._claim = bool(self._claim), str(found[0][0].pid) if found else ""
        if bool(self._claim) is not could_free:
            self.refresh_bindings()
        self.shared.show_gpus(report)
        for panel in self.query(GpuPanel):
            panel.show(report, self._clock(), hint="" if self._readonly else f" · {key_of('process.free')}")

    def _show_connection(self) -> None:
        problem = self.shared.connection_problem
        for banner in self.query("#banner").results(Static):  # none any more when the app is closing
            banner.update(f"⚠ {problem}" if problem else "")
            banner.set_class(problem is not None, "-shown")

    async def _arrange(self, status: Status) -> None:
        ids = tuple(component.id for component in status.components if not component.manual)
        logs = tuple(log.id for log in status.logs)
        if (ids, logs) == (self._component_ids, self._log_ids):
            await self.body.show_besides([each.id for each in status.components if each.manual])
            if self.selected is not None and self.body.reader(self.selected) is None:
                self.focus_first()
            return
        self._component_ids, self._log_ids = ids, logs
        await self.query_one(Body).remove()
        await self.mount(self._new_body())
        self._show_config()
        self.focus_first()

    def watch_status(self, before: Status | None, status: Status | None) -> None:
        if status is None:
            return
        self.shared.status = status
        self.query_one(HeaderBar).status = status
        self.query_one(RewardCurve).curve = status.progress.curve
        self._share_header()
        self.query_one(OrphanBar).orphans = status.orphans
        self.query_one(ServerBar).servers = status.servers
        self._fill_readers(status)
        self.body.place_anew()
        if before is None and self._ask_to_start and not self._readonly and self._all_stopped(status):
            self.commands.request(
                ConfirmableRequest(Request(action="start"), "Nothing runs yet. Start everything?")
            )
        self._show_failed(before, status)
        self._offer_rollback(before, status)
        if before is None:
            self.call_after_refresh(self.begin_tour)

    def _fill_readers(self, status: Status) -> None:
        for component in status.components:
            pane = self.body.reader(component.id)
            if isinstance(pane, ComponentPane):
                pane.status = component
                if pane.is_over and self.selected == component.id:
                    self.focus_first()
        for log in status.logs:
            pane = self.body.reader(log.id)
            if isinstance(pane, LogFilePane):
                pane.log_file = log

    def fill(self) -> None:
        """All panes, as after a change of each value."""
        self._show_config()
        if self.shared.gpus is not None:
            self._show_gpus(self.shared.gpus)
        if self.status is not None:
            self._fill_readers(self.status)
            self.body.place_anew()

    def _show_failed(self, before: Status | None, status: Status) -> None:
        """What has just failed is selected, for the keys to act on it; not below the hands of a person."""
        new = [each for each in status.failed if before is None or each not in before.failed]
        is_busy = isinstance(self.app, NotifyingApp) and (
            asyncio.get_running_loop().time() - self.app.touched_at < _BUSY_S or self.app.screen.is_modal
        )
        if new and not is_busy:
            self.action_focus_component(new[0])

    def _offer_rollback(self, before: Status | None, status: Status) -> None:
        """At once, unless that would catch the keys of somebody who is busy with a dialog or the GPUs."""
        offer, known = status.rollback, before.rollback if before is not None else None
        if self._readonly or offer is None or offer == known:
            return
        key = key_of("knob.roll-back")
        if offer.resume_step is not None:
            if known is not None and (known.edit, known.resume_step) == (offer.edit, offer.resume_step):
                return  # its figures go on
            others = ", ".join(f"{name} = {value}" for name, value in offer.edits.items())
            back = f" and takes back: {offer.edit}" if offer.edit else f" with {others}" if others else ""
            text = f"{offer.reason}. {key} goes back to checkpoint {offer.resume_step}{back}"
            self.notify(clean_line(text), severity="warning", markup=False)
        elif isinstance(self.app.screen, ConfigActions):
            self.action_roll_back()
        else:
            why = f"{clean_line(offer.component)} ended right after: {clean_line(offer.edit)}"
            text = f"{why}. {key} takes it back"
            self.notify(text, severity="warning", markup=False)

    @staticmethod
    def _all_stopped(status: Status) -> bool:
        return not status.done and all(item.state is ComponentState.STOPPED for item in status.components)

    def _update_titles(self) -> None:
        for pane in self.query(ReaderPane):  # none while they are being replaced
            pane.update_title()
        self.query_one(OrphanBar).update_ages()
        for panel in self.query(GpuPanel):
            panel.update_age(self._clock())

    # what the keys act on

    @property
    def component(self) -> ComponentStatus | None:
        """The selected component: where a log file is selected, the only one there is."""
        if self.status is None:
            return None
        components = self.status.components
        selected = next((item for item in components if item.id == self.selected), None)
        if selected is None and self.selected in self._log_ids and len(components) == 1:
            return components[0]
        return selected

    @property
    def cursor_knob(self) -> KnobInfo | None:
        """Under the table's cursor, while the table has the keys."""
        return next((rows.knob for rows in self.query(KnobRows) if rows.has_focus), None)

    # screens on top

    def show_kept_screen(self, name: str) -> None:
        self.show_screen(name)

    def action_show_screen(self, name: str) -> None:
        """On top of this one, until the person comes back."""
        knob = self.cursor_knob
        self.show_screen(name, aim=knob.key if knob is not None and name == "config" else "")

    def action_show_overview(self) -> None:
        self.body.zoom(None)
        self.refresh_bindings()

    # requests out

    def action_free_orphans(self) -> None:
        """Asks, default no. Of what rltui did not start, the GPU screen shows all there is to know first."""
        if self.status is not None and self.status.orphans:
            self.action_request("free-orphans")
        elif self._claim:
            self.show_screen("gpus", aim=self._claim)

    def action_edit_knob(self) -> None:
        """The knob under the table's cursor; from a component, one of those that it reads."""
        table, component = self.shared.table, self.component
        own = [knob for knob in table.knobs if component is not None and component.id in knob.readers]
        own = [knob for knob in own if is_worth_a_row(knob, self.shared.staged)]
        if (knob := self.cursor_knob) is not None:
            self.edit(knob)
        elif component is not None and own:
            self.work(self.config_work.edit_one_of(own, component.id))
        else:
            self.action_focus_knobs()

    @on(KnobRows.EditRequested)
    def _edit(self, event: KnobRows.EditRequested) -> None:
        event.stop()
        self.edit(event.knob)

    @on(KnobRows.Moved)
    def _look_at_knob(self) -> None:
        if self.shared.staged:  # else no key depends on it
            self.refresh_bindings()
        else:
            self.query_one(KeyBar).refresh()

    def action_show_full_log(self) -> None:
        if self.selected is not None:
            self.show_screen("logs", aim=self.selected)

    def action_attach_component(self) -> None:
        if (item := self.component) is not None:
            self.post_message(self.AttachRequested(item.id))

    def action_open_shell(self) -> None:
        """In the surroundings of the selected component; the one that lives, if one does."""
        self.work(self._open_shell())

    async def _open_shell(self) -> None:
        like = None if self.component is None or self.component.manual else self.component.id
        try:
            async with waiting(self.app, "Opening a shell"):
                shell = await self.experiment.open_shell(like)
            self.post_message(self.AttachRequested(shell))
        except RltuiError as error:
            await self.show_error(error)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        possible = True
        match action:
            case "free_orphans":
                has_orphans = self.status is not None and bool(self.status.orphans)
                possible = has_orphans or bool(self._claim)
        return possible and super().check_action(action, parameters)
