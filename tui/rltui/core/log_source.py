"""What a view of a log needs from whatever supplies the lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Change(StrEnum):
    """What a poll found."""

    NONE = "none"
    GREW = "grew"
    """More text: line `stop - 1` of before may read differently, lines before it are unchanged."""
    RESET = "reset"
    """Other text: all line numbers start anew."""


class LogSource(Protocol):
    """Numbered lines of a log that grows.

    Numbers are stable until a reset, need not start at 0 and may be negative: line 0 lies near where reading
    began, and older lines get smaller numbers as they are indexed.
    """

    @property
    def start(self) -> int:
        """Number of the oldest line known; falls when older ones are indexed."""

    @property
    def stop(self) -> int:
        """One past the newest line, an unfinished one included."""

    @property
    def problem(self) -> str | None:
        """Why nothing can be read, in a few words; `None` while all is well."""

    def line(self, number: int) -> str:
        """Return a line, decoded, with colours and other escape sequences still in it."""

    def poll(self, *, may_skip: bool) -> Change:
        """Look for news, in a few milliseconds at most. `may_skip` allows a reset that jumps to the end."""

    def load_older(self) -> bool:
        """Index some more lines before `start`, in a few milliseconds. `False` when there are none."""

    def close(self) -> None:
        """Give the file back. Whoever opened the source calls this when it is no longer shown."""
