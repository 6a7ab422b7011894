"""A config with its history, as it is reopened whenever its memory is lost."""

from __future__ import annotations

from pathlib import Path

from rltui.base.toml.values import TomlValue
from rltui.core.experiment.api import Request
from rltui.core.experiment.journal import JournalEntry
from rltui.frameworks.generic import GENERIC
from rltui.services.config.document import ConfigDocument
from rltui.services.config.history import EditHistory
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import Journal


class Desk:
    """`run.toml` in a folder with this text, of an experiment in `out`."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "run.toml"
        self.path.write_bytes(text.encode())
        self.control = ControlFolder(folder / "out")
        self.control.path.mkdir(parents=True)
        self.reopen()

    def reopen(self) -> None:
        """Everything in memory is lost."""
        self.entries: list[JournalEntry] = []
        journal = Journal(self.control.journal_file, listener=self.entries.append)
        self.history = EditHistory(self.control, journal)
        self.document = ConfigDocument([self.path], GENERIC, components=["trainer"], history=self.history)

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()

    def do(self, request: Request) -> None:
        self.document.commit(self.document.proposed(request))

    def set(self, **edits: TomlValue) -> None:
        """`__` for a dot."""
        self.do(Request(action="set", edits={key.replace("__", "."): value for key, value in edits.items()}))

    def undo(self) -> None:
        self.do(Request(action="undo"))

    def redo(self) -> None:
        self.do(Request(action="redo"))

    def words(self) -> tuple[str | None, str | None]:
        """The edits that can be undone and redone."""
        table = self.document.knob_table({})
        return table.undo, table.redo
