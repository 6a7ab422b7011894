"""The help: which keys work where the person is, on `?` again those of all screens, and what symbols mean."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Input, Static

from rltui.base import fuzzy
from rltui.core.experiment.states import RUN_STATES, SHOWN_COMPONENT_STATES, AnyBadge
from rltui.ui import verbs
from rltui.ui.actions import ACTIONS, Action, KeyContext, Scope, Use, uses, with_keys
from rltui.ui.dialogs.base import TypingScreen, keys_line
from rltui.ui.key_bindings import bind, keys, own
from rltui.ui.styles import CURSOR_SIGN, FAINT, STYLES

_KEY_WIDTH = 14
_NOT_NOW = "not while read-only"
_EVERYWHERE = (Scope.GLOBAL, Scope.SCREENS)
_RULE = "Irreversible actions show a plan or ask first. Detaching stops nothing."
_WORDS: dict[KeyContext, str] = {
    KeyContext.LOG: "A log. It follows new lines until you scroll up; {cursor_last} follows again.",
    KeyContext.KNOB_TABLE: "Knobs and their running values. {open} edits the one under the cursor.",
    KeyContext.OVERVIEW: "All panes. Component keys act on the one marked ▸; {pane_next} goes to the next.",
    KeyContext.CONFIG: "Every key of the config: {search} finds one, {open} edits it, {undo} undoes it.",
    KeyContext.LOGS: "Logs in full width: {all} merges them by time, {pane_next} shows the next one.",
    KeyContext.GPUS: "Devices and their processes: {process_free} ends a leftover process.",
    KeyContext.METRICS: "Charts of the whole run: {search} finds any series, {open} zooms one chart.",
    KeyContext.ROLLOUTS: "Steps and samples: {open} reads one, {compare} compares two.",
    KeyContext.EVENTS: "Events, oldest first: {open} opens the log or the charts at that moment.",
    KeyContext.CHECKPOINTS: "Checkpoints: {open} restarts from one, plan first; {fork} forks a run from it.",
    KeyContext.EVALS: "Evaluations: {component_start} starts one, {open} reads its samples.",
    KeyContext.RUNS: "All runs: {search} filters, {mark} and {compare} compare, {open} opens one.",
    KeyContext.QUEUE: "Runs that start automatically: {queue_pause} pauses the queue, {open} opens a run.",
    KeyContext.BENCH: "Changes, tried one at a time: {earlier} {later} show others, {open} opens a run.",
    KeyContext.COMPARE: "Runs side by side: keys that differ, then metrics; {open} draws the curves.",
}
"""A sentence about a screen or pane, with the one or two keys to begin with."""


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A key and what it does, or a symbol and what it means."""

    heading: str
    keys: str
    text: str
    style: str = "bold $accent"
    faint: bool = False
    """The key does nothing now."""
    label: str = ""
    """The footer's label, by which it is found too."""


@dataclass(frozen=True, slots=True)
class HelpContext:
    """The screen and pane of the person who asks for help."""

    screen: KeyContext
    pane: KeyContext | None
    """The focused pane, where it has keys of its own."""
    can: Callable[[Use], bool]
    """It would do something now."""
    readonly: bool


# --- rows ---------------------------------------------------------------------------------------------------


def here_rows(situation: HelpContext) -> list[HelpRow]:
    """Keys of the focused pane come first, then those of the screen, then those that work everywhere."""
    rows: list[HelpRow] = []
    used_keys: set[str] = set()
    scopes = {action.id: action.scope for action in ACTIONS}
    pane, screen = situation.pane, situation.screen
    if pane is not None:
        pane_uses = [use for use in uses(pane) if use.keys and use.help]
        pane_uses.sort(key=lambda use: scopes[use.id] is Scope.MOVING)
        used_keys = {use.keys for use in pane_uses}
        rows += [_row_here(f"This pane: {pane.value}", use, situation) for use in pane_uses]
    common = [use for use in uses(screen) if use.help and use.keys not in used_keys]
    for scope in sorted(
        (other_scope for other_scope in Scope if other_scope not in _EVERYWHERE), key=Scope.MOVING.__eq__
    ):
        heading = f"This screen, {screen.value}: {scope.value[0].lower()}{scope.value[1:]}"
        rows += [_row_here(heading, use, situation) for use in common if scopes[use.id] is scope]
    for scope in _EVERYWHERE:
        rows += [_row_here(scope.value, use, situation) for use in common if scopes[use.id] is scope]
    return rows


def _row_here(heading: str, use: Use, situation: HelpContext) -> HelpRow:
    if situation.readonly and use.changes:
        return HelpRow(heading, use.shown_keys, f"{use.help} ({_NOT_NOW})", faint=True, label=use.label)
    return HelpRow(heading, use.shown_keys, use.help, faint=not situation.can(use), label=use.label)


def all_rows(*, readonly: bool) -> list[HelpRow]:
    documented = [action for action in ACTIONS if action.help]
    return [
        row
        for scope in Scope
        for action in documented
        if action.scope is scope
        for row in _rows_of(action, readonly=readonly)
    ]


def _rows_of(action: Action, *, readonly: bool) -> Iterator[HelpRow]:
    """The sentence of the action, and below it those of screens that say more."""
    lacks = readonly and all(use.changes for use in action.uses)
    yield _help_row(action, action.shown_keys, action.help, lacks=lacks)
    for use in (use for use in action.meanings if use.help != action.help):
        where = ", ".join(context.value for context in use.places)
        lacks = readonly and use.changes
        yield _help_row(action, "", f"· {where}: {use.help}", lacks=lacks, label=use.label)


