"""Which lines of a log say nothing new: repeated ones, states of a progress bar, tracebacks of more ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rltui.core.log_head import BAR, LogHead, log_head, sameness

_LONGEST_RUN = 128
"""After so many lines of a run one is shown, so that looking for its end has an end."""
_LONGEST_BLOCK = 100
"""Lines of a traceback that are compared with another rank's."""
NEARBY = 12
"""A state of a progress bar is shown no longer when so many lines below there is a newer one."""
_COUNTED = 256
"""Lines above that are looked through for older ones."""
_TRACEBACK = "Traceback (most recent call last)"
_KEPT = 4096


class _Known(NamedTuple):
    head: LogHead
    same: str
    is_traceback: bool


class LogFolds:
    """Looks at the lines around one to say what it stands for.

    `text` gives a line as it is shown, `label` which of several logs it is from.
    """

    def __init__(self, text: Callable[[int], str], label: Callable[[int], str]) -> None:
        self._text, self._label = text, label
        self._known: dict[int, _Known] = {}
        self.start = self.stop = 0
        """The lines there are."""

    def clear(self) -> None:
        """Forget all lines."""
        self._known.clear()

    def forget(self, number: int) -> None:
        """Forget a line that may read differently now."""
        self._known.pop(number, None)

    def head(self, number: int) -> LogHead:
        """What stands before its message."""
        return self._at(number).head

    def is_hidden(self, number: int) -> bool:
        """The next line says the same, or the rank before said it."""
        if number % _LONGEST_RUN != _LONGEST_RUN - 1:
            below = range(number + 1, number + NEARBY if self._at(number).same[:1] == BAR else number + 2)
            if any(self._is_same(number, other) for other in below):
                return True
        return bool(self._at(number).head.rank) and self._repeats_a_rank(number)

    def count(self, number: int) -> int:
        """How many lines it stands for, hidden ones above it and itself; of a traceback: how many ranks."""
        if self._at(number).same[:1] == BAR:
            above = range(max(self.start, number - _COUNTED), number)
            return 1 + sum(self._is_same(other, number) for other in above)
        first = number
        while first > self.start and first % _LONGEST_RUN and self._is_same(first - 1, number):
            first -= 1
        if first == number and self._at(number).head.rank:
            return self._ranks(number)
        return number - first + 1

    def _at(self, number: int) -> _Known:
        if (known := self._known.get(number)) is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            text = self._text(number)
            head = log_head(text)
            same = sameness(text, head)
            if same.strip():
                same += self._label(number)
            known = self._known[number] = _Known(head, same, _TRACEBACK in text)
        return known

    def _is_same(self, one: int, other: int) -> bool:
        if not (self.start <= one and other < self.stop):
            return False
        first, second = self._at(one), self._at(other)
        return (
            bool(first.same.strip()) and first.same == second.same and first.head.level == second.head.level
        )

    def _block(self, number: int) -> range | None:
        """The lines of one rank around a line, if they are a traceback."""
        rank = self._at(number).head.rank
        first = last = number
        while (
            first > self.start and number - first < _LONGEST_BLOCK and self._at(first - 1).head.rank == rank
        ):
            first -= 1
            if self._at(first).is_traceback:
                break
        while last + 1 < self.stop and last - first < _LONGEST_BLOCK:
            after = self._at(last + 1)
            if after.head.rank != rank or after.is_traceback:
                break
            last += 1
        block = range(first, last + 1)
        return block if self._at(first).is_traceback else None

    def _repeats_a_rank(self, number: int) -> bool:
        block = self._block(number)
        if block is None or block.start <= self.start:
            return False
        before = self._block(block.start - 1)
        return before is not None and before.stop == block.start and self._are_alike(before, block)

    def _ranks(self, number: int) -> int:
        """Of the traceback that begins here: how many ranks told it one after the other."""
        block = self._block(number) if self._at(number).is_traceback else None
        ranks = 1
        while block is not None and block.stop < self.stop and ranks < _LONGEST_RUN:
            after = self._block(block.stop) if self._at(block.stop).head.rank else None
            if after is None or after.start != block.stop or not self._are_alike(block, after):
                break
            block, ranks = after, ranks + 1
        return ranks

    def _are_alike(self, one: range, other: range) -> bool:
        if not 1 < len(one) == len(other) or self._at(one.start).head.rank == self._at(other.start).head.rank:
            return False
        return all(
            _without_figures(self._at(first).same) == _without_figures(self._at(second).same)
            for first, second in zip(one, other, strict=True)
        )


def _without_figures(text: str) -> str:
    """Devices, addresses and pids differ between ranks."""
    return "".join("0" if letter in "0123456789abcdef" else letter for letter in text)
