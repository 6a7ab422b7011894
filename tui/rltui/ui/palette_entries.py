"""What the palette offers: where it comes from, how it is ranked, and what enter does with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from textual.app import SuspendNotSupported

from rltui.core import fuzzy
from rltui.core.runs import RunRow
from rltui.core.states import COMPONENT_STATES, RUN_STATES
from rltui.core.text import shortened
from rltui.errors import ConfigError, RltuiError
from rltui.ui import themes
from rltui.ui.actions import Use, offered_in, offered_on
from rltui.ui.base_screen import SEARCH_AIM, BaseScreen
from rltui.ui.config_actions import ConfigActions
from rltui.ui.screens.dialogs import EditAgain, show_error
from rltui.ui.text import clean_line, value_text
from rltui.ui.themed_app import ThemedApp
from rltui.ui.widgets.body import PaneActions
from rltui.views.checkpoint import checkpoint_words


class Kind(StrEnum):
    """What an entry is; the value stands before it. Alike in all else, an earlier one comes first."""

    COMPONENT = "component"
    SCREEN = "screen"
    KNOB = "knob"
    ACTION = "action"
    CHECKPOINT = "checkpoint"
    THEME = "theme"
    SETTING = "setting"
    RUN = "run"
    LOG = "log"


PREFIXES = {
    ">": Kind.ACTION,
    "@": Kind.COMPONENT,
    "=": Kind.KNOB,
    "~": Kind.RUN,
    "#": Kind.CHECKPOINT,
    "*": Kind.THEME,
    ",": Kind.SETTING,
    "/": Kind.LOG,
}
"""Typed first, only that kind is offered."""
_ORDER = {kind: at for at, kind in enumerate(Kind)}
_WORSE = 8
"""Added to the rank of what answers only by its description."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    kind: Kind
    target: str
    """What enter acts on: an action's id, a knob's key, a run's id …; unique among its kind."""
    label: str
    """What it is found by first."""
    detail: str = ""
    keys: str = ""
    """That do the same."""
    folded: str = field(init=False)
    """The label as it is searched."""
    folded_detail: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", fuzzy.folded(self.label))
        object.__setattr__(self, "folded_detail", fuzzy.folded(self.detail))

    @property
    def name(self) -> str:
        """By which it is remembered."""
        return f"{self.kind}:{self.target}"


def narrowed(typed: str) -> tuple[Kind | None, str]:
    """The only kind that is wanted, and what is left to look for."""
    kind = PREFIXES.get(typed[:1])
    return (None, typed) if kind is None else (kind, typed[1:])


_SHORTEST_KIND = 3
"""Letters of a word that may mean a kind."""


def ranked(
    entries: Sequence[PaletteEntry], typed: str, recent: Sequence[str] = ()
) -> tuple[PaletteEntry, ...]:
    """Those that answer what was typed, the best first; all of them where nothing was.

    A label that was typed in full comes before all; of equals the one used last comes first, then by their
    kinds, then in the order they came in.
    """
    kind, wanted = narrowed(typed)
    words, whole = fuzzy.words_of(wanted), fuzzy.folded(wanted).strip()
    used = {name: at for at, name in enumerate(recent)}
    found = []
    for at, entry in enumerate(entries):
        if (kind is None or entry.kind is kind) and (rank := _rank(entry, words)) is not None:
            how, place = rank
            place = 0 if how == fuzzy.WORD else place
            how_used = used.get(entry.name, len(used))
            found.append((entry.folded != whole, how, how_used, _ORDER[entry.kind], place, at, entry))
    found.sort(key=lambda each: each[:-1])
    return tuple(each[-1] for each in found)


