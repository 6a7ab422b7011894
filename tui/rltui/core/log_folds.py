"""Which lines of a log say nothing new: repeated ones, states of a progress bar, what is said at every step,
tracebacks of more ranks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rltui.core.lines import Level
from rltui.core.log_figures import recurrence, without_figures
from rltui.core.log_head import LogHead, log_head

_LONGEST_RUN = 128
"""After so many lines of a run one is shown, so that looking for its end has an end."""
_LONGEST_BLOCK = 100
"""Lines of a traceback that are compared with another rank's …"""
_LONGEST_REGION = 1000
"""… and of all ranks, which may write at once."""
_NEARBY = 12
"""A state of a progress bar is shown no longer when so many lines below there is a newer one."""
_COUNTED = 128
"""Lines above that are looked through for older ones."""
_TRACEBACK = "Traceback (most recent call last)"
_KEPT = 4096
_BAR = "\0"
_PROGRESS = re.compile(r"\d{1,3}%\||\d+/\d+ \[[\d:]+<|\d{1,3}% Completed|\d+/\d+ \(\d+(?:\.\d+)?%\)")
_MOVING = re.compile(r"[\d.,:?%█▏▎▍▌▋▊▉#]+| +")
_LONGEST_BAR = 400
_TALK = (Level.TRACE, Level.DEBUG, Level.INFO)


class _Known(NamedTuple):
    head: LogHead
    same: str
    """The message and the log that it is from; equal for lines that say the same, whenever and whoever."""
    again: str
    """Equal for lines of which the newest nearby is enough; of bars it begins with `_BAR`."""
    is_traceback: bool

    @property
    def may_be_of_traceback(self) -> bool:
        """By its head."""
        return bool(self.head.rank) and (self.head.level is None or self.head.level.severity >= _ERROR)


class _Block(NamedTuple):
    """A traceback as one rank told it."""

    lines: tuple[int, ...]
    """Those of others may stand between them."""
    said: str
    """Without what differs between ranks."""


_ERROR = Level.ERROR.severity


