"""Sources of the palette's entries: a function for each kind, with the effect of enter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from textual.screen import Screen
from textual.widget import Widget

from rltui.base.text import truncate
from rltui.ui import themes
from rltui.ui.actions import Use, key_of, offered_in, offered_on
from rltui.ui.base_screen import SEARCH_AIM, BaseScreen
from rltui.ui.commands.settings import edit_settings
from rltui.ui.palette.entries import EntryKind, PaletteEntry
from rltui.ui.requests import OpenRunRequested
from rltui.ui.screens.overview import Overview
from rltui.ui.text import clean_line, value_text
from rltui.ui.themed_app import ThemedApp
from rltui.views.checkpoint import checkpoint_words
from rltui.views.component import badge_of
from rltui.views.run import run_summary

Provider = Callable[[BaseScreen], Iterable[PaletteEntry]]
SlowProvider = Callable[[BaseScreen], Coroutine[Any, Any, list[PaletteEntry]]]


def offered_actions(screen: BaseScreen) -> tuple[tuple[Widget | Screen[Any], Use], ...]:
    """The uses that make sense now, with the screen or pane that has them; the focused pane's come last."""
    common = [use for use in offered_on(screen.place) if screen.check_action(*use.call) is True]
    pane, helps = screen.focused, {use.help for use in common}
    if pane is None or screen.pane_place is None:
        return tuple((screen, use) for use in common)
    pane_uses = [use for use in offered_in(screen.pane_place) if pane.check_action(*use.call) is True]
    return (*((screen, use) for use in common), *((pane, use) for use in pane_uses if use.help not in helps))


def actions(screen: BaseScreen) -> Iterable[PaletteEntry]:
    for owner, use in offered_actions(screen):
        kind = EntryKind.SCREEN if use.id.startswith("screen.") else EntryKind.ACTION
        choose = partial(owner.call_later, owner.run_action, use.name)
        yield PaletteEntry(kind, use.id, use.label, choose, use.help, use.shown_keys if use.keys else "")


def components(screen: BaseScreen) -> Iterable[PaletteEntry]:
    state = screen.app_state.current
    if state is None or state.status is None:
        return

    def focus(component_id: str) -> None:
        overview = _overview(screen)
        if screen is not overview:
            screen.action_show_overview()
        if isinstance(overview, Overview):
            overview.panels.focus_component(component_id)

    for component in state.status.components:
        badge, label = badge_of(component), clean_line(component.id)
        choose = partial(focus, component.id)
        yield PaletteEntry(EntryKind.COMPONENT, component.id, label, choose, f"{badge.sign} {badge.word}")
    for log in state.status.logs:
        label = clean_line(log.title or log.id)
        yield PaletteEntry(EntryKind.COMPONENT, log.id, label, partial(focus, log.id), "log file")


def knobs(screen: BaseScreen) -> Iterable[PaletteEntry]:
    if screen.app_state.current is None:
        return

    def edit(key: str) -> None:
        """The editor opens; where nothing may be changed, the knob's row on the config screen."""
        state, overview = screen.app_state.current, _overview(screen)
        by_key = {} if state is None else {knob.key: knob for knob in state.knobs}
        if key not in by_key:
            screen.notify(f"{key} is no longer in the config", markup=False)
        elif isinstance(overview, Overview) and not overview.readonly_text:
            overview.config.edit(by_key[key])
        else:
            screen.show_screen("config", aim=key)

    for knob in screen.app_state.current.knobs:
        value = truncate(value_text(knob.value), 24)
        detail = f"{value} · {clean_line(knob.help)}" if knob.help else value
        yield PaletteEntry(EntryKind.KNOB, knob.key, knob.key, partial(edit, knob.key), detail)


def theme_entries(screen: BaseScreen) -> Iterable[PaletteEntry]:
    app = screen.app
    if not isinstance(app, ThemedApp):
        return
    for name in (app.theme, *(name for name in app.available_themes if name != app.theme)):
        choose = partial(app.keep_theme, name)
        yield PaletteEntry(EntryKind.THEME, name, name, choose, themes.MEANINGS.get(name, ""))


def step_entry(screen: BaseScreen, step: int) -> PaletteEntry:
    return PaletteEntry(
        EntryKind.STEP,
        str(step),
        f"step {step}",
        partial(screen.show_step, step),
        "jump to it",
        key_of("step"),
    )


def log_search(screen: BaseScreen, text: str) -> PaletteEntry:
    choose = partial(screen.show_screen, "logs", aim=f"{SEARCH_AIM}{text}")
    return PaletteEntry(EntryKind.LOG, text, f"search all logs for {text}", choose, keys=SEARCH_AIM)


async def checkpoints(screen: BaseScreen) -> list[PaletteEntry]:
    if screen.app_state.current is None:
        return []
    report = await screen.app_state.current.experiment.checkpoints()
    now = screen.app_state.clock()
    return [
        PaletteEntry(
            EntryKind.CHECKPOINT,
            str(checkpoint.step),
            f"checkpoint {checkpoint.step}",
            partial(screen.show_screen, "checkpoints", aim=str(checkpoint.step)),
            clean_line(checkpoint_words(checkpoint, now)),
        )
        for checkpoint in reversed(report.checkpoints)
    ]


async def settings(screen: BaseScreen) -> list[PaletteEntry]:
    runs = screen.app_state.runs
    if runs.readonly:
        return []

    def edit(key: str) -> None:
        screen.work(edit_settings(screen.app, runs, key), changes=False)

    return [
        PaletteEntry(
            EntryKind.SETTING,
            setting.key,
            setting.key,
            partial(edit, setting.key),
            clean_line(" · ".join(filter(None, (setting.value, setting.meaning)))),
        )
        for setting in (await asyncio.to_thread(runs.settings)).known
    ]


async def runs(screen: BaseScreen) -> list[PaletteEntry]:
    """The living ones first, then the newest."""

    def choose(run_id: str) -> None:
        screen.post_message(OpenRunRequested(run_id))

    def read() -> list[PaletteEntry]:
        rows = [row for row in screen.app_state.runs.rows() if row.trashed_at is None]
        rows.sort(key=lambda row: (not row.is_alive, row.archived_at is not None, -row.created_at))
        return [
            PaletteEntry(
                EntryKind.RUN,
                row.id,
                clean_line(row.name),
                partial(choose, row.id),
                clean_line(run_summary(row)),
            )
            for row in rows
        ]

    return await asyncio.to_thread(read)


def _overview(screen: BaseScreen) -> BaseScreen:
    """The screen that all others lie on."""
    return next(below for below in screen.app.screen_stack if isinstance(below, BaseScreen))


PROVIDERS: tuple[Provider, ...] = (actions, components, knobs, theme_entries)
"""These have all their entries at once."""
SLOW_PROVIDERS: tuple[SlowProvider, ...] = (checkpoints, settings, runs)
"""Whoever has them must be asked; each takes its own time."""
