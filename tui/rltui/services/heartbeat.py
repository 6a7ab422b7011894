"""The sign of life of a supervisor: the time of its socket. Lists of runs read it instead of asking each."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rltui import paths

SILENCE_S = 30.0
"""A supervisor beats every few seconds; without a beat for so long it does not answer either."""
_MARK = 0
"""Time of access of a socket that beats: supervisors of older versions leave it as it is."""


def beat(socket: Path) -> None:
    """Raises OSError if the socket is gone."""
    os.utime(socket, (_MARK, time.time()))


def has_fallen_silent(experiment: str, output_dir: str) -> bool:
    """True if the supervisor of the experiment used to beat and does not any more."""
    for path in paths.socket_candidates(experiment, output_dir):
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_atime == _MARK:
            return time.time() - status.st_mtime > SILENCE_S
    return False
