"""The sign of life of a supervisor: the time of its socket. Lists of runs read it instead of asking each."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rltui import paths

SILENCE_S = 30.0
"""A supervisor beats every few seconds; without a beat for so long it does not answer either."""
_SECOND_NS = 1_000_000_000
_MARK_NS = 123_456_789
"""Fraction of a second in the time of a socket that beats: those of older versions have any other."""


def beat(socket: Path) -> None:
    """Raises OSError if the socket is gone."""
    beat_ns = int(time.time()) * _SECOND_NS + _MARK_NS
    os.utime(socket, ns=(beat_ns, beat_ns))


def has_fallen_silent(experiment: str, output_dir: str) -> bool:
    """True if the supervisor of the experiment used to beat and does not any more."""
    for path in paths.socket_candidates(experiment, output_dir):
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_mtime_ns % _SECOND_NS == _MARK_NS:
            return time.time() - status.st_mtime > SILENCE_S
    return False
