"""The folders that a framework's dashboard shows the runs of: a list that its launchers and rltui write.

What rltui has added is kept in a file of its own: only that is taken back.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui import paths
from rltui.base.values import InvalidValueError, Value, from_json, to_json
from rltui.errors import RltuiError
from rltui.frameworks.dashboard import Dashboard
from rltui.services.own_files import (
    entry_names,
    is_text,
    make_folder,
    read_own,
    read_regular,
    write_atomically,
)

_LOCK_S, _LOCK_POLL_S = 1.0, 0.01


class _OwnFolders(Value):
    """What rltui did to one list."""

    added: tuple[str, ...] = ()
    taken_back: tuple[str, ...] = ()
    """Added before, until the last run in them went to the trash."""

    def moved(self, entry: str, *, is_added: bool) -> _OwnFolders:
        added, taken_back = (
            tuple(other for other in entries if other != entry) for entries in (self.added, self.taken_back)
        )
        if is_added:
            return _OwnFolders(added=(*added, entry), taken_back=taken_back)
        return _OwnFolders(added=added, taken_back=(*taken_back, entry))


class DashboardFolders:
    """The list in the home of the user. A damaged one is left alone.

    All methods raise RltuiError, in one sentence, where it cannot be read, locked or written.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        try:
            self._folder = Path.home() / dashboard.folder
        except RuntimeError as error:
            raise RltuiError(f"no home folder: {error}") from None
        self._file = self._folder / dashboard.folders_file
        self._own_file = paths.state_dir() / "dashboard_folders.json"

    def entries(self) -> tuple[str, ...]:
        try:
            return tuple(from_json(list[str], read_regular(self._file)))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RltuiError(f"cannot read {self._file}: {error.strerror}") from error
        except InvalidValueError as error:
            raise RltuiError(f"{self._file} is not a list of folders: {error}; it is left alone") from error

    def add(self, folder: Path) -> bool:
        """Have the dashboard show the runs in `folder`. False if it does already."""
        entry = str(folder.resolve())
        if not is_text(entry):
            raise RltuiError(f"the path of a folder is not UTF-8: {folder}")
        with self._locked():
            entries = self.entries()
            if entry in entries:
                return False
            self._write([*entries, entry])
            self._note(entry, is_added=True)
        return True

    def take_back(self, folder: Path) -> None:
        """Remove it if rltui has added it, and no run is left in it."""
        entry = str(folder.resolve())
        if entry not in self._own().get(str(self._file), _OwnFolders()).added or self._has_runs(folder):
            return
        with self._locked():
            entries = self.entries()
            if entry in entries:
                self._write([other for other in entries if other != entry])
            self._note(entry, is_added=False)

    def put_back(self, folder: Path) -> None:
        """Add it again if rltui has taken it back."""
        if str(folder.resolve()) in self._own().get(str(self._file), _OwnFolders()).taken_back:
            self.add(folder)

    def is_run(self, folder: Path) -> bool:
        """True if the dashboard takes the folder for a run."""
        signs = self._dashboard.run_signs
        return not folder.name.startswith(".") and any((folder / sign).exists() for sign in signs)

    def _has_runs(self, folder: Path) -> bool:
        """True also for a run of ours that has written nothing yet."""
        inside = (folder / name for name in entry_names(folder) if not name.startswith("."))
        return any(self.is_run(run) or (run / paths.STATE_FOLDER).is_dir() for run in inside)

    def _write(self, entries: list[str]) -> None:
        """In the way of the launchers, who may do it after the next moment."""
        temporary = self._file.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(entries))
            temporary.replace(self._file)
        except OSError as error:
            raise RltuiError(f"cannot write {self._file}: {error.strerror}") from error

    def _own(self) -> dict[str, _OwnFolders]:
        """By list, as there may be several homes. One that cannot be read claims nothing."""
        try:
            return from_json(dict[str, _OwnFolders], read_own(self._own_file))
        except (OSError, InvalidValueError):
            return {}

    def _note(self, entry: str, *, is_added: bool) -> None:
        own, key = self._own(), str(self._file)
        own[key] = own.get(key, _OwnFolders()).moved(entry, is_added=is_added)
        make_folder(self._own_file.parent)
        write_atomically(self._own_file, to_json(own))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._folder / self._dashboard.lock_file
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise RltuiError(f"cannot open {lock}: {error.strerror}") from error
        try:
            deadline = time.monotonic() + _LOCK_S
            while not _is_locked(descriptor):
                if time.monotonic() >= deadline:
                    raise RltuiError(f"cannot lock {lock}: another program holds it")
                time.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock it, unless another program holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RltuiError(f"cannot lock the list of a dashboard: {error.strerror}") from error
    return True
