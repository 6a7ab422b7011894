"""The fields that a knob's value is edited in: typed, stepped, moved, chosen, or line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events
from textual.actions import SkipAction, parse
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from rltui.base.text import gib
from rltui.core.config.report import KnobInfo
from rltui.core.gpu.report import MemoryVerdict
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.key_bindings import keys, own
from rltui.ui.knob_values import (
    default_text,
    edit_text,
    holds_text,
    item_texts,
    list_text,
    moved,
    options,
    scaled,
    stepped,
)
from rltui.ui.styles import CURSOR, FAINT, STYLES
from rltui.ui.text import clean, clean_line
from rltui.views.gpu.account import verdict_sign

How = Literal["write", "restart", "collect"]
"""write: into the file now. restart: and restart what reads it. collect: keep it, to be written later."""


@dataclass
class ValueEdited(Message):
    text: str


@dataclass
class ValueSubmitted(Message):
    """The text that was there when the key was pressed shall be taken."""

    text: str
    how: How


def _run_at_once(field: Widget, event: events.Key) -> None:
    """Do what a key of the field means, be it a letter: Textual runs a binding only after the event went up
    the tree, and a letter is typed before that.
    """
    active = field.screen.active_bindings.get(event.key)
    if active is None or active.node is not field:
        return
    _, name, parameters = parse(active.binding.action)
    try:
        getattr(field, f"action_{name}")(*parameters)
    except SkipAction:  # there is nothing to copy, for example: the key may mean something further up
        return
    event.stop()
    event.prevent_default()


FIELD_KEYS = (
    own("editor.write", "enter", "answer('write')", "write", "Write the file; restart nothing", Scope.EDITOR),
    own("editor.write-restart", "ctrl+r", "answer('restart')", "write + restart",
        "Write the file, then restart the readers of the knob", Scope.EDITOR),
    own("editor.collect", "ctrl+n", "answer('collect')", "collect",
        "Collect the edit to write several at once", Scope.EDITOR),
    own("editor.unset", "ctrl+x", "unset", "default",
        "Remove the key from the file (default)", Scope.EDITOR),
)  # fmt: skip
STEP_KEYS = (
    own("editor.more", "up", "step(1)", "more", "Increase by a step; the previous choice", Scope.EDITOR),
    own("editor.less", "down", "step(-1)", "less", "Decrease by a step; the next choice", Scope.EDITOR),
)  # fmt: skip


class TypedValue(Input):
    BINDINGS = keys(KeyContext.FIELD, *FIELD_KEYS)
    keys = ""
    """Hints for the line below."""

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__(edit_text(knob), placeholder=f"not set: {default_text(knob)}")
        self.cursor_blink = False
        self.knob = knob

    def watch_value(self, value: str) -> None:
        self.post_message(ValueEdited(value))

    def on_key(self, event: events.Key) -> None:
        _run_at_once(self, event)

    def action_answer(self, mode: How) -> None:
        self.post_message(ValueSubmitted(self.value, mode))

    def action_unset(self) -> None:
        self._replace("")

    def _replace(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)


class _NumberValue(TypedValue):
    """Numbers: arrows step, `*` and `/` double and halve."""

    BINDINGS = keys(
        KeyContext.NUMBER, *STEP_KEYS,
        own("editor.double", "asterisk", "scale(2)", "×2", "Double the number", Scope.EDITOR),
        own("editor.halve", "slash", "scale(0.5)", "÷2", "Halve the number", Scope.EDITOR),
    )  # fmt: skip
    keys = "↑↓ step · * / ×2 ÷2"

    def action_step(self, steps: int) -> None:
        self._replace(stepped(self.knob, self.value, steps))

    def action_scale(self, factor: float) -> None:
        self._replace(scaled(self.knob, self.value, factor))


class FractionValue(_NumberValue):
    """A share of a GPU's memory: left and right by 0.01, up and down by 0.05."""

    BINDINGS = keys(
        KeyContext.FRACTION,
        own("editor.finer-less", "left", "move(-0.01)", "-0.01", "Decrease by 0.01", Scope.EDITOR),
        own("editor.finer-more", "right", "move(0.01)", "+0.01", "Increase by 0.01", Scope.EDITOR),
    )  # fmt: skip
    keys = "←→ 0.01 · ↑↓ 0.05 · * / ×2 ÷2"

    def action_step(self, steps: int) -> None:
        self.action_move(steps * 0.05)

    def action_move(self, distance: float) -> None:
        self._replace(moved(self.knob, self.value, distance))


