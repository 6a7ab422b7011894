"""Folds log lines without news: repeated ones, states of a progress bar, messages of every step, tracebacks
of more ranks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from rltui.core.logs.lines import Level
from rltui.core.logs.numbers import recurrence, request_of, without_numbers
from rltui.core.logs.prefix import LogPrefix, parse_prefix

_LONGEST_RUN = 512
"""One in so many repeated lines stays visible, so that the search for the end of a run is bounded."""
_LONGEST_BLOCK = 100
"""Lines of a traceback that are compared with another rank's …"""
_LONGEST_REGION = 1000
"""… and of all ranks, which may write at once."""
_NEARBY = 12
"""A state of a progress bar is hidden if there is a newer one within this many lines below."""
_SEARCHED_ABOVE = 128
"""Number of lines above that are searched for older ones."""
_TRACEBACK = "Traceback (most recent call last)"
_CACHE_SIZE = 4096
_BAR = "\0"
_PROGRESS = re.compile(r"\d{1,3}%\||\d+/\d+ \[[\d:]+<|\d{1,3}% Completed|\d+/\d+ \(\d+(?:\.\d+)?%\)")
_MOVING = re.compile(r"[\d.,:?%█▏▎▍▌▋▊▉#]+| +")
_LONGEST_BAR = 400
_TALK = (Level.TRACE, Level.DEBUG, Level.INFO)


class _LineInfo(NamedTuple):
    head: LogPrefix
    identity: str
    """Equal for lines with the same text and level in the same log, whatever their time and rank."""
    recurrence_key: str
    """Equal for lines of which the newest nearby suffices; for progress bars it begins with `_BAR`."""
    may_be_of_traceback: bool
    is_traceback: bool


@dataclass(slots=True)
class _Block:
    """A traceback as one rank printed it, as far as it is read."""

    rank: str
    lines: list[int]
    """Line numbers, ascending; lines of other ranks may stand between them."""
    texts: list[str]
    """Texts of the lines, without anything that differs between ranks."""
    next_line: int
    """Number after the last line that was read."""

    def equals(self, other: _Block) -> bool:
        """Both have the same text, of more than one line."""
        return len(self.lines) > 1 and self.texts == other.texts


_ERROR = Level.ERROR.severity