class LogFolds:
    """Looks at the lines around one to say what it stands for.

    `text` gives a line as it is shown, `label` which of several logs it is from.
    """

    def __init__(self, text: Callable[[int], str], label: Callable[[int], str]) -> None:
        self._text, self._label = text, label
        self._known: dict[int, _Known] = {}
        self._blocks: dict[int, _Block | None] = {}
        self._hidden: dict[int, bool] = {}
        self.start = self.stop = 0
        """The lines there are."""

    def clear(self) -> None:
        """Forget all lines."""
        self._known.clear()
        self._forget_folds()

    def forget(self, number: int) -> None:
        """Forget a line that may read differently now."""
        self._known.pop(number, None)
        self._forget_folds()

    def _forget_folds(self) -> None:
        self._blocks.clear()
        self._hidden.clear()

    def set_range(self, start: int, stop: int) -> range:
        """Which lines there are. Returns those of before that may stand for more or less now."""
        if (start, stop) == (self.start, self.stop):
            return range(0)
        before = self.stop
        self._forget_folds()
        self.start, self.stop = start, stop
        if not start < before <= stop:
            return range(0)
        newest = self._known.get(before - 1)
        is_open = newest is not None and newest.may_be_of_traceback
        return range(max(start, before - (_LONGEST_REGION if is_open else _NEARBY)), before)

    def head(self, number: int) -> LogHead:
        """What stands before its message."""
        return self._at(number).head

    def is_hidden(self, number: int) -> bool:
        """A line near it says the same, or another rank said it before."""
        if (block := self._block(number)) is not None:
            number = block.lines[0]
        if (known := self._hidden.get(number)) is None:
            known = self._hidden[number] = self._repeats_a_rank(block) if block else self._is_old(number)
        return known

    def _is_old(self, number: int) -> bool:
        if number % _LONGEST_RUN != _LONGEST_RUN - 1 and self._is_same(number, number + 1):
            return True
        return bool(self._at(number).again) and self._has_newer(number)

    def told(self, number: int) -> str:
        """How many lines it stands for, hidden ones above it and itself; of a traceback how many ranks told
        it; empty for one that stands for itself alone.
        """
        if (block := self._block(number)) is not None:
            ranks = self._ranks(block) if number == block.lines[0] else 1
            return f"×{ranks} ranks" if ranks > 1 else ""
        count, is_all = self._counted(number)
        return f"×{count}{'' if is_all else '+'}" if count > 1 else ""

    def _at(self, number: int) -> _Known:
        if (known := self._known.get(number)) is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[number] = _read(self._text(number), self._label(number))
        return known

    # repeated lines

    def _is_same(self, one: int, other: int) -> bool:
        if not (self.start <= one and other < self.stop):
            return False
        first, second = self._at(one), self._at(other)
        return bool(first.same) and first.same == second.same and first.head.level == second.head.level

    def _is_again(self, one: _Known, other: _Known) -> bool:
        return one.again == other.again and one.head.level == other.head.level

    def _has_newer(self, number: int) -> bool:
        """Lines of talk right behind each other are a list, unless they are the same."""
        known = self._at(number)
        is_apart = known.again.startswith(_BAR)
        for other in range(number + 1, min(self.stop, number + _NEARBY)):
            if not self._is_again(known, self._at(other)):
                is_apart = True
            elif is_apart:
                return True
        return False

    def _counted(self, number: int) -> tuple[int, bool]:
        """Itself and the hidden ones above that it stands for, and whether these are all."""
        known = self._at(number)
        count, newest = 1, number
        lowest = max(self.start, number - _COUNTED)
        for other in range(number - 1, lowest - 1, -1):
            if not known.again:
                if not self._is_same(other, number) or not self.is_hidden(other):
                    return count, True
            elif newest - other >= _NEARBY:
                return count, True
            elif not self._is_again(known, self._at(other)) or not self.is_hidden(other):
                continue
            count, newest = count + 1, other
        return count, lowest == self.start or number - newest < _COUNTED - _NEARBY

    # tracebacks

    def _block(self, number: int) -> _Block | None:
        """The traceback that a line is of."""
        if not self._at(number).may_be_of_traceback:
            return None
        if number not in self._blocks:
            lines = self._block_lines(number)
            said = "\n".join(without_figures(self._at(line).same) for line in lines)
            self._blocks |= dict.fromkeys(lines or (number,), _Block(lines, said) if lines else None)
        return self._blocks[number]

    def _block_lines(self, number: int) -> tuple[int, ...]:
        rank = self._at(number).head.rank
        above: list[int] = []
        for other in range(number, max(self.start, number - _LONGEST_REGION) - 1, -1):
            known = self._at(other)
            if not known.head.rank or len(above) > _LONGEST_BLOCK:
                return ()
            if known.head.rank == rank:
                if not known.may_be_of_traceback:
                    return ()
                above.append(other)
                if known.is_traceback:
                    break
        else:
            return ()
        return (*reversed(above), *self._below(number, rank))

    def _below(self, number: int, rank: str) -> list[int]:
        below: list[int] = []
        for other in range(number + 1, min(self.stop, number + _LONGEST_REGION)):
            known = self._at(other)
            if not known.head.rank or len(below) > _LONGEST_BLOCK:
                break
            if known.head.rank == rank:
                if known.is_traceback or not known.may_be_of_traceback:
                    break
                below.append(other)
        return below

    def _repeats_a_rank(self, block: _Block) -> bool:
        """Another rank told it as often before."""
        first = block.lines[0]
        above = range(first - 1, max(self.start, first - _LONGEST_REGION) - 1, -1)
        told = Counter(self._tellers(above, block))
        own = told.pop(self._at(first).head.rank, 0)
        return any(count > own for count in told.values())

    def _ranks(self, block: _Block) -> int:
        """How many told it, until one tells it again."""
        first = block.lines[0]
        ranks = {own := self._at(first).head.rank}
        for rank in self._tellers(range(first + 1, min(self.stop, first + _LONGEST_REGION)), block):
            if rank == own:
                break
            ranks.add(rank)
        return len(ranks)

    def _tellers(self, numbers: range, block: _Block) -> Iterator[str]:
        """The ranks whose tracebacks are like it and begin there, up to a line of none."""
        for number in numbers:
            known = self._at(number)
            if not known.head.rank:
                return
            if known.is_traceback and len(block.lines) > 1:
                other = self._block(number)
                if other is not None and other.said == block.said:
                    yield known.head.rank


def _read(text: str, label: str) -> _Known:
    head = log_head(text)
    message = text[head.length :]
    again = ""
    if _PROGRESS.search(message[:_LONGEST_BAR]):
        again = _BAR + _MOVING.sub("", message[:_LONGEST_BAR]).partition("|")[0]
    elif head.level in _TALK:
        again = recurrence(message)
    said = message + label if message.strip() else ""
    return _Known(head, said, again + label if again else "", _TRACEBACK in text)
