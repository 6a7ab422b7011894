"""The fields that a knob's value is edited in: typed, stepped, moved, chosen, or line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.report import MemoryVerdict
from rltui.core.text import gib
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
from rltui.ui.text import clean, clean_line

How = Literal["write", "restart", "collect"]
"""write: into the file now. restart: and restart what reads it. collect: keep it, to be written later."""

_ANSWERS: dict[str, How] = {"enter": "write", "ctrl+r": "restart", "ctrl+n": "collect"}


@dataclass
class ValueEdited(Message):
    """The field holds another text."""

    text: str


@dataclass
class Answered(Message):
    """The text that was there when the key was pressed shall be taken."""

    text: str
    how: How


def common_message(event: events.Key, text: str) -> Answered | None:
    """What one of the keys that all fields have means; such an event goes no further."""
    if (how := _ANSWERS.get(event.key)) is None:
        return None
    event.stop()
    event.prevent_default()
    return Answered(text, how)


class TypedValue(Input):
    """Numbers and texts. Arrows step numbers, `*` and `/` double and halve them."""

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__(edit_text(knob), placeholder=f"out of the file: {default_text(knob)}")
        self.cursor_blink = False
        self.knob = knob
        self.is_number = knob.kind in ("int", "float")
        self.keys = "↑↓ step · * / ×2 ÷2" if self.is_number else ""

    def watch_value(self, value: str) -> None:
        """Tell the editor."""
        self.post_message(ValueEdited(value))

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether `key` is text for this field, rather than a binding of the editor."""
        is_scaling = self.is_number and key in ("asterisk", "slash")
        return not is_scaling and super().check_consume_key(key, character)

    def on_key(self, event: events.Key) -> None:
        """Do the editor's keys at once, in the order they were pressed.

        Textual 8.2 runs a binding only after the event went up the tree. Of keys that arrive together, as
        over a slow connection, deletions would eat what was typed behind them, and another text be written
        than the one that was there.
        """
        if (message := common_message(event, self.value)) is not None:
            self.post_message(message)
            return
        match event.key:
            case "up" | "down" if self.is_number:
                self.step(1 if event.key == "up" else -1)
            case "asterisk" | "slash" if self.is_number:
                self.scale(2.0 if event.key == "asterisk" else 0.5)
            case "ctrl+x":
                self.unset()
            case "backspace":
                self.action_delete_left()
            case "delete":
                self.action_delete_right()
            case _:
                return
        event.stop()
        event.prevent_default()

    def step(self, steps: int) -> None:
        """Up or down."""
        self._replace(stepped(self.knob, self.value, steps))

    def scale(self, factor: float) -> None:
        """Times `factor`."""
        self._replace(scaled(self.knob, self.value, factor))

    def unset(self) -> None:
        """Nothing: out of the file."""
        self._replace("")

    def _replace(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)


class FractionValue(TypedValue):
    """A share of a GPU's memory: left and right by 0.01, up and down by 0.05."""

    _FINE, _COARSE = 0.01, 0.05

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__(knob)
        self.keys = "←→ 0.01 · ↑↓ 0.05"

    def on_key(self, event: events.Key) -> None:
        """As for every number, but for the arrows."""
        match event.key:
            case "left" | "right":
                self._replace(
                    moved(self.knob, self.value, self._FINE if event.key == "right" else -self._FINE)
                )
            case _:
                super().on_key(event)
                return
        event.stop()
        event.prevent_default()

    def step(self, steps: int) -> None:
        """By 0.05."""
        self._replace(moved(self.knob, self.value, steps * self._COARSE))


