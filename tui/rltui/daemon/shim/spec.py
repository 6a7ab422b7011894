# ruff: noqa: PTH108, PTH118, PTH120, PTH123
"""What is to be run: `spec.json`, as the supervisor wrote it."""

from __future__ import annotations

import json
import os
import signal
import stat

TYPE_CHECKING = False  # the one of `typing`, which costs a megabyte
if TYPE_CHECKING:
    from typing import Any


FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The right to write, of anybody but the owner."""


class ForeignFileError(Exception):
    """The file cannot be the user's own; the text says why."""


def read_own(path: str) -> dict[str, Any]:
    """The JSON object in a file of rltui's own: what it says is run.

    The little of `services/own_files.py` that a shim needs, without its imports.

    Raises:
        OSError, ValueError: if it cannot be read or is no JSON.
        ForeignFileError: if it is a link, another user's, or one that others may write to.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ForeignFileError("it is no regular file")
        if info.st_uid not in (os.getuid(), 0) or info.st_mode & FOR_OTHERS:
            usual = _of_a_new_file(os.path.dirname(path))
            if info.st_uid not in (os.getuid(), 0, usual.st_uid):
                raise ForeignFileError(f"it belongs to another user, number {info.st_uid}")
            if info.st_mode & FOR_OTHERS & ~usual.st_mode:
                raise ForeignFileError("others may write to it")
        values: dict[str, Any] = json.load(file)
        return values


def _of_a_new_file(folder: str) -> os.stat_result:
    """What a private file gets there: some file systems give all files one owner or mode."""
    path = os.path.join(folder, f"own.{os.getpid()}")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(path)


class Spec:
    """One attempt to be made."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Raises TypeError, ValueError or LookupError where the values are no spec."""
        self.experiment: str = values["experiment"]
        self.component: str = values["component"]
        self.attempt: int = values["attempt"]
        self.argv: list[str] = list(values["argv"])
        if not self.argv:
            raise ValueError("argv is empty")
        self.cwd = str(values["cwd"])
        self.log = str(values["log"])
        self.env: dict[str, str | None] = dict(values["env"])
        """Added to the shim's own environment; None removes."""
        self.shell: dict[str, Any] = dict(values.get("shell") or {})
        """See `take_over`; of a supervisor from before an upgrade, empty."""
        stop = values["stop"]
        self.stop_signal = signal.Signals[stop["signal"]]
        self.stop_grace_s = float(stop["grace_s"])
        leftovers = stop.get("leftovers", "end")
        if leftovers not in ("end", "keep"):
            raise ValueError(f"stop.leftovers is {leftovers!r}, not 'end' or 'keep'")
        self.keeps_leftovers: bool = leftovers == "keep"
        """What outlives a main process that ended by itself is left alone until a stop is asked for."""
