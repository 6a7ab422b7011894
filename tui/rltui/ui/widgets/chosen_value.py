"""The field for a bool or an enum: a choice per line, and a last one to take the key out of the file."""

from __future__ import annotations

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from rltui.core.config_report import KnobInfo
from rltui.ui.knob_values import default_text, edit_text, options
from rltui.ui.widgets.value_field import ValueEdited, common_message


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
