"""Log files that other programs write into the run's folder: which one is followed now, and how old it is."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.core.api import FollowedLog
from rltui.core.layout import LogSpec

STAY_S = 30.0
"""A file that was written to so shortly before the newest one is kept: both are being written."""
TELL_S = 10.0
"""How far the age of a growing file may be off before clients are told again."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    changed_at: float


class FollowedLogs:
    """The `[[log]]` entries of a layout, looked up in `run_dir` when asked to."""

    def __init__(self, run_dir: Path, specs: Sequence[LogSpec]) -> None:
        self._run_dir = run_dir
        self._specs = tuple(specs)
        self._files: dict[str, _File] = {}
        self._told: tuple[FollowedLog, ...] = tuple(map(self._log, self._specs))

    @property
    def logs(self) -> tuple[FollowedLog, ...]:
        """As of the last look that found news, in the order of the layout."""
        return self._told

    @property
    def paths(self) -> Mapping[str, Path]:
        """Log id → the file that is followed, for those that have one, as of the last look."""
        return {name: Path(file.path) for name, file in self._files.items()}

    def look(self) -> bool:
        """Look again. Returns whether clients should know: another file, or one that grew for a while."""
        found = {spec.id: self._found(spec, self._files.get(spec.id)) for spec in self._specs}
        files = {name: file for name, file in found.items() if file is not None}
        if files == self._files:
            return False
        self._files = files
        now = tuple(map(self._log, self._specs))
        if not any(map(_is_news, self._told, now)):
            return False
        self._told = now
        return True

    def _found(self, spec: LogSpec, before: _File | None) -> _File | None:
        for pattern in spec.files:
            if files := {file.path: file for file in self._matches(pattern)}:
                newest = max(files.values(), key=lambda file: (file.changed_at, file.path))
                same = files.get(before.path) if before is not None else None
                return newest if same is None or newest.changed_at - same.changed_at > STAY_S else same
        return None

    def _matches(self, pattern: str) -> Iterator[_File]:
        # `..` in a pattern is taken literally: the run's folder itself has no links.
        paths: Iterable[str] = [os.path.normpath(f"{self._run_dir}/{pattern}")]
        if "*" in pattern or "?" in pattern:
            folder = glob.escape(str(self._run_dir))
            whole = os.path.normpath(f"{folder}/{pattern.replace('[', '[[]')}")
            paths = glob.iglob(whole)  # noqa: PTH207  (ten times as fast as `Path.glob`)
        for path in paths:
            try:
                info = os.stat(path)  # noqa: PTH116  (one system call for each file and look)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                yield _File(path, info.st_size, info.st_mtime)

    def _log(self, spec: LogSpec) -> FollowedLog:
        base = FollowedLog(id=spec.id, title=spec.title, wanted=spec.files)
        if (file := self._files.get(spec.id)) is None:
            return base
        return base.model_copy(
            update={
                "path": file.path,
                "name": os.path.relpath(file.path, self._run_dir),
                "size_bytes": file.size_bytes,
                "changed_at": file.changed_at,
            }
        )


def _is_news(told: FollowedLog, now: FollowedLog) -> bool:
    if told.path != now.path or told.changed_at is None or now.changed_at is None:
        return told.path != now.path
    return abs(now.changed_at - told.changed_at) >= TELL_S or (now.size_bytes or 0) < (told.size_bytes or 0)
