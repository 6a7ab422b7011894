"""Log files that other programs write into the run's folder: the one that is followed now, and its age."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.core.experiment.api import FollowedLog

if TYPE_CHECKING:
    from rltui.core.experiment.layout import LogSpec

SWITCH_AFTER_S = 30.0
"""A followed file is kept while it was written to at most this long before the newest one."""
NOTIFY_AFTER_S = 10.0
"""Clients are notified of a growing file when its age differs by this much from the reported one."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    changed_at: float


class FollowedLogs:
    """The current files of a layout's `[[log]]` entries in `run_dir`, as of the last poll."""

    def __init__(self, run_dir: Path, specs: Sequence[LogSpec]) -> None:
        self._run_dir = run_dir
        self._specs = tuple(specs)
        self._files: dict[str, _File] = {}
        self._reported: tuple[FollowedLog, ...] = tuple(map(self._log, self._specs))

    @property
    def logs(self) -> tuple[FollowedLog, ...]:
        """The state of the last poll that returned True, in the order of the layout."""
        return self._reported

    @property
    def paths(self) -> Mapping[str, Path]:
        """Log id → the file that is followed, for entries that have one, as of the last poll."""
        return {name: Path(file.path) for name, file in self._files.items()}

    def poll(self) -> bool:
        """Search for the files again. Returns whether clients must be notified: of another file, or of
        growth.
        """
        candidates = {spec.id: self._find(spec, self._files.get(spec.id)) for spec in self._specs}
        files = {name: file for name, file in candidates.items() if file is not None}
        if files == self._files:
            return False
        self._files = files
        now = tuple(map(self._log, self._specs))
        if not any(map(_is_change, self._reported, now)):
            return False
        self._reported = now
        return True

    def _find(self, spec: LogSpec, previous: _File | None) -> _File | None:
        for pattern in spec.files:
            if files := {file.path: file for file in self._matches(pattern)}:
                newest = max(files.values(), key=lambda file: (file.changed_at, file.path))
                current = files.get(previous.path) if previous is not None else None
                return (
                    newest
                    if current is None or newest.changed_at - current.changed_at > SWITCH_AFTER_S
                    else current
                )
        return None

    def _matches(self, pattern: str) -> Iterator[_File]:
        # `..` in a pattern is taken literally: the run's folder itself has no links.
        paths: Iterable[str] = [os.path.normpath(f"{self._run_dir}/{pattern}")]
        if "*" in pattern or "?" in pattern:
            folder = glob.escape(str(self._run_dir))
            full_pattern = os.path.normpath(f"{folder}/{pattern.replace('[', '[[]')}")
            paths = glob.iglob(full_pattern)  # noqa: PTH207  (ten times as fast as `Path.glob`)
        for path in paths:
            try:
                info = os.stat(path)  # noqa: PTH116  (one system call for each file and poll)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                yield _File(path, info.st_size, info.st_mtime)

    def _log(self, spec: LogSpec) -> FollowedLog:
        base = FollowedLog(id=spec.id, title=spec.title, wanted=spec.files)
        if (file := self._files.get(spec.id)) is None:
            return base
        return base.replace(
            path=file.path,
            name=os.path.relpath(file.path, self._run_dir),
            size_bytes=file.size_bytes,
            changed_at=file.changed_at,
        )


def _is_change(reported: FollowedLog, now: FollowedLog) -> bool:
    if reported.path != now.path or reported.changed_at is None or now.changed_at is None:
        return reported.path != now.path
    return abs(now.changed_at - reported.changed_at) >= NOTIFY_AFTER_S or (now.size_bytes or 0) < (
        reported.size_bytes or 0
    )