class ChosenValue(Widget, can_focus=True):
    """A bool or an enum: a choice per line, and a last one to take the key out of the file."""

    BINDINGS: ClassVar = [
        *keys(KeyContext.FIELD, *FIELD_KEYS),
        *keys(
            KeyContext.CHOICE,
            *STEP_KEYS,
            own("editor.next-choice", "space", "step(-1)", "next", "Choose the next value", Scope.EDITOR),
        ),
    ]
    keys = "↑↓ choose"
    index: reactive[int] = reactive(0, init=False)

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__()
        self._texts = (*options(knob), "")
        self._labels = (*options(knob), f"not set: {default_text(knob)}")
        current = edit_text(knob) if knob.is_set else ""
        self.set_reactive(ChosenValue.index, self._texts.index(current) if current in self._texts else 0)

    @property
    def value(self) -> str:
        return self._texts[self.index]

    def watch_index(self) -> None:
        self.post_message(ValueEdited(self.value))

    def render(self) -> RenderResult:
        return Content("\n").join(
            Content.styled(f"(●) {label}", "bold reverse" if self.has_focus else "bold")
            if position == self.index
            else Content.styled(f"( ) {label}", "" if self._texts[position] else FAINT)
            for position, label in enumerate(self._labels)
        )

    def action_answer(self, mode: How) -> None:
        self.post_message(ValueSubmitted(self.value, mode))

    def action_step(self, steps: int) -> None:
        """Arrow up is the choice before. Only `unset` leads out of the file."""
        count = len(self._texts) - 1
        index = self.index if self.value else (0 if steps > 0 else -1)
        self.index = (index - steps) % count

    def action_unset(self) -> None:
        self.index = len(self._texts) - 1

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self._texts):
            self.index = event.y


class ListValue(Widget, can_focus=True):
    """A list: an item per line, and an empty line at the end for one more.

    The line under the cursor is typed into; lines are removed and moved by keys.
    """

    BINDINGS: ClassVar = [
        *keys(KeyContext.FIELD, *FIELD_KEYS),
        *keys(
            KeyContext.LIST,
            *STEP_KEYS,
            own("editor.remove-item", "ctrl+k", "remove_item", "remove", "Remove the item", Scope.EDITOR),
            own("editor.item-up", "shift+up", "carry_item(-1)", "move up", "Move the item up", Scope.EDITOR),
            own(
                "editor.item-down",
                "shift+down",
                "carry_item(1)",
                "move down",
                "Move the item down",
                Scope.EDITOR,
            ),
            own("editor.item-left", "left", "move(-1)", "left", "", Scope.EDITOR),
            own("editor.item-right", "right", "move(1)", "right", "", Scope.EDITOR),
            own("editor.item-start", "home", "move_to(0)", "start", "", Scope.EDITOR),
            own("editor.item-end", "end", "move_to(-1)", "end", "", Scope.EDITOR),
            own("editor.item-backspace", "backspace", "delete(-1)", "delete left", "", Scope.EDITOR),
            own("editor.item-delete", "delete", "delete(0)", "delete", "", Scope.EDITOR),
        ),
    ]
    keys = "↑↓ item · ctrl+k removes · shift+↑↓ moves"

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__()
        self._plain = holds_text(knob)
        self._default = default_text(knob)
        self._items = item_texts(knob)
        self._is_set = knob.is_set
        self._item_index = 0
        """Line of the cursor; the last one is no item yet."""
        self._column = len(self._line)

    @property
    def value(self) -> str:
        """The list in TOML; empty: out of the file."""
        items = [item for item in self._items if item or self._plain]
        return list_text(items, plain=self._plain) if self._is_set else ""

    @property
    def _line(self) -> str:
        return self._items[self._item_index] if self._item_index < len(self._items) else ""

    def render(self) -> RenderResult:
        lines = [self._render_line_of(index, item) for index, item in enumerate([*self._items, ""])]
        if not self._is_set:
            lines.append(Content.styled(f"out of the file: {self._default}", FAINT))
        return Content("\n").join(lines)

    def _render_line_of(self, index: int, item: str) -> Content:
        is_new = index == len(self._items)
        sign = (CURSOR if index == self._item_index else "  ") + ("+ " if is_new else f"{index + 1} ")
        if index != self._item_index or not self.has_focus:
            return Content.assemble((sign, FAINT), clean_line(item))
        before, under, after = (
            item[: self._column],
            item[self._column : self._column + 1],
            item[self._column + 1 :],
        )
        return Content.assemble((sign, "bold"), clean(before), (clean(under) or " ", "reverse"), clean(after))

    def on_key(self, event: events.Key) -> None:
        _run_at_once(self, event)
        if event.is_printable and event.character:
            event.stop()
            event.prevent_default()
            self._insert(event.character)

    def on_paste(self, event: events.Paste) -> None:
        """The first line goes into the item under the cursor, as in every field."""
        event.stop()
        self._insert("".join(event.text.splitlines()[:1]))

    def _insert(self, text: str) -> None:
        line = self._line[: self._column] + text + self._line[self._column :]
        self._column += len(text)
        self._change(line)

    def _change(self, line: str) -> None:
        if self._item_index < len(self._items):
            self._items[self._item_index] = line
        elif line:
            self._items.append(line)
        else:
            return
        self._report_edit()

    def _report_edit(self, *, is_set: bool = True) -> None:
        self._is_set = is_set
        self.post_message(ValueEdited(self.value))
        self.refresh(layout=True)

    def action_answer(self, mode: How) -> None:
        self.post_message(ValueSubmitted(self.value, mode))

    def action_unset(self) -> None:
        """Out of the file; any edit puts it in again."""
        self._report_edit(is_set=False)

    def action_step(self, steps: int) -> None:
        """Arrow up is the item before."""
        self._item_index = max(0, min(len(self._items), self._item_index - steps))
        self.action_move_to(-1)

    def action_move(self, columns: int) -> None:
        self._column = max(0, min(len(self._line), self._column + columns))
        self.refresh()

    def action_move_to(self, column: int) -> None:
        """0: the start of the item; -1: its end."""
        self._column = len(self._line) if column else 0
        self.refresh()

    def action_delete(self, column: int) -> None:
        """The character before the cursor (-1) or under it (0)."""
        if (position := self._column + column) >= 0:
            self._column = position
            self._change(self._line[:position] + self._line[position + 1 :])

    def action_remove_item(self) -> None:
        if self._item_index < len(self._items):
            del self._items[self._item_index]
            self._column = len(self._line)
            self._report_edit()

    def action_carry_item(self, lines: int) -> None:
        target = self._item_index + lines
        if self._item_index < len(self._items) and 0 <= target < len(self._items):
            self._items.insert(target, self._items.pop(self._item_index))
            self._item_index = target
            self._report_edit()