def _help_row(action: Action, keys: str, text: str, *, lacks: bool, label: str = "") -> HelpRow:
    text = f"{text} ({_NOT_NOW})" if lacks else text
    return HelpRow(action.scope.value, keys, text, faint=lacks, label=label or action.label)


def symbol_rows() -> list[HelpRow]:
    tables: Mapping[str, Iterable[AnyBadge]] = {
        "States of a run": RUN_STATES.values(),
        "States of a component": SHOWN_COMPONENT_STATES,
    }
    rows = [
        HelpRow(heading, f"{badge.sign} {badge.word}", badge.meaning, STYLES[badge.role])
        for heading, badges in tables.items()
        for badge in badges
    ]
    rows.append(HelpRow("Marks", CURSOR_SIGN, "selected: component keys act on it"))
    return rows


# --- the page -----------------------------------------------------------------------------------------------


def page(rows: Sequence[HelpRow], tokens: Sequence[str], width: int) -> Content:
    """The rows that answer the folded `tokens`, below their headings; what answers is set off."""
    lines: list[Content] = []
    heading = ""
    for row in rows:
        text = fuzzy.folded(f"{row.keys} {row.text} {row.label}")
        matches = fuzzy.rank(tokens, text)
        if matches is None or matches[0] > fuzzy.SUBSTRING:
            continue
        if row.heading != heading:
            heading = row.heading
            lines += [*([Content("")] if lines else []), Content.styled(heading, "bold underline")]
        lines += _lines(row, fuzzy.matched_positions(tokens, text), width)
    return Content("\n").join(lines) if lines else Content.styled("No matching key.", FAINT)


def _lines(row: HelpRow, positions: Sequence[int], width: int) -> Iterator[Content]:
    """The keys at the left, the text in a column of its own."""
    keys = Content.styled(row.keys.rjust(_KEY_WIDTH), FAINT if row.faint else row.style)
    room = max(8, width - _KEY_WIDTH - 2)
    begin = len(row.keys) + 1
    for line in textwrap.wrap(row.text, room) or [""]:
        offset = begin + row.text.find(line, max(0, begin - len(row.keys) - 1))
        text = Content.styled(line, FAINT if row.faint else "")
        for position in positions:
            if offset <= position < offset + len(line):
                text = text.stylize("bold $text-accent", position - offset, position - offset + 1)
        yield keys + Content("  ") + text
        keys, begin = Content(" " * _KEY_WIDTH), offset + len(line)


class _HelpLine(Input):
    """Takes letters, but for the key that shows all: a line hides keys of its screen that can be typed."""

    BINDINGS = keys(KeyContext.HELP_LINE, bind(verbs.HELP_ALL, "screen.show_all"), priority=True)


class HelpScreen(TypingScreen[None]):
    """It lists the keys that work here; typing searches it, `?` lists all keys."""

    CSS_PATH = ["dialogs.tcss"]  # noqa: RUF012 - as Textual declares it
    BINDINGS = keys(
        KeyContext.HELP,
        bind(verbs.HELP_ALL, "screen.show_all"),
        own("help.close", "escape", "close", "close", "", Scope.DIALOG),
        own("help.down", "down", "scroll_page(2)", "down", "", Scope.DIALOG),
        own("help.up", "up", "scroll_page(-2)", "up", "", Scope.DIALOG),
        own("help.page-down", "pagedown", "scroll_page(16)", "page down", "", Scope.DIALOG),
        own("help.page-up", "pageup", "scroll_page(-16)", "page up", "", Scope.DIALOG),
    )  # fmt: skip

    def __init__(self, situation: HelpContext) -> None:
        super().__init__(_HelpLine(placeholder="search by key or action", select_on_focus=False))
        self.add_class("dialog")
        self._situation = situation
        self._shows_all = False
        self._page = Static(markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box help"):
            yield self.line
            with VerticalScroll(classes="page", can_focus=False):
                yield self._page

    def on_resize(self, event: Resize) -> None:
        del event
        self.call_after_refresh(self._show)

    @on(Input.Changed)
    def _show(self) -> None:
        box, scroll = self.query_one(".box"), self.query_one(".page")
        situation = self._situation
        rows = all_rows(readonly=situation.readonly) if self._shows_all else here_rows(situation)
        tokens = fuzzy.query_words(self.entered_text)
        content = page([*rows, *symbol_rows()], tokens, scroll.scrollable_content_region.width - 1)
        description = "" if self._shows_all else _WORDS.get(situation.pane or situation.screen, "")
        top = Content.styled(f"{with_keys(description)}\n{_RULE}\n".lstrip(), FAINT)
        self._page.update(content if tokens else Content("\n").join([top, content]))
        box.border_title = "Keys of all screens" if self._shows_all else "Keys that work here"
        other = "this screen" if self._shows_all else "all screens"
        hints = (("help.all", other), ("help.down help.up", "scroll"), ("help.close", ""))
        box.border_subtitle = Content(keys_line(hints))

    def action_show_all(self) -> None:
        self._shows_all = not self._shows_all
        self.query_one(".page").scroll_home(animate=False)
        self._show()

    def action_scroll_page(self, lines: int) -> None:
        self.query_one(".page").scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        """The first press clears a typed text."""
        if self.line.value:
            self.line.value = ""
        else:
            self.dismiss(None)
