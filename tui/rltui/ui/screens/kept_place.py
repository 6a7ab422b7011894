"""Where a person was on the overview of a run, found again when it is opened the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from textual import on

from rltui.core.edit_log import edited_keys
from rltui.errors import RltuiError
from rltui.ui.background import in_background
from rltui.ui.panels.arrangement import Arrangement
from rltui.ui.screens import SCREENS
from rltui.ui.screens.arranging import ArrangedPanes
from rltui.ui.shared import AppState, UiStateStore
from rltui.ui.widgets.body import Body
from rltui.ui.widgets.knob_table import KnobPanel, KnobRows

_INTERVAL_S = 1.0
"""Between two looks at what has changed: a killed terminal loses no more than that."""
_OF_ALL_RUNS = {"runs", "queue", "compare"}


class SavedViewState(ArrangedPanes):
    """Keeps panels and pins with the layout, and with the run: focus, zoom, cursor, searches, the screen."""

    _run_memory: UiStateStore | None = None
    """Once it is read."""
    _is_restored = False

    def open_layout_memory(self, home: AppState) -> None:
        """Before the first frame, which needs the arrangement."""
        self.layout_memory = UiStateStore(home.runs, f"layout-{self.experiment.layout_name}")

    @property
    def arrangement(self) -> Arrangement:
        return Arrangement.from_json(self.layout_memory.values.get("arrangement"), self.default_arrangement)

    def on_mount(self) -> None:
        """The first frame need not wait for what comes now."""
        self.set_interval(_INTERVAL_S, self.keep_place, name="keep place")
        in_background(self, self._read_run, group="memory", exclusive=False)

    async def on_unmount(self) -> None:
        await self._write()

    async def _read_run(self) -> None:
        runs = self.shared.home.runs
        with suppress(RltuiError):  # the screen is as usual then
            run_id = await asyncio.to_thread(lambda: self.experiment.run_id)
            if run_id:
                self._run_memory = await asyncio.to_thread(UiStateStore, runs, f"run-{run_id}")
                self.restore_place()
        with suppress(RltuiError):  # the knobs are worth seeing in any order
            self.shared.add_edited(edited_keys(await self.experiment.journal()))

    # pins

    @property
    def _pins(self) -> tuple[str, ...]:
        pins = self.layout_memory.values.get("knob_pins")
        return tuple(map(str, pins)) if isinstance(pins, list) else ()

    def show_knobs(self) -> None:
        shared = self.shared
        for panel in self.query(KnobPanel):
            panel.show(shared.table, shared.staged, self._pins, shared.edited)

    @on(KnobRows.PinsChanged)
    def _keep_pins(self, event: KnobRows.PinsChanged) -> None:
        self.layout_memory.note("knob_pins", list(event.pins))
        self.show_knobs()

    # the place

    def note_place(self) -> None:
        """Remember where the person is; written within a second, or when this screen goes."""
        if self._is_restored and self._run_memory is not None and self.is_mounted:
            for body in self.query(Body):
                for key, value in self._place_in(body).items():
                    self._run_memory.note(key, value)

    async def keep_place(self) -> None:
        self.note_place()
        await self._write()

    async def _write(self) -> None:
        await self.layout_memory.write()
        if self._run_memory is not None:
            await self._run_memory.write()

    def _place_in(self, body: Body) -> dict[str, Any]:
        rows = next((panel.rows for panel in self.query(KnobPanel)), None)
        return {
            "focused": body.name_of(self.current_pane),
            "selected": self.selected,
            "zoomed": body.name_of(body.zoomed),
            "knob": rows.key if rows is not None else None,
            "screen": self._screen_on_top,
            "logs": {pane.reader_id: look for pane in body.readers if (look := pane.look)},
        }

    @property
    def _screen_on_top(self) -> str:
        """Of those of this run; empty: none."""
        above = self.app.screen_stack[1:2]
        names = (name for name in SCREENS if name not in _OF_ALL_RUNS and self.app.is_screen_installed(name))
        return next((name for name in names if [self.app.get_screen(name)] == above), "")

    def restore_place(self) -> None:
        """Once, when what is there and what was kept are known. What is not there any more is left out."""
        memory = self._run_memory
        if self._is_restored or memory is None or self.shared.status is None or not self.query(Body):
            return
        self._is_restored = True
        values, body = memory.values, self.body
        if isinstance(logs := values.get("logs"), Mapping):
            for pane in body.readers:
                if isinstance(look := logs.get(pane.reader_id), Mapping):
                    pane.look_again(look)
        if isinstance(knob := values.get("knob"), str):
            for panel in self.query(KnobPanel):
                panel.rows.begin_at(knob)
        is_untouched = body.zoomed is None and self.current_pane in (None, *body.panes[:1])
        is_untouched = is_untouched and not self.shared.status.failed  # which is selected in its stead
        if is_untouched:
            for key in ("selected", "focused"):
                if (found := body.pane_named(values.get(key))) is not None:
                    self._go_to(found)
            if (found := body.pane_named(values.get("zoomed"))) is not None:
                body.zoom(found)
        screen = values.get("screen")
        if isinstance(screen, str) and screen in SCREENS.keys() - _OF_ALL_RUNS and self.app.screen is self:
            self.show_kept_screen(screen)
        self.refresh_bindings()

    def show_kept_screen(self, name: str) -> None:
        raise NotImplementedError