Field = TypedValue | ChosenValue | ListValue


def value_editor(knob: KnobInfo) -> Field:
    if options(knob):
        return ChosenValue(knob)
    if knob.kind == "list":
        return ListValue(knob)
    if knob.kind not in ("int", "float"):
        return TypedValue(knob)
    return FractionValue(knob) if knob.control == "fraction" else _NumberValue(knob)


def bar_line(fraction: float | None, safe: float | None, width: int, style: str = "$primary") -> Content:
    """`width` cells from 0 to 1: what the engine takes, and where its safe limit is."""
    cells = max(0, width - 2)
    full_cells = 0 if fraction is None else round(min(1.0, max(0.0, fraction)) * cells)
    safe_cell = None if safe is None else min(cells - 1, round(safe * cells))
    bar = Content.assemble(("█" * full_cells, style), ("░" * (cells - full_cells), FAINT))
    if safe_cell is not None and 0 <= safe_cell < cells:
        bar = (
            bar[:safe_cell]
            + Content.styled("┊", "bold reverse" if safe_cell < full_cells else "bold")
            + bar[safe_cell + 1 :]
        )
    return Content("▕") + bar + Content("▏")


def _verdict_line(verdict: MemoryVerdict) -> Content:
    sign = verdict_sign(verdict.verdict)
    mark, style = sign.text, STYLES[sign.role or "faint"]
    fragments = []
    if verdict.budget_bytes is not None:
        total = "" if verdict.total_bytes is None else f" of {gib(verdict.total_bytes)}"
        fragments.append(f"budget {gib(verdict.budget_bytes)}{total} GiB on GPU {verdict.device}")
    if verdict.left_bytes is not None:
        fragments.append(f"leaves the trainer {gib(verdict.left_bytes)} GiB")
    if verdict.peak_bytes is not None:
        fragments.append(f"trainer peak {gib(verdict.peak_bytes)}")
    if verdict.safe_utilization is not None:
        fragments.append(f"┊ safe up to {verdict.safe_utilization:g}")
    return Content.assemble((f"{mark} ", style), " · ".join(fragments) or verdict.text)


class FractionBar(Widget):
    """Below the field: the bar as typed, the figures as soon as they are planned."""

    fraction: reactive[float | None] = reactive(None)
    verdict: reactive[MemoryVerdict | None] = reactive(None, layout=True)

    def render(self) -> RenderResult:
        verdict = self.verdict
        width = self.size.width
        safe = None if verdict is None else verdict.safe_utilization
        is_bad = verdict is not None and verdict.is_bad
        line = bar_line(self.fraction, safe, width, STYLES["bad"] if is_bad else "$primary")
        return line if verdict is None else line + Content("\n") + _verdict_line(verdict)
