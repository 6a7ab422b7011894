"""Whether the checkpoints to come fit on the disk. Pure; times are seconds, sizes bytes."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rltui.core.text import GIB, duration, gib

LEAST_FREE_BYTES = GIB
"""With less, logs and metrics are at risk as well."""
WISHED_CHECKPOINTS = 2
"""With room for fewer, there is little time left to react."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The complete checkpoints of a run, as they lie there."""

    steps: tuple[int, ...] = ()
    """Ascending."""
    newest_bytes: int | None = None
    pause_s: float | None = None
    """Median time between two of them."""
    newest_age_s: float | None = None
    pruned: bool = False
    """Old ones are removed as new ones come, so that the number stays."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is to be expected."""

    severity: Literal["ok", "warning", "error"]
    title: str = ""
    text: str = ""


def is_pruned(before: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether old checkpoints go when new ones come, judged by two looks, `before` being the earlier one.

    The first steps of the run being gone says so as well: what lies there does not begin with the interval.
    """
    if not steps:
        return False
    went = any(step not in steps and step < steps[-1] for step in before)
    interval = _interval(steps)
    return went or (len(steps) > 1 and interval is not None and steps[0] > interval)


def still_to_come(steps: Sequence[int], max_steps: int | None) -> int | None:
    """How many checkpoints the run has yet to write, a last one at its end included; `None`: nobody knows."""
    interval = _interval(steps)
    if interval is None or max_steps is None:
        return None
    return max(0, math.ceil((max_steps - steps[-1]) / interval))


def forecast(folder: str, free_bytes: int, checkpoints: Checkpoints, max_steps: int | None) -> Forecast:
    """An error where the next checkpoint does not fit; a warning where fewer than two do, or little is free.

    Where old checkpoints are pruned, room for one is enough: it is written before the oldest goes.
    """
    size = checkpoints.newest_bytes
    left = still_to_come(checkpoints.steps, max_steps)
    fitting = free_bytes // size if size else None
    wished = 1 if checkpoints.pruned else WISHED_CHECKPOINTS
    needed = wished if left is None else min(wished, left)
    state = f"{folder}: {size_text(free_bytes)} free"
    if size is not None:
        state += f", a checkpoint takes {size_text(size)}"
    if left is not None:
        state += f", {left} more to come" if left else ", no more to come"
    if size is not None and fitting == 0 and needed:
        return Forecast(
            "error", "the next checkpoint does not fit on the disk", f"{state}. {_advice(folder)}"
        )
    if fitting is not None and fitting < needed:
        state += _when(fitting, checkpoints)
    elif free_bytes >= LEAST_FREE_BYTES:
        return Forecast("ok")
    return Forecast("warning", "the disk is nearly full", f"{state}. {_advice(folder)}")


def _interval(steps: Sequence[int]) -> float | None:
    """Steps from one checkpoint to the next."""
    if len(steps) > 1:
        pairs = itertools.pairwise(steps)
        return statistics.median(after - before for before, after in pairs) or None
    return steps[0] or None if steps else None


def _when(fitting: int, checkpoints: Checkpoints) -> str:
    if checkpoints.pause_s is None or checkpoints.newest_age_s is None:
        return ""
    left_s = max(0.0, (fitting + 1) * checkpoints.pause_s - checkpoints.newest_age_s)
    return f": full in about {duration(left_s)}"


def _advice(folder: str) -> str:
    return (
        f"Make room there (see what is big: du -sh {folder}/* | sort -h), or keep fewer checkpoints "
        "or save them less often"
    )


def size_text(size_bytes: int) -> str:
    """`3.2 GiB`, or MiB below one."""
    return f"{gib(size_bytes)} GiB" if size_bytes >= GIB else f"{size_bytes / (1 << 20):.0f} MiB"
