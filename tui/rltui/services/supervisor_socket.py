"""Where a supervisor listens, and how clients with another environment find that place."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from rltui import paths
from rltui.errors import RltuiError
from rltui.services.experiment_files import ControlFolder, ExperimentRecord, write_atomically


def place_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` is to listen, written down for clients with another environment.

    Raises:
        RltuiError: if there is no private folder for it. On a full disk, only the note is missing.
    """
    path = paths.socket_path(record.name)
    with suppress(RltuiError):
        write_atomically(ControlFolder(Path(record.output_dir)).socket_file, str(path).encode())
    return path


def find_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` listens, or would if it were started from here.

    Its environment may be another than ours: cron, `su` and `docker exec` set no `XDG_RUNTIME_DIR`. A socket
    of another user is not believed in.
    """
    try:
        noted = Path(ControlFolder(Path(record.output_dir)).socket_file.read_text())
        info = noted.lstat()
    except (OSError, ValueError):
        return paths.socket_path(record.name)
    is_ours = stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()
    return noted if is_ours else paths.socket_path(record.name)
