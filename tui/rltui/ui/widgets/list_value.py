"""The field for a list: an item per line, and an empty line at the end for one more."""

from __future__ import annotations

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from rltui.core.config_report import KnobInfo
from rltui.ui.knob_values import default_text, holds_text, item_texts, list_text
from rltui.ui.text import clean, clean_line
from rltui.ui.widgets.value_field import ValueEdited, common_message


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
