"""Warns if a job's time limit costs a run more than it must. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rltui.base.times import clock_text


class CheckpointTime(NamedTuple):
    """A checkpoint that was seen to become complete."""

    step: int
    at: float
    """Time in seconds since 1970."""


def lost_at_limit(
    checkpoints: Sequence[CheckpointTime], *, max_steps: int | None, ends_at: float
) -> str | None:
    """The cost of a limit at `ends_at`, in words; `None` if the next checkpoint comes before it.

    `checkpoints`: oldest first. The next one is expected after the interval of the last two.
    """
    if len(checkpoints) < 2:
        return None
    previous, last = checkpoints[-2:]
    apart = last.step - previous.step
    if apart <= 0:
        return None
    following = last.step + apart if max_steps is None else min(last.step + apart, max_steps)
    expected = last.at + (last.at - previous.at) * (following - last.step) / apart
    if following <= last.step or expected <= ends_at:
        return None
    return (
        f"its time limit ends at {clock_text(ends_at)}, before checkpoint {following} (expected at"
        f" {clock_text(expected)}): all steps after checkpoint {last.step} will be lost"
    )