def _rank(entry: PaletteEntry, words: Sequence[str]) -> fuzzy.Rank | None:
    """A word may also name the kind: `theme nord`."""
    others = [word for word in words if len(word) < _SHORTEST_KIND or not entry.kind.startswith(word)]
    if len(others) < len(words) and (rank := fuzzy.rank(others, entry.folded)) is not None:
        return max(rank, (fuzzy.PREFIX, 0))
    rank = fuzzy.rank(words, entry.folded)
    if rank is not None or not entry.detail:
        return rank
    if all(word in entry.folded_detail or word in entry.folded for word in words):
        rank = fuzzy.rank(words, f"{entry.folded} {entry.folded_detail}")
    return None if rank is None else (rank[0] + _WORSE, rank[1])


# --- where they come from ---------------------------------------------------------------------------------


def at_once(screen: BaseScreen) -> list[PaletteEntry]:
    """What is known without asking anybody."""
    entries = [*_actions(screen), *_components(screen), *_knobs(screen)]
    chosen = screen.app.theme
    names = (chosen, *(name for name in screen.app.available_themes if name != chosen))
    entries += [PaletteEntry(Kind.THEME, name, name, themes.MEANINGS.get(name, "")) for name in names]
    return entries


def offered_actions(screen: BaseScreen) -> tuple[Use, ...]:
    """Those that make sense there now, what the pane with the focus has for itself last."""
    common = [use for use in offered_on(screen.place) if screen.check_action(*use.call) is True]
    told, pane = {use.help for use in common}, screen.focused
    own = (use for use in _in_pane(screen) if pane is not None and pane.check_action(*use.call) is True)
    return (*common, *(use for use in own if use.help not in told))


def _in_pane(screen: BaseScreen) -> tuple[Use, ...]:
    return () if screen.pane_place is None else offered_in(screen.pane_place)


def _actions(screen: BaseScreen) -> Iterable[PaletteEntry]:
    for use in offered_actions(screen):
        kind = Kind.SCREEN if use.id.startswith("screen.") else Kind.ACTION
        keys = use.shown_keys if use.keys else ""
        yield PaletteEntry(kind, use.id, use.label, use.help, keys)


def _components(screen: BaseScreen) -> Iterable[PaletteEntry]:
    shared = screen.home.shared
    if shared is None or shared.status is None:
        return
    for component in shared.status.components:
        badge = COMPONENT_STATES[component.state]
        yield PaletteEntry(
            Kind.COMPONENT, component.id, clean_line(component.id), f"{badge.sign} {badge.word}"
        )
    for log in shared.status.logs:
        yield PaletteEntry(Kind.COMPONENT, log.id, clean_line(log.title or log.id), "log file")


def _knobs(screen: BaseScreen) -> Iterable[PaletteEntry]:
    if screen.home.shared is None:
        return
    for knob in screen.home.shared.knobs:
        value = shortened(value_text(knob.value), 24)
        meaning = f"{value} · {clean_line(knob.help)}" if knob.help else value
        yield PaletteEntry(Kind.KNOB, knob.key, knob.key, meaning)


def sources(screen: BaseScreen) -> tuple[Callable[[], Coroutine[Any, Any, list[PaletteEntry]]], ...]:
    """What has to be asked, each in its own time."""
    return (lambda: _checkpoints(screen), lambda: _settings(screen), lambda: asyncio.to_thread(_runs, screen))


async def _checkpoints(screen: BaseScreen) -> list[PaletteEntry]:
    if screen.home.shared is None:
        return []
    report = await screen.home.shared.experiment.checkpoints()
    now = screen.home.clock()
    return [
        PaletteEntry(
            Kind.CHECKPOINT,
            str(each.step),
            f"checkpoint {each.step}",
            clean_line(checkpoint_words(each, now)),
        )
        for each in reversed(report.checkpoints)
    ]


async def _settings(screen: BaseScreen) -> list[PaletteEntry]:
    runs = screen.home.runs
    if runs.readonly:
        return []
    known = (await asyncio.to_thread(runs.settings)).known
    return [
        PaletteEntry(Kind.SETTING, each.key, each.key, clean_line(f"{each.value} · {each.meaning}"))
        for each in known
    ]