class LogFolds:
    """Decides for each line which other lines it stands for.

    `text` returns a line as displayed, `label` the name of its log among several.
    """

    def __init__(self, text: Callable[[int], str], label: Callable[[int], str]) -> None:
        self._text, self._label = text, label
        self._lines: dict[int, _LineInfo] = {}
        self._old_lines: dict[int, _LineInfo] = {}
        """Former content of lines whose text may have changed."""
        self._blocks: dict[int, _Block | None] = {}
        self._above: dict[int, int | None] = {}
        """First line of a traceback → that of the nearest one above."""
        self._hidden: dict[int, bool] = {}
        self._repeated: dict[int, bool] = {}
        """First line of a traceback → whether it is hidden."""
        self.start = self.stop = 0

    def clear(self) -> None:
        self._lines.clear()
        self._old_lines.clear()
        self._forget_folds()

    def forget(self, number: int) -> None:
        """Read a line again, whose text may have changed."""
        if (line := self._lines.pop(number, None)) is not None:
            self._old_lines[number] = line

    def _forget_folds(self) -> None:
        for cache in (self._blocks, self._above, self._hidden, self._repeated):
            cache.clear()

    def set_range(self, start: int, stop: int) -> Collection[int]:
        """Set the existing lines. Returns the former ones that may stand for more or fewer lines now.

        Called several times a second: results that new lines cannot change are kept.
        """
        old_stop, has_grown = self.stop, start == self.start < self.stop <= stop
        self.start, self.stop = start, stop
        old_lines, self._old_lines = self._old_lines, {}
        if not has_grown:
            self._forget_folds()
            return ()
        if stop - old_stop > _LONGEST_REGION:  # what was in view is hardly any more
            self._forget_folds()
            return range(max(start, old_stop - _LONGEST_REGION), old_stop)
        is_other = any(self._at(number) != line for number, line in old_lines.items())
        if stop == old_stop and not is_other:
            return ()
        nearby = range(max(start, old_stop - _NEARBY), old_stop)
        lowest = old_stop - _LONGEST_REGION if self._at(old_stop - 1).head.rank else stop
        traceback_lines = [  # more of them, or of their lines, may be new
            number for number, block in self._blocks.items() if block is not None and block.lines[0] >= lowest
        ]
        self._repeated.clear()
        for number in nearby:
            self._hidden.pop(number, None)
        if is_other or len(self._hidden) + len(self._blocks) > _CACHE_SIZE:
            self._forget_folds()
        return {*nearby, *traceback_lines}

    def head(self, number: int) -> LogPrefix:
        return self._at(number).head

    def is_hidden(self, number: int) -> bool:
        """A line nearby has the same text, or another rank printed it before."""
        if (is_hidden := self._hidden.get(number)) is not None:
            return is_hidden
        if (block := self._block(number)) is None:
            is_repeated = number % _LONGEST_RUN != _LONGEST_RUN - 1 and self._is_same(number, number + 1)
            is_hidden = is_repeated or (bool(self._at(number).recurrence_key) and self._has_newer(number))
            self._hidden[number] = is_hidden
        elif (is_hidden := self._repeated.get(block.lines[0])) is None:
            # whether another rank told it as often before
            counts_by_rank: Counter[str] = Counter()
            first = block.lines[0]
            above = self._traceback_above(first)
            while above is not None and above >= first - _LONGEST_REGION:
                if (other := self._block(above)) is not None and other.equals(block):
                    counts_by_rank[other.rank] += 1
                above = self._traceback_above(above)
            own_count = counts_by_rank.pop(block.rank, 0)
            is_hidden = self._repeated[block.lines[0]] = any(
                count > own_count for count in counts_by_rank.values()
            )
        return is_hidden

    def count_text(self, number: int) -> str:
        """The number of lines it stands for, hidden ones above it and itself; for a traceback the number of
        ranks; empty for one that stands for itself alone.
        """
        if (block := self._block(number)) is not None:
            ranks = self._ranks(block) if number == block.lines[0] else 1
            return f"×{ranks} ranks" if ranks > 1 else ""
        count, is_all = self._represented(number)
        return f"×{count}{'' if is_all else '+'}" if count > 1 else ""

    def _at(self, number: int) -> _LineInfo:
        if (line := self._lines.get(number)) is None:
            if len(self._lines) >= _CACHE_SIZE:
                self._lines.clear()
            line = self._lines[number] = _read(self._text(number), self._label(number))
        return line

    # repeated lines

    def _is_same(self, one: int, other: int) -> bool:
        if not (self.start <= one and other < self.stop):
            return False
        return bool(identity := self._at(one).identity) and identity == self._at(other).identity

    def _has_newer(self, number: int) -> bool:
        """Informational lines right after each other are a list, unless they are the same."""
        recurrence_key = self._at(number).recurrence_key
        is_apart = recurrence_key.startswith(_BAR)
        for other in range(number + 1, min(self.stop, number + _NEARBY)):
            if self._at(other).recurrence_key != recurrence_key:
                is_apart = True
            elif is_apart:
                return True
        return False

    def _represented(self, number: int) -> tuple[int, bool]:
        """Number of lines that it stands for, itself and hidden ones above, and whether these are all."""
        recurrence_key = self._at(number).recurrence_key
        count, newest = 1, number
        lowest = max(self.start, number - _SEARCHED_ABOVE)
        for other in range(number - 1, lowest - 1, -1):
            if not recurrence_key:
                if not self._is_same(other, number) or not self.is_hidden(other):
                    return count, True
            elif newest - other >= _NEARBY:
                return count, True
            elif self._at(other).recurrence_key != recurrence_key or not self.is_hidden(other):
                continue
            count, newest = count + 1, other
        return count, lowest == self.start or number - newest < _SEARCHED_ABOVE - _NEARBY

    # tracebacks

    def _block(self, number: int) -> _Block | None:
        line = self._at(number)
        if not line.may_be_of_traceback:
            return None
        if number not in self._blocks:
            self._blocks[number] = self._traceback_at(number, line.head.rank)
        if (block := self._blocks[number]) is not None:
            self._read_on(block)
        return block

    def _traceback_at(self, number: int, rank: str) -> _Block | None:
        """The traceback of that rank which includes the line."""
        block: _Block | None = None
        for other in range(number, max(self.start, number - _LONGEST_REGION) - 1, -1):
            line = self._at(other)
            if not line.head.rank or (line.head.rank == rank and not line.may_be_of_traceback):
                break
            if other in self._blocks and line.head.rank == rank:
                block = self._blocks[other]
                break
            if line.is_traceback and line.head.rank == rank:
                block = self._blocks[other] = _Block(rank, [], [], other)
                break
        if block is not None:
            self._read_on(block)
        return block if block is not None and number in block.lines else None

    def _read_on(self, block: _Block) -> None:
        stop = min(self.stop, (block.lines or [block.next_line])[0] + _LONGEST_REGION)
        while block.next_line < stop and len(block.lines) <= _LONGEST_BLOCK:
            number, line = block.next_line, self._at(block.next_line)
            if not line.head.rank:
                return
            if line.head.rank == block.rank:
                if block.lines and (line.is_traceback or not line.may_be_of_traceback):
                    return
                block.lines.append(number)
                block.texts.append(without_numbers(line.identity))
                self._blocks[number] = block
            block.next_line += 1

    def _traceback_above(self, number: int) -> int | None:
        """First line of the nearest one, if all lines between have a rank."""
        if number not in self._above:
            self._above[number] = None
            for other in range(number - 1, max(self.start, number - _LONGEST_REGION) - 1, -1):
                line = self._at(other)
                if not line.head.rank:
                    break
                if line.is_traceback:
                    self._above[number] = other
                    break
        return self._above[number]

    def _ranks(self, block: _Block) -> int:
        """Number of ranks that printed it, until one prints it again."""
        first, ranks = block.lines[0], {block.rank}
        for number in range(first + 1, min(self.stop, first + _LONGEST_REGION)):
            line = self._at(number)
            if not line.head.rank:
                break
            if line.is_traceback and (other := self._block(number)) is not None and other.equals(block):
                if other.rank == block.rank:
                    break
                ranks.add(other.rank)
        return len(ranks)


def _read(text: str, label: str) -> _LineInfo:
    prefix = parse_prefix(text)
    message = text[prefix.length :]
    recurrence_key = ""
    bar = message[:_LONGEST_BAR]
    if ("%" in bar or "<" in bar) and _PROGRESS.search(bar):  # a search for signs is a tenth of the other
        recurrence_key = _BAR + _MOVING.sub("", bar).partition("|")[0]
    elif prefix.level in _TALK:
        recurrence_key = recurrence(message)
    level, source = prefix.level, f"{label}{prefix.level}"
    return _LineInfo(
        prefix,
        identity=(request_of(message) or message) + source if message.strip() else "",
        recurrence_key=recurrence_key + source if recurrence_key else "",
        may_be_of_traceback=bool(prefix.rank) and (level is None or level.severity >= _ERROR),
        is_traceback=_TRACEBACK in text,
    )
