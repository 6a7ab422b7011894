"""`gpu.json` in an attempt's folder: the most device memory it held, for forecasts of the next attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rltui.services.experiment_files import ControlFolder, write_atomically
from rltui.services.own_files import read_own

_FILE = "gpu.json"


def write_peaks(folder: Path, peak_bytes: Mapping[str, int]) -> None:
    """Keep the peaks of an attempt, by device key.

    Raises:
        RltuiError: if they cannot be written.
    """
    write_atomically(folder / _FILE, json.dumps({"peak_bytes": dict(peak_bytes)}).encode())


def read_peaks(folder: Path) -> dict[str, int]:
    """What was kept of an attempt; empty where there is nothing, or nothing that can be understood."""
    try:
        values = json.loads(read_own(folder / _FILE))["peak_bytes"]
        return {str(device): int(size) for device, size in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def newest_peaks(control: ControlFolder, component: str) -> tuple[int, dict[str, int]] | None:
    """Number and peaks of the newest attempt that has any, `None` where none has."""
    for attempt in reversed(control.attempts(component)):
        if peaks := read_peaks(control.attempt_dir(component, attempt)):
            return attempt, peaks
    return None