class ChosenValue(Widget, can_focus=True):
    """Arrows or space move."""

    index: reactive[int] = reactive(0, init=False)

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__()
        self.keys = "↑↓ choose"
        self._texts = (*options(knob), "")
        self._labels = (*options(knob), f"out of the file: {default_text(knob)}")
        current = edit_text(knob) if knob.is_set else ""
        self.set_reactive(ChosenValue.index, self._texts.index(current) if current in self._texts else 0)

    @property
    def value(self) -> str:
        """The chosen text."""
        return self._texts[self.index]

    def watch_index(self) -> None:
        """Tell the editor."""
        self.post_message(ValueEdited(self.value))

    def render(self) -> RenderResult:
        """One line per choice."""
        return Content("\n").join(
            Content.styled(f"(●) {label}", "bold reverse" if self.has_focus else "bold")
            if position == self.index
            else Content.styled(f"( ) {label}", "" if self._texts[position] else "$foreground 60%")
            for position, label in enumerate(self._labels)
        )

    def on_key(self, event: events.Key) -> None:
        """At once, in the order they were pressed: see `TypedValue`."""
        if (message := common_message(event, self.value)) is not None:
            self.post_message(message)
            return
        match event.key:
            case "up" | "down" | "space":
                self.step(1 if event.key == "up" else -1)
            case "ctrl+x":
                self.unset()
            case _:
                return
        event.stop()
        event.prevent_default()

    def step(self, steps: int) -> None:
        """Arrow up is the choice before. Only `unset` leads out of the file."""
        count = len(self._texts) - 1
        at = self.index if self.value else (0 if steps > 0 else -1)
        self.index = (at - steps) % count

    def scale(self, factor: float) -> None:
        """Choices have no double."""

    def unset(self) -> None:
        """The last choice."""
        self.index = len(self._texts) - 1

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        if event.y < len(self._texts):
            self.index = event.y


class ListValue(Widget, can_focus=True):
    """The line under the cursor is typed into; lines are removed and moved by keys."""

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__()
        self.keys = "↑↓ item · ctrl+k removes · shift+↑↓ moves"
        self._plain = holds_text(knob)
        self._default = default_text(knob)
        self._items = item_texts(knob)
        self._is_set = knob.is_set
        self._at = 0
        """Line of the cursor; the last one is no item yet."""
        self._column = len(self._line)

    @property
    def value(self) -> str:
        """The list in TOML; empty: out of the file."""
        items = [item for item in self._items if item or self._plain]
        return list_text(items, plain=self._plain) if self._is_set else ""

    @property
    def _line(self) -> str:
        return self._items[self._at] if self._at < len(self._items) else ""

    def render(self) -> RenderResult:
        """One line per item; the cursor's is marked."""
        lines = [self._render_line_of(at, item) for at, item in enumerate([*self._items, ""])]
        if not self._is_set:
            lines.append(Content.styled(f"out of the file: {self._default}", "$foreground 60%"))
        return Content("\n").join(lines)

    def _render_line_of(self, at: int, item: str) -> Content:
        is_new = at == len(self._items)
        sign = ("▸ " if at == self._at else "  ") + ("+ " if is_new else f"{at + 1} ")
        if at != self._at or not self.has_focus:
            return Content.assemble((sign, "$foreground 60%"), clean_line(item))
        before, under, after = (
            item[: self._column],
            item[self._column : self._column + 1],
            item[self._column + 1 :],
        )
        return Content.assemble((sign, "bold"), clean(before), (clean(under) or " ", "reverse"), clean(after))

    def on_key(self, event: events.Key) -> None:
        """At once, in the order they were pressed: see `TypedValue`."""
        if (message := common_message(event, self.value)) is not None:
            self.post_message(message)
            return
        match event.key:
            case "up" | "down":
                self.step(1 if event.key == "up" else -1)
            case "shift+up" | "shift+down":
                self._carry(-1 if event.key == "shift+up" else 1)
            case "left" | "right":
                self._column = max(
                    0, min(len(self._line), self._column + (1 if event.key == "right" else -1))
                )
            case "home" | "end":
                self._column = 0 if event.key == "home" else len(self._line)
            case "backspace" if self._column:
                self._column -= 1
                self._change(self._line[: self._column] + self._line[self._column + 1 :])
            case "delete":
                self._change(self._line[: self._column] + self._line[self._column + 1 :])
            case "ctrl+k":
                self._remove()
            case "ctrl+x":
                self.unset()
            case _ if event.is_printable and event.character:
                self._insert(event.character)
            case _:
                return
        event.stop()
        event.prevent_default()
        self.refresh(layout=True)

    def on_paste(self, event: events.Paste) -> None:
        """A line each is an item each."""
        event.stop()
        for number, line in enumerate(event.text.splitlines()):
            if number:
                self._at += 1
                self._items.insert(self._at, "")
                self._column = 0
            self._insert(line)
        self.refresh(layout=True)

    def _insert(self, text: str) -> None:
        line = self._line[: self._column] + text + self._line[self._column :]
        self._column += len(text)
        self._change(line)

    def _change(self, line: str) -> None:
        if self._at == len(self._items):
            if not line:
                return
            self._items.append("")
        self._items[self._at] = line
        self._tell()

    def _remove(self) -> None:
        if self._at < len(self._items):
            del self._items[self._at]
            self._column = len(self._line)
            self._tell()

    def _carry(self, lines: int) -> None:
        to = self._at + lines
        if self._at < len(self._items) and 0 <= to < len(self._items):
            self._items.insert(to, self._items.pop(self._at))
            self._at = to
            self._tell()

    def _tell(self) -> None:
        self._is_set = True
        self.post_message(ValueEdited(self.value))

    def step(self, steps: int) -> None:
        """Arrow up is the item before."""
        self._at = max(0, min(len(self._items), self._at - steps))
        self._column = len(self._line)
        self.refresh(layout=True)

    def scale(self, factor: float) -> None:
        """Lists have no double."""

    def unset(self) -> None:
        """Out of the file; any edit puts it in again."""
        self._is_set = False
        self.post_message(ValueEdited(self.value))
        self.refresh(layout=True)

    def on_click(self, event: events.Click) -> None:
        """To the line that was clicked."""
        if event.y <= len(self._items):
            self._at = event.y
            self._column = len(self._line)
            self.refresh()


