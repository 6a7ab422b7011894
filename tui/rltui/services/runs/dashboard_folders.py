"""The folders that a framework's dashboard shows the runs of: a list that its launchers and rltui write.

What rltui has added is kept in a file of its own: only that is taken back.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from rltui import paths
from rltui.base.values import InvalidValueError, from_json, to_json
from rltui.errors import RltuiError
from rltui.frameworks.dashboard import Dashboard
from rltui.services.own_files import (
    FileLock,
    entry_names,
    is_text,
    make_folder,
    read_own,
    read_regular,
    write_atomically,
)

_LOCK_S = 1.0


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
            write_atomically(self._file, to_json([*entries, entry]))
            self._note(entry, is_added=True)
        return True

    def take_back(self, folder: Path) -> None:
        """Remove it if rltui has added it, and no run is left in it."""
        entry = str(folder.resolve())
        if not self._is_added(entry) or self._has_runs(folder):
            return
        with self._locked():
            entries = self.entries()
            if entry in entries:
                write_atomically(self._file, to_json([other for other in entries if other != entry]))
            self._note(entry, is_added=False)

    def put_back(self, folder: Path) -> None:
        """Add it again if rltui has taken it back."""
        if self._is_added(str(folder.resolve())) is False:
            self.add(folder)

    def is_run(self, folder: Path) -> bool:
        """True if the dashboard takes the folder for a run."""
        signs = self._dashboard.run_signs
        return not folder.name.startswith(".") and any((folder / sign).exists() for sign in signs)

    def _has_runs(self, folder: Path) -> bool:
        """True also for a run of ours that has written nothing yet."""
        inside = (folder / name for name in entry_names(folder) if not name.startswith("."))
        return any(self.is_run(run) or (run / paths.STATE_FOLDER).is_dir() for run in inside)

    def _is_added(self, entry: str) -> bool | None:
        """False after rltui has taken it back; `None` if it never added it."""
        return self._own().get(str(self._file), {}).get(entry)

    def _own(self) -> dict[str, dict[str, bool]]:
        """By list, as there may be several homes. One that cannot be read claims nothing."""
        try:
            return from_json(dict[str, dict[str, bool]], read_own(self._own_file))
        except (OSError, InvalidValueError):
            return {}

    def _note(self, entry: str, *, is_added: bool) -> None:
        own = self._own()
        own.setdefault(str(self._file), {})[entry] = is_added
        make_folder(self._own_file.parent)
        write_atomically(self._own_file, to_json(own))

    def _locked(self) -> AbstractContextManager[None]:
        lock = self._folder / self._dashboard.lock_file
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RltuiError(f"cannot make {self._folder}: {error.strerror}") from error
        busy = RltuiError(f"cannot lock {lock}: another program holds it")
        return FileLock(lock, _open_theirs).hold(busy, wait_s=_LOCK_S)


def _open_theirs(path: Path, flags: int) -> int:
    """The launchers create it, too, with the mode of any file."""
    return os.open(path, flags | os.O_CLOEXEC, 0o666)
