"""Fields that are typed into: numbers, texts, and the share of a GPU's memory."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from rltui.core.config_report import KnobInfo
from rltui.ui.knob_values import default_text, edit_text, moved, scaled, stepped
from rltui.ui.widgets.value_field import ValueEdited, common_message


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
