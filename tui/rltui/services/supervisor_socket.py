"""Where a supervisor listens, and how clients with another environment find that place."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from rltui import paths
from rltui.errors import RltuiError
from rltui.services.experiment_files import ControlFolder, ExperimentRecord, write_atomically
from rltui.services.own_files import read_own


def place_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` is to listen, written down for clients with another environment.

    Raises:
        RltuiError: if there is no private folder for it. On a full disk, only the note is missing.
    """
    path = paths.socket_path(record.name, record.output_dir)
    for other in paths.socket_places(record.name, record.output_dir):
        if other != path and _is_own_socket(other):  # of a dead supervisor, or where nobody came any more
            other.unlink(missing_ok=True)
    with suppress(RltuiError):
        write_atomically(ControlFolder(Path(record.output_dir)).socket_file, str(path).encode())
    return path


def find_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` listens, or would if it were started from here.

    Its environment may be another than ours: cron, `su` and `docker exec` set no `XDG_RUNTIME_DIR`, and that
    folder goes when its user's last session ends. A socket of another user is not believed in.
    """
    places = paths.socket_places(record.name, record.output_dir)
    with suppress(OSError, ValueError):
        note = read_own(ControlFolder(Path(record.output_dir)).socket_file)
        places.insert(0, Path(note.decode()))
    return next(filter(_is_own_socket, places), paths.socket_places(record.name, record.output_dir)[0])


def _is_own_socket(path: Path) -> bool:
    try:
        info = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()