def _runs(screen: BaseScreen) -> list[PaletteEntry]:
    """The living ones first, then the newest. For a thread."""
    rows = [row for row in screen.home.runs.rows() if row.trashed_at is None]
    rows.sort(key=lambda row: (not row.is_running, row.archived_at is not None, -row.created_at))
    return [PaletteEntry(Kind.RUN, row.id, clean_line(row.name), _run_words(row)) for row in rows]


def _run_words(row: RunRow) -> str:
    badge = RUN_STATES[row.state]
    step = "" if row.step is None else f"step {row.step}" + (f"/{row.max_steps}" if row.max_steps else "")
    reward = "" if row.reward is None else f"reward {row.reward:.2f}"
    parts = (f"{badge.sign} {badge.word}", step, reward, *row.tags, "archived" if row.archived_at else "")
    return clean_line(" · ".join(filter(None, parts)))


# --- what enter does --------------------------------------------------------------------------------------


def carry_out(entry: PaletteEntry, screen: BaseScreen) -> None:
    """What was chosen, on the screen that the palette lay on; it is remembered as used last."""
    screen.home.remember_used(entry.name)
    overview = next(each for each in screen.app.screen_stack if isinstance(each, BaseScreen))
    match entry.kind:
        case Kind.ACTION | Kind.SCREEN:
            _run(entry, screen)
        case Kind.COMPONENT:
            if screen is not overview:
                screen.action_show_overview()
            if isinstance(overview, PaneActions):
                overview.action_focus_component(entry.target)
        case Kind.KNOB:
            _edit_knob(entry.target, overview, screen)
        case Kind.RUN:
            screen.post_message(BaseScreen.OpenRunRequested(entry.target))
        case Kind.CHECKPOINT:
            screen.show_screen("checkpoints", aim=entry.target)
        case Kind.THEME:
            if isinstance(screen.app, ThemedApp):
                screen.app.keep_theme(entry.target)
        case Kind.SETTING:
            screen.work(_edit_settings(screen, entry.target), changes=False)
        case Kind.LOG:
            screen.show_screen("logs", aim=f"{SEARCH_AIM}{entry.target}")


def _run(entry: PaletteEntry, screen: BaseScreen) -> None:
    """An action, of the screen or of the pane with the focus."""
    for owner, offered in ((screen, offered_on(screen.place)), (screen.focused, _in_pane(screen))):
        found = next((use for use in offered if (use.id, use.label) == (entry.target, entry.label)), None)
        if owner is not None and found is not None:
            owner.call_later(owner.run_action, found.name)
            return


def _edit_knob(key: str, overview: BaseScreen, screen: BaseScreen) -> None:
    """Its editor; where nothing may be changed, its row on the config screen."""
    shared = screen.home.shared
    knob = next((each for each in shared.knobs if each.key == key), None) if shared is not None else None
    if knob is None:
        screen.notify(f"{key} is not in the config any more", markup=False)
    elif isinstance(overview, ConfigActions) and not overview.readonly_text:
        overview.edit(knob)
    else:
        screen.show_screen("config", aim=key)


async def _edit_settings(screen: BaseScreen, key: str) -> None:
    """The settings in the person's own editor, at the line of `key`; what comes back is checked first."""
    runs, app = screen.home.runs, screen.app
    try:
        seen = await asyncio.to_thread(runs.settings)
    except RltuiError as error:
        await show_error(app, error)
        return
    text, line = seen.text, next((each.line for each in seen.known if each.key == key), 1)
    told: str | None = None
    while told is None:
        try:
            with app.suspend():
                text = runs.edit_settings(text, line)
            if text == seen.text and not seen.is_new:
                told = "Unchanged: nothing was written"
                continue
            await asyncio.to_thread(runs.replace_settings, seen, text)
            told = f"Written: {clean_line(seen.path)}. The screen follows when it is opened again"
        except SuspendNotSupported:
            told = f"This terminal cannot be lent. Edit it in another one:\n{clean_line(seen.path)}"
        except ConfigError as error:
            if not await app.push_screen_wait(EditAgain(error)):
                told = "Not written"
        except RltuiError as error:
            await show_error(app, error)
            return
    app.notify(told, markup=False)
