"""The line of a screen in which a person types what is looked for."""

from __future__ import annotations

from textual.widgets import Input


class SearchLine(Input):
    """Hidden until it is opened."""

    DEFAULT_CSS = """
    SearchLine.-textual-compact {
        display: none;
        padding: 0 1;
    }
    SearchLine.-textual-compact.-shown {
        display: block;
    }
    """

    def __init__(self, placeholder: str, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(placeholder=placeholder, id=id, compact=True)
        self.cursor_blink = False

    @property
    def is_open(self) -> bool:
        return self.has_class("-shown")

    def open(self) -> None:
        self.add_class("-shown")
        self.focus()

    def close(self) -> None:
        """Nothing is looked for any more."""
        self.value = ""
        self.remove_class("-shown")
