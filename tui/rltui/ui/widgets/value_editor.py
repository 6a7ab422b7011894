"""The field a knob's value is edited in: typed, stepped, or chosen."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from rltui.core.api import KnobInfo
from rltui.ui.knob_values import edit_text, options, scaled, stepped


@dataclass
class ValueEdited(Message):
    """The field holds another text."""

    text: str


@dataclass
class WriteRequested(Message):
    """The text that was there when the key was pressed shall be written."""

    text: str
    restart: bool


class TypedValue(Input):
    """Numbers and texts. Arrows step numbers, `*` and `/` double and halve them."""

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__(edit_text(knob), placeholder="empty: out of the file, the default counts")
        self.cursor_blink = False
        self.knob = knob
        self.is_number = knob.kind in ("int", "float")

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
        match event.key:
            case "up" | "down" if self.is_number:
                self.step(1 if event.key == "up" else -1)
            case "asterisk" | "slash" if self.is_number:
                self.scale(2.0 if event.key == "asterisk" else 0.5)
            case "backspace":
                self.action_delete_left()
            case "delete":
                self.action_delete_right()
            case "enter" | "ctrl+r":
                self.post_message(WriteRequested(self.value, restart=event.key == "ctrl+r"))
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

    def _replace(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)


class ChosenValue(Widget, can_focus=True):
    """A bool or an enum: a choice per line, arrows or space move."""

    index: reactive[int] = reactive(0, init=False)

    def __init__(self, knob: KnobInfo) -> None:
        super().__init__()
        self.choices = options(knob)
        current = edit_text(knob) or "none"
        self.set_reactive(ChosenValue.index, self.choices.index(current) if current in self.choices else 0)

    @property
    def value(self) -> str:
        """The chosen text; `none` is the empty one."""
        return self.choices[self.index]

    def watch_index(self) -> None:
        """Tell the editor."""
        self.post_message(ValueEdited(self.value))

    def render(self) -> RenderResult:
        """One line per choice."""
        return Content("\n").join(
            Content.styled(f"(●) {choice}", "bold reverse" if self.has_focus else "bold")
            if position == self.index
            else Content(f"( ) {choice}")
            for position, choice in enumerate(self.choices)
        )

    def step(self, steps: int) -> None:
        """Arrow up is the choice before."""
        self.index = (self.index - steps) % len(self.choices)

    def scale(self, factor: float) -> None:
        """Choices have no double."""

    def key_space(self) -> None:
        """The next choice."""
        self.step(-1)

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        if event.y < len(self.choices):
            self.index = event.y


def value_editor(knob: KnobInfo) -> TypedValue | ChosenValue:
    """The field for a knob's kind."""
    return ChosenValue(knob) if options(knob) else TypedValue(knob)
