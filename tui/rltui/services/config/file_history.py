"""Edits of config files by hand, so that they can be undone: in a history of each file, or of its run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from rltui import paths
from rltui.core.config.edit_log import EditRecord
from rltui.core.config.report import FileConflict
from rltui.core.experiment.refusal import refuse_undo
from rltui.errors import ConflictError
from rltui.services.config.change import FileChange
from rltui.services.config.config_file import read_file
from rltui.services.config.history import EditHistory
from rltui.services.config.writing import write_changes
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.journal import Journal
from rltui.services.experiment.registry import known_experiments


def owner_of(path: Path) -> ExperimentRecord | None:
    """The newest run that reads this very file."""
    return next((record for record in known_experiments() if path in record.config_paths), None)


def history_of(path: Path) -> EditHistory:
    """The history of the run that reads the file, else its own, in the user's state folder."""
    record = owner_of(path)
    digest = hashlib.sha256(bytes(path)).hexdigest()[:16]
    control = ControlFolder(paths.state_dir() / "files" / digest) if record is None else record.control
    history = EditHistory(control, Journal(control.journal_file))
    history.reconcile()
    return history


def recording(
    changes: Sequence[FileChange],
    action: Literal["write", "undo", "redo"],
    words: str,
    *,
    takes_back: int | None = None,
) -> Callable[[], AbstractContextManager[None]]:
    """Return what is to surround the write of the files, as `write_changes` takes it. Their whole text is
    edited: it is undone if nobody has changed it since.
    """
    histories = [history_of(change.path) for change in changes]

    @contextmanager
    def recorded() -> Iterator[None]:
        with ExitStack() as edits:
            for history, change in zip(histories, changes, strict=True):
                history.contents.save(change.before.content, change.after.content)
                number = history.now().next_number
                record = EditRecord(
                    number=number, action=action, words=words, files=(change.record().replace(keys={}),),
                    takes_back=takes_back,
                )  # fmt: skip
                edits.enter_context(history.recording(words, record.to_plain()))
            yield

    return recorded


class FileUndo:
    """The newest edit of a file that belongs to no run, to be taken back or made again."""

    def __init__(self, path: Path, action: Literal["undo", "redo"]) -> None:
        """Find it; nothing is written.

        Raises:
            ConflictError: if there is none, or the file has changed since.
        """
        self._action = action
        history, file = history_of(path), read_file(path)
        log = history.now()
        record = log.undoable if action == "undo" else log.redoable
        if record is None:
            raise ConflictError(f"nothing to {action} in {path}", hint="rltui has not edited this file")
        restored = history.restored(record.files[0], file)
        if isinstance(restored, FileConflict):
            refuse_undo((restored,))
            raise AssertionError(restored)
        self.record, self.change = record, FileChange(file, restored)

    def commit(self) -> None:
        """Write the file.

        Raises:
            ConflictError: if the file has changed meanwhile.
            RltuiError: if it cannot be written.
        """
        write_changes(
            [self.change],
            recorded=recording([self.change], self._action, self.record.words, takes_back=self.record.number),
        )
