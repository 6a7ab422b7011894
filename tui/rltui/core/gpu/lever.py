"""A knob that decides how much device memory a component takes, as the table of remedies lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["trainer", "sft", "inference"]

Move = Literal["halve", "turn_on", "fit_length", "lower_share", "raise_share"]
"""halve: a whole number. turn_on: a switch, or a number that is not set. fit_length: down to the length that
vLLM names as possible, else halve. lower_share, raise_share: `gpu_memory_utilization`."""


@dataclass(frozen=True, slots=True)
class Lever:
    """What to do with which knob. It counts only where a config has such a knob.

    Knobs are named by the end of their dotted path: `data.seq_len` is `sft.data.seq_len` as well.
    """

    roles: tuple[Role, ...]
    """What the component does whose memory it saves."""
    move: Move
    knobs: tuple[str, ...]
    """The first of these that there is."""
    reason: str
    """Why it saves memory and what it costs, for people."""
    kinds: frozenset[str]
    """`OutOfMemory.kind`s against which it helps."""
    on: int = 1
    """For `turn_on`: what a whole number is set to."""
    divides: str = ""
    """Name of a knob beside it that must stay a multiple of it."""
    shared: tuple[str, ...] = ()
    """Whole paths of knobs that set it where it is not set itself."""
    followers: tuple[str, ...] = ()
    """Knobs that must not become larger than it; they go down with it."""
    unless: tuple[str, ...] = ()
    """Switches that exclude it where they are on."""
