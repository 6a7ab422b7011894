"""The line in which a person types which runs are meant, and below it why that cannot be understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from rltui.errors import UsageError
from rltui.ui.text import clean
from rltui.views.run_filter import RunFilter, parse_filter


class RunFilterBar(Vertical):
    """Hidden until it is opened. It counts while it is typed."""

    DEFAULT_CSS = "RunFilterBar { height: auto; }"

    @dataclass
    class Changed(Message):
        """Others are meant; `None`: all are."""

        filter: RunFilter | None

    class Ready(Message):
        pass

    def __init__(self, names: Callable[[], Mapping[str, str]], clock: Callable[[], float]) -> None:
        """`names`: of all runs, by id."""
        super().__init__()
        self._names, self._clock = names, clock
        self._input = Input(
            placeholder="a part of the name, tag:baseline, reward > 0.8 and lr < 1e-5",
            id="runs-filter",
            compact=True,
        )
        self._input.cursor_blink = False
        self._trouble = Static(id="runs-trouble", markup=False)
        self._before: RunFilter | None = None
        """The filter in force when the typing began."""

    def compose(self) -> ComposeResult:
        yield self._input
        yield self._trouble

    @property
    def is_open(self) -> bool:
        return self._input.has_class("-shown")

    def open(self, current: RunFilter | None) -> None:
        """`current`: what counts, until another can be understood."""
        if not self._input.has_focus:
            self._before = current
        self._input.add_class("-shown")
        self._input.focus()

    def close(self) -> None:
        """An empty filter is in force again."""
        self._input.value = ""
        self._input.remove_class("-shown")

    def show_error(self, error: UsageError | None) -> None:
        lines = [] if error is None else [error.title, *error.details, error.hint]
        self._trouble.update(Content("\n".join(clean(line) for line in lines if line)))
        self._trouble.set_class(bool(lines), "-shown")

    @on(Input.Changed)
    def _parse(self, event: Input.Changed) -> None:
        """A text that cannot be understood leaves the filter from before the typing."""
        event.stop()
        ids = {name: id_ for id_, name in self._names().items()}
        try:
            parsed = parse_filter(event.value, now=self._clock(), ids=ids) if event.value.strip() else None
        except UsageError as error:
            self.show_error(error)
            parsed = self._before
        else:
            self.show_error(None)
        self.post_message(self.Changed(parsed))

    @on(Input.Submitted)
    def _leave(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Ready())
