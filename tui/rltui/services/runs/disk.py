"""Free space on the disk of a run, and whether its future checkpoints fit."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rltui.base.text import GIB, duration, size_text
from rltui.core import hints
from rltui.services.runs.folder import RunFolder

_LEAST_FREE_BYTES = GIB
"""Below this, logs and metrics are at risk as well."""
_KEPT_BY_PRUNE = 3
"""Number of newest checkpoints that `rltui checkpoints prune ` keeps by default."""
_MIN_FITTING = 2
"""Number of checkpoints below which there is little time left to react."""


@dataclass(frozen=True, slots=True)
class DiskReading:
    """Free space and the complete checkpoints of a run."""

    free_bytes: int
    """Bytes that this user may still write where the checkpoints are."""
    steps: tuple[int, ...] = ()
    """Steps of the checkpoints, ascending."""
    newest_bytes: int | None = None
    pause_s: float | None = None
    """Median time between two checkpoints."""
    newest_age_s: float | None = None
    pruned: bool = False
    """True if old ones are removed as new ones come, so that their number stays."""


@dataclass(frozen=True, slots=True)
class DiskForecast:
    severity: Literal["ok", "warning", "error"]
    title: str = ""
    text: str = ""


def is_pruned(before: Sequence[int], steps: Sequence[int]) -> bool:
    """True if old checkpoints are removed when new ones come, judged by two readings, `before` being the
    earlier one.

    Missing first steps of the run prove it as well: then the existing steps do not start with the interval.
    """
    if not steps:
        return False
    has_removed = any(step not in steps and step < steps[-1] for step in before)
    interval = _interval(steps)
    return has_removed or (len(steps) > 1 and interval is not None and steps[0] > interval)


def still_to_come(steps: Sequence[int], max_steps: int | None) -> int | None:
    """Number of checkpoints that the run has yet to write, including a last one at its end; `None`:
    unknown.
    """
    interval = _interval(steps)
    if interval is None or max_steps is None:
        return None
    return max(0, math.ceil((max_steps - steps[-1]) / interval))


def disk_forecast(
    folder: str, reading: DiskReading, max_steps: int | None, name: str | None = None
) -> DiskForecast:
    """An error if the next checkpoint does not fit; a warning if fewer than two do, or little is free.

    If old checkpoints are pruned, room for one is enough: it is written before the oldest goes. `name`: of
    the experiment, if a command has to name it.
    """
    size, free_bytes = reading.newest_bytes, reading.free_bytes
    remaining = still_to_come(reading.steps, max_steps)
    fitting = free_bytes // size if size else None
    minimum = 1 if reading.pruned else _MIN_FITTING
    required = minimum if remaining is None else min(minimum, remaining)
    state = f"{folder}: {size_text(free_bytes)} free"
    if size is not None:
        state += f", a checkpoint needs {size_text(size)}"
    if remaining is not None:
        state += f", {remaining} more to come" if remaining else ", none to come"
    advice = _advice(folder, max(0, len(reading.steps) - _KEPT_BY_PRUNE) * (size or 0), name)
    if size is not None and fitting == 0 and required:
        return DiskForecast("error", "no disk space for the next checkpoint", f"{state}. {advice}")
    if fitting is not None and fitting < required:
        state += _when(fitting, reading)
    elif free_bytes >= _LEAST_FREE_BYTES:
        return DiskForecast("ok")
    return DiskForecast("warning", "the disk is nearly full", f"{state}. {advice}")


def _interval(steps: Sequence[int]) -> float | None:
    """Number of steps between checkpoints."""
    if len(steps) > 1:
        pairs = itertools.pairwise(steps)
        return statistics.median(after - before for before, after in pairs) or None
    return steps[0] or None if steps else None


def _when(fitting: int, reading: DiskReading) -> str:
    if reading.pause_s is None or reading.newest_age_s is None:
        return ""
    remaining_s = max(0.0, (fitting + 1) * reading.pause_s - reading.newest_age_s)
    return f": full in about {duration(remaining_s)}"


def _advice(folder: str, prunable_bytes: int, name: str | None) -> str:
    prune = f"`{hints.PRUNE(name=name)}` frees about {size_text(prunable_bytes)}; " if prunable_bytes else ""
    return (
        f"Free space there ({prune}largest files: du -sh {folder}/* | sort -h), or keep fewer checkpoints,"
        " or save them less often"
    )


class DiskMeter:
    """Measures a run's folder. Blocks for as long as the file system does: call from a thread.

    The size of a checkpoint is computed once.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._cached_size: tuple[Path, float, int] | None = None
        self._steps: tuple[int, ...] = ()
        self._pruned = False

    def newest_step(self) -> int | None:
        """Step of the newest complete checkpoint; reads its folder once."""
        return max(self._folder.checkpoint_folders(), default=None)

    def archived(self) -> tuple[Path, int]:
        """The archive of restarts, and its size."""
        return self._folder.archive, size_of(self._folder.archive)

    def read(self) -> DiskReading:
        """Current free space and checkpoints.

        Raises:
            OSError: The output folder cannot be read.
        """
        folders = self._folder.checkpoint_folders()
        steps = tuple(sorted(folders))
        self._pruned = self._pruned or is_pruned(self._steps, steps)
        self._steps = steps
        made_at = [folders[step].stat().st_mtime for step in steps]
        newest = folders[steps[-1]] if steps else None
        pauses = [after - before for before, after in itertools.pairwise(made_at)]
        return DiskReading(
            free_bytes=shutil.disk_usage(newest or self._folder.path).free,
            steps=steps,
            newest_bytes=self._size(newest, made_at[-1]) if newest else None,
            pause_s=statistics.median(pauses) if pauses and min(pauses) > 0 else None,
            newest_age_s=max(0.0, time.time() - made_at[-1]) if made_at else None,
            pruned=self._pruned,
        )

    def _size(self, folder: Path, made_at: float) -> int:
        if self._cached_size is None or self._cached_size[:2] != (folder, made_at):
            self._cached_size = (folder, made_at, size_of(folder))
        return self._cached_size[2]


def size_of(folder: Path) -> int:
    """Bytes on the disk of all files below `folder`, hard links counted once. Links are not followed."""
    blocks: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                info = (Path(parent) / name).lstat()
            except FileNotFoundError:  # removed meanwhile
                continue
            blocks[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(blocks.values())
