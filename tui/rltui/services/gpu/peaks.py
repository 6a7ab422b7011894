"""The most memory that each component held on each device, kept in the folder of its attempt."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rltui.core.gpu.report import GpuShare
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder
from rltui.services.own_files import read_own, write_atomically

logger = logging.getLogger(__name__)

_FILE = "gpu.json"
_NOTABLE_GROWTH = 1.01
"""A peak is written to disk when it has grown by this factor since."""


def write_peaks(folder: Path, peak_bytes: Mapping[str, int]) -> None:
    """Store the peaks of an attempt, by device key.

    Raises:
        RltuiError: if they cannot be written.
    """
    write_atomically(folder / _FILE, json.dumps({"peak_bytes": dict(peak_bytes)}).encode())


def read_peaks(folder: Path) -> dict[str, int]:
    """Device key → peak bytes of an attempt; empty if none are stored or they cannot be parsed."""
    try:
        values = json.loads(read_own(folder / _FILE))["peak_bytes"]
        return {str(device): int(size) for device, size in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def newest_peaks(control: ControlFolder, component: str) -> tuple[int, dict[str, int]] | None:
    """Number and peaks of the newest attempt that has any, `None` if none has."""
    for attempt in reversed(control.attempts(component)):
        if peaks := read_peaks(control.attempt_dir(component, attempt)):
            return attempt, peaks
    return None


@dataclass(slots=True)
class _Attempt:
    folder: Path
    peaks: dict[str, int] = field(default_factory=dict)
    """Device key → bytes."""
    saved: dict[str, int] = field(default_factory=dict)
    """The peaks as they are on disk."""


class AttemptPeaks:
    """Peaks of the newest attempt of each component, with those that an earlier supervisor saw."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}

    def follow(self, component: str, folder: Path) -> None:
        """Count what `component` holds as that of the attempt with this folder."""
        attempt = self._attempts.get(component)
        if attempt is None or attempt.folder != folder:
            saved = read_peaks(folder)
            self._attempts[component] = _Attempt(folder, dict(saved), saved)

    def with_peaks(self, device: str, shares: Iterable[GpuShare]) -> tuple[GpuShare, ...]:
        """Record who holds a device now, by its key; returns the shares with their peaks."""
        result = []
        for share in shares:
            attempt = self._attempts.get(share.component or "")
            if share.owner == "component" and attempt is not None:
                attempt.peaks[device] = max(attempt.peaks.get(device, 0), share.used_bytes)
                share = share.replace(peak_bytes=attempt.peaks[device])
            result.append(share)
        return tuple(result)

    def save(self) -> None:
        """Write those that have grown notably."""
        for attempt in self._attempts.values():
            peaks, saved = attempt.peaks, attempt.saved
            if any(size > _NOTABLE_GROWTH * saved.get(key, 0) for key, size in peaks.items()):
                try:
                    write_peaks(attempt.folder, peaks)
                except RltuiError as error:  # a full disk: the next growth tries again
                    logger.warning("%s", error)
                attempt.saved = dict(peaks)
