"""What the screens share about the config: the newest table, and the edits that were collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.client.protocol import ConfigText
from rltui.core.api import Status
from rltui.core.config_report import KnobInfo, KnobTable
from rltui.ui.staged_edits import StagedEdits
from rltui.ui.text import clean_line
from rltui.ui.widgets.knob_rows import change_text


@dataclass(frozen=True, slots=True)
class TextDraft:
    """A file's text as it left the editor."""

    seen: ConfigText
    """The file as it was when it was first opened."""
    text: str


class ConfigDesk:
    """Tells its watchers of every change. One per app: it survives the screens."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.table = KnobTable()
        self.staged = StagedEdits()
        self.drafts: dict[str, TextDraft] = {}
        """Texts that came out of an editor and were not written, by file."""
        self._watchers: list[Callable[[], None]] = []

    def watch(self, tell: Callable[[], None]) -> None:
        """`tell` is called after each change of `table` or `staged`."""
        self._watchers.append(tell)

    def show(self, table: KnobTable) -> None:
        """Take over new values."""
        if table != self.table:
            self.table = table
            self._tell()

    def collect(self, edits: Mapping[str, Any], base: Mapping[str, str]) -> None:
        """Keep these edits, made on the content `base` of the files."""
        self.staged = self.staged.adding(edits, base)
        self._tell()

    def drop(self, key: str | None = None) -> None:
        """Forget the edit of `key`, or all of them."""
        self.staged = StagedEdits() if key is None else self.staged.dropping(key)
        self._tell()

    @property
    def knobs(self) -> tuple[KnobInfo, ...]:
        """The framework's knobs, then every other key of the files."""
        return (*self.table.knobs, *self.table.others)

    @property
    def unwritten(self) -> tuple[str, ...]:
        """What is lost with the app, a line each: collected edits, texts that came out of an editor."""
        edits = self.staged.edits
        return (
            *(
                f"{clean_line(each.key)} {change_text(each, edits)}"
                for each in self.knobs
                if each.key in edits
            ),
            *(f"the text of {clean_line(path)}" for path in self.drafts),
        )

    def _tell(self) -> None:
        for tell in self._watchers:
            tell()
