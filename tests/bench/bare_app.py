"""The peer of the TUI: the least that Textual can do."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class BareApp(App[None]):
    BINDINGS = [("q", "quit", "quit")]  # noqa: RUF012 - as Textual declares it

    def compose(self) -> ComposeResult:
        yield Static("bare peer painted")


BareApp().run()
