"""Whether a job's time limit takes more from a run than it must. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple


class Written(NamedTuple):
    """A checkpoint that was seen to become complete."""

    step: int
    at: float
    """Seconds since 1970."""


def lost_at_limit(written: Sequence[Written], *, max_steps: int | None, ends_at: float) -> str | None:
    """What a limit at `ends_at` would cost, in words; `None` where the next checkpoint comes before it.

    `written`: oldest first. The next one is expected as the last two were apart.
    """
    if len(written) < 2:
        return None
    before, last = written[-2:]
    apart = last.step - before.step
    if apart <= 0:
        return None
    following = last.step + apart if max_steps is None else min(last.step + apart, max_steps)
    expected = last.at + (last.at - before.at) * (following - last.step) / apart
    if following <= last.step or expected <= ends_at:
        return None
    return (
        f"its time limit is over at {_clock(ends_at)}, and checkpoint {following} is expected at "
        f"{_clock(expected)}: what is trained after checkpoint {last.step} will be lost"
    )


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