Field = TypedValue | ChosenValue | ListValue


def value_editor(knob: KnobInfo) -> Field:
    """Typed, stepped, moved, chosen, or line by line."""
    if options(knob):
        return ChosenValue(knob)
    if knob.kind == "list":
        return ListValue(knob)
    return FractionValue(knob) if knob.control == "fraction" else TypedValue(knob)


_FAINT = "$foreground 60%"
_MARKS = {"fits": ("✓", "$text-success"), "unknown": ("?", _FAINT)}
_BAD = ("⚠", "$text-warning")


def bar_line(fraction: float | None, safe: float | None, width: int, style: str = "$primary") -> Content:
    """`width` cells from 0 to 1: what the engine takes, and where its safe limit is."""
    cells = max(0, width - 2)
    filled = 0 if fraction is None else round(min(1.0, max(0.0, fraction)) * cells)
    at = None if safe is None else min(cells - 1, round(safe * cells))
    bar = Content.assemble(("█" * filled, style), ("░" * (cells - filled), _FAINT))
    if at is not None and 0 <= at < cells:
        bar = bar[:at] + Content.styled("┊", "bold reverse" if at < filled else "bold") + bar[at + 1 :]
    return Content("▕") + bar + Content("▏")


def _figures_line(verdict: MemoryVerdict) -> Content:
    """Budget, what is left, what the trainer is known to need."""
    mark, style = _MARKS.get(verdict.verdict, _BAD)
    parts = []
    if verdict.budget_bytes is not None:
        total = "" if verdict.total_bytes is None else f" of {gib(verdict.total_bytes)}"
        parts.append(f"budget {gib(verdict.budget_bytes)}{total} GiB on GPU {verdict.device}")
    if verdict.left_bytes is not None:
        parts.append(f"leaves the trainer {gib(verdict.left_bytes)} GiB")
    if verdict.peak_bytes is not None:
        parts.append(f"it held up to {gib(verdict.peak_bytes)}")
    if verdict.safe_utilization is not None:
        parts.append(f"┊ safe up to {verdict.safe_utilization:g}")
    return Content.assemble((f"{mark} ", style), " · ".join(parts) or verdict.text)


class FractionBar(Widget):
    """Below the field: the bar as typed, the figures as soon as they are planned."""

    fraction: reactive[float | None] = reactive(None)
    verdict: reactive[MemoryVerdict | None] = reactive(None, layout=True)

    def render(self) -> RenderResult:
        """One line, and the figures below it where they are known."""
        verdict = self.verdict
        width = self.size.width
        safe = None if verdict is None else verdict.safe_utilization
        is_bad = verdict is not None and verdict.is_bad
        line = bar_line(self.fraction, safe, width, _BAD[1] if is_bad else "$primary")
        return line if verdict is None else line + Content("\n") + _figures_line(verdict)
