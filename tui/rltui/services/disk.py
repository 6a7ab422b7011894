"""What the disk under a run has left, and how big and how frequent its checkpoints are."""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from rltui.core.disk import Checkpoints, is_pruned
from rltui.services.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One look."""

    free_bytes: int
    """What this user may still write where the checkpoints lie."""
    checkpoints: Checkpoints


class DiskMeter:
    """Measures a run's folder. Blocks for as long as the file system does: call from a thread.

    The size of a checkpoint is added up once.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._measured: tuple[Path, float, int] | None = None
        self._steps: tuple[int, ...] = ()
        self._pruned = False

    def newest_step(self) -> int | None:
        """Of the newest complete checkpoint; one look at their folder."""
        return self._folder.latest_checkpoint()

    def archived(self) -> tuple[Path, int]:
        """What restarts moved aside, and its size."""
        return self._folder.archive, size_of(self._folder.archive)

    def read(self) -> DiskReading:
        """Free space and checkpoints as of now.

        Raises:
            OSError: The output folder cannot be read.
        """
        found = self._folder.checkpoint_folders()
        steps = tuple(sorted(found))
        self._pruned = self._pruned or is_pruned(self._steps, steps)
        self._steps = steps
        made_at = [found[step].stat().st_mtime for step in steps]
        newest = found[steps[-1]] if steps else None
        pauses = [after - before for before, after in itertools.pairwise(made_at)]
        return DiskReading(
            free_bytes=shutil.disk_usage(newest or self._folder.path).free,
            checkpoints=Checkpoints(
                steps=steps,
                newest_bytes=self._size(newest, made_at[-1]) if newest else None,
                pause_s=statistics.median(pauses) if pauses and min(pauses) > 0 else None,
                newest_age_s=max(0.0, time.time() - made_at[-1]) if made_at else None,
                pruned=self._pruned,
            ),
        )

    def _size(self, folder: Path, made_at: float) -> int:
        if self._measured is None or self._measured[:2] != (folder, made_at):
            self._measured = (folder, made_at, size_of(folder))
        return self._measured[2]


def size_of(folder: Path) -> int:
    """Bytes on the disk of all files below `folder`, hard links counted once. Links are not followed."""
    blocks: dict[tuple[int, int], int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                info = (Path(place) / name).lstat()
            except FileNotFoundError:  # removed meanwhile
                continue
            blocks[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(blocks.values())
