"""Where log lines come from: a log that grows, several as one, and a search through one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class LogEntry:
    component: str
    """Id of a component, or of a log file which the layout names."""
    attempt: int | None
    """Attempts are counted from 1; `None` for a file without attempts."""
    path: str
    started_at: float
    """Epoch seconds; 0 if unknown."""

    @property
    def name(self) -> str:
        """Component and attempt, as in `trainer#2`."""
        return self.component if self.attempt is None else f"{self.component}#{self.attempt}"


class LogChange(StrEnum):
    NONE = "none"
    GREW = "grew"
    """More text: the former last line may read differently, lines before it are unchanged."""
    FILLED = "filled"
    """Lines that were being fetched have arrived, and may be any; new ones too."""
    RESET = "reset"
    """Other text: all line numbers start again."""


class LogSource(Protocol):
    """Numbered lines of a log that grows.

    Numbers are stable until a reset, need not start at 0 and may be negative: line 0 lies near where reading
    began, and older lines get smaller numbers as they are indexed.
    """

    @property
    def start(self) -> int:
        """The number of the oldest line known, which falls when older ones are indexed."""

    @property
    def stop(self) -> int:
        """The number after that of the newest line, even if that is unfinished."""

    @property
    def problem(self) -> str | None:
        """Reason why nothing can be read, in a few words; `None` while all is well."""

    @property
    def is_waiting(self) -> bool:
        """A requested position is being fetched: ask again. Always false for a log on this machine."""

    def line(self, number: int) -> str:
        """A line, decoded, with colours and other escape sequences still in it.

        Empty while it is being fetched: a poll returns `FILLED` once it has arrived.
        """

    def offset(self, number: int) -> int:
        """Start of a line in its file, in bytes; for a log that is no file, the number.

        Raises:
            IndexError: the line is not known.
        """

    def number_at(self, offset: int) -> int | None:
        """The line that the byte `offset` is in; `None` while that part of the log is not indexed."""

    def line_at(self, offset: int) -> str:
        """The line that begins at the byte `offset`, as `line` gives it, indexed or not."""

    def label(self, number: int) -> str:
        """Name of the log that a line is from; empty if there is only one."""

    def poll(self, *, may_skip: bool) -> LogChange:
        """Check for changes, in a few milliseconds at most. `may_skip` allows a reset that jumps to
        the end.
        """

    def load_older(self) -> bool:
        """Index some more lines before `start`, in a few milliseconds. `False` if there are none."""

    def close(self) -> None:
        """Release the file. Whoever opened the source calls this when it is no longer displayed."""


class MergedSource(LogSource, Protocol):
    """Several logs as one, by time."""

    def number_near(self, at: float) -> int | None:
        """The first line written at the time `at` or later; `None` if that is further back."""


class LogHit(NamedTuple):
    offset: int
    """Start of the line in its file, in bytes."""
    text: str
    continues: bool = False
    """It is part of the error that the line before it is part of, as of the same traceback."""


class LogScan(Protocol):
    """One search through one log. One thread goes through it, once; any other may `cancel` it."""

    @property
    def progress(self) -> float:
        """Progress as a fraction from 0 to 1."""

    @property
    def size(self) -> int:
        """Bytes of the log as the search began: later ones are not searched."""

    def batches(self) -> Iterator[list[LogHit]]:
        """The hits in the order of the log, some at a time.

        Raises:
            RltuiError: The file cannot be read.
        """

    def cancel(self) -> None:
        """End it soon; it then yields nothing more."""
