"""The view of a person on the overview of a run is saved, and restored when the run is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rltui.core.config.edit_log import edited_keys
from rltui.errors import RltuiError
from rltui.ui.base_screen import BaseScreen
from rltui.ui.commands.panels import PanelCommands
from rltui.ui.panels.body import Body
from rltui.ui.screens import SCREENS
from rltui.ui.state import UiStateStore
from rltui.ui.widgets.panes import ReaderPane

_OF_ALL_RUNS = {"runs", "queue", "compare"}


class SavedViewState:
    """Saves the pins with the layout, and with the run: focus, zoom, cursor, searches, the screen."""

    def __init__(self, screen: BaseScreen, panels: PanelCommands, layout_state: UiStateStore) -> None:
        self._screen = screen
        self._state = screen.state
        self._experiment = screen.experiment
        self._panels = panels
        self._layout_state = layout_state
        self._run_state: UiStateStore | None = None
        """It is `None` until it has been read."""
        self._is_restored = False

    async def read(self) -> None:
        """The first frame need not wait for it."""
        runs = self._state.app_state.runs
        with suppress(RltuiError):  # the screen is as usual then
            run_id = await asyncio.to_thread(lambda: self._experiment.run_id)
            if run_id:
                self._run_state = await asyncio.to_thread(UiStateStore, runs, f"run-{run_id}")
                self.restore()
        with suppress(RltuiError):  # the knobs are worth seeing in any order
            self._state.add_edited(edited_keys(await self._experiment.journal()))

    # pins

    @property
    def pins(self) -> tuple[str, ...]:
        """Keys of the knobs that a person keeps first."""
        pins = self._layout_state.values.get("knob_pins")
        return tuple(map(str, pins)) if isinstance(pins, list) else ()

    def save_pins(self, pins: Sequence[str]) -> None:
        self._layout_state.note("knob_pins", list(pins))

    # the place

    def note(self) -> None:
        """Remember where the person is; written within a second, or when this screen goes."""
        if self._is_restored and self._run_state is not None and self._screen.is_mounted:
            for body in self._panels.bodies:
                for key, value in self._place_in(body).items():
                    self._run_state.note(key, value)

    async def save(self) -> None:
        self.note()
        await self.write()

    async def write(self) -> None:
        await self._layout_state.write()
        if self._run_state is not None:
            await self._run_state.write()

    def _place_in(self, body: Body) -> dict[str, Any]:
        rows = next((panel.rows for panel in body.knob_panels), None)
        screen = self._screen_on_top
        return {
            "focused": body.name_of(self._panels.current_pane),
            "selected": self._panels.selected,
            "zoomed": body.name_of(body.zoomed),
            "knob": rows.key if rows is not None and rows.is_placed else None,
            "screen": screen,
            "aim": self._screen.app.get_screen(screen, BaseScreen).place_aim if screen else "",
            "logs": {pane.reader_id: state for pane in body.readers if (state := pane.view_state)},
        }

    @property
    def _screen_on_top(self) -> str:
        """Name of the screen of this run that lies on the overview; empty: none."""
        above = self._screen.app.screen_stack[1:2]
        installed = self._screen.app.is_screen_installed
        names = (name for name in SCREENS if name not in _OF_ALL_RUNS and installed(name))
        return next((name for name in names if [self._screen.app.get_screen(name)] == above), "")

    def restore(self) -> None:
        """Runs once, when panels and saved state are known; panels that are gone are left out."""
        saved, status = self._run_state, self._state.status
        if self._is_restored or saved is None or status is None or not self._panels.bodies:
            return
        self._is_restored = True
        values, body = saved.values, self._panels.body
        if isinstance(logs := values.get("logs"), Mapping):
            for pane in body.readers:
                if isinstance(state := logs.get(pane.reader_id), Mapping):
                    pane.restore(state)
        if isinstance(knob := values.get("knob"), str):
            for knob_panel in body.knob_panels:
                knob_panel.rows.begin_at(knob)
        is_untouched = body.zoomed is None and self._panels.is_untouched
        if is_untouched and not status.failed:  # what has failed is selected
            for key in ("selected", "focused"):
                panel = body.pane_named(values.get(key))
                if panel is not None and not (isinstance(panel, ReaderPane) and panel.is_idle):
                    self._panels.go_to(panel)
            if (panel := body.pane_named(values.get("zoomed"))) is not None:
                body.zoom(panel)
        screen = values.get("screen")
        is_on_top = self._screen.app.screen is self._screen
        if is_on_top and isinstance(screen, str) and screen in SCREENS.keys() - _OF_ALL_RUNS:
            aim = values.get("aim")
            self._screen.show_screen(screen, aim=aim if isinstance(aim, str) else "")
        self._screen.refresh_bindings()
