"""Which lines of a log say nothing new: repeated ones, states of a progress bar, what is said at every step,
tracebacks of more ranks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from rltui.core.lines import Level
from rltui.core.log_figures import asked_for, recurrence, without_figures
from rltui.core.log_prefix import LogPrefix, log_head

_LONGEST_RUN = 512
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
    head: LogPrefix
    same: str
    """Equal for lines that say the same at the same level in the same log, whenever and whoever."""
    again: str
    """Equal for lines of which the newest nearby is enough; of bars it begins with `_BAR`."""
    may_be_of_traceback: bool
    is_traceback: bool


@dataclass(slots=True)
class _Block:
    """A traceback as one rank told it, as far as it is read."""

    rank: str
    lines: list[int]
    """Those of others may stand between them."""
    said: list[str]
    """What each says, without what differs between ranks."""
    read_to: int
    """Up to but not including this line."""

    def is_as(self, other: _Block) -> bool:
        """More than its first line, and the same."""
        return len(self.lines) > 1 and self.said == other.said


_ERROR = Level.ERROR.severity


class LogFolds:
    """Looks at the lines around one to say what it stands for.

    `text` gives a line as it is shown, `label` which of several logs it is from.
    """

    def __init__(self, text: Callable[[int], str], label: Callable[[int], str]) -> None:
        self._text, self._label = text, label
        self._known: dict[int, _Known] = {}
        self._doubtful: dict[int, _Known] = {}
        """Lines as they were, which may read differently now."""
        self._blocks: dict[int, _Block | None] = {}
        self._above: dict[int, int | None] = {}
        """Of the first line of a traceback, that of the one above."""
        self._hidden: dict[int, bool] = {}
        self._repeated: dict[int, bool] = {}
        """Of tracebacks, by their first lines."""
        self.start = self.stop = 0

    def clear(self) -> None:
        self._known.clear()
        self._doubtful.clear()
        self._forget_folds()

    def forget(self, number: int) -> None:
        """Read a line again, which may say something else now."""
        if (known := self._known.pop(number, None)) is not None:
            self._doubtful[number] = known

    def _forget_folds(self) -> None:
        for known in (self._blocks, self._above, self._hidden, self._repeated):
            known.clear()

    def set_range(self, start: int, stop: int) -> Collection[int]:
        """Which lines there are. Returns those of before that may stand for more or less now.

        A log is looked at several times a second: what new lines cannot change is kept.
        """
        before, has_grown = self.stop, start == self.start < self.stop <= stop
        self.start, self.stop = start, stop
        doubtful, self._doubtful = self._doubtful, {}
        if not has_grown:
            self._forget_folds()
            return ()
        if stop - before > _LONGEST_REGION:  # what was in view is hardly any more
            self._forget_folds()
            return range(max(start, before - _LONGEST_REGION), before)
        is_other = any(self._at(number) != known for number, known in doubtful.items())
        if stop == before and not is_other:
            return ()
        touched = range(max(start, before - _NEARBY), before)
        told = self._told_since(before - _LONGEST_REGION) if self._at(before - 1).head.rank else []
        self._repeated.clear()
        for number in touched:
            self._hidden.pop(number, None)
        if is_other or len(self._hidden) + len(self._blocks) > _KEPT:
            self._forget_folds()
        return {*touched, *told}

    def _told_since(self, lowest: int) -> list[int]:
        """The lines of tracebacks that begin there or below: more of them, or of their lines, may be new."""
        blocks = self._blocks.items()
        return [number for number, block in blocks if block is not None and block.lines[0] >= lowest]

    def head(self, number: int) -> LogPrefix:
        return self._at(number).head

    def is_hidden(self, number: int) -> bool:
        """A line near it says the same, or another rank said it before."""
        if (known := self._hidden.get(number)) is not None:
            return known
        if (block := self._block(number)) is None:
            known = self._hidden[number] = self._is_old(number)
        elif (known := self._repeated.get(block.lines[0])) is None:
            # whether another rank told it as often before
            told: Counter[str] = Counter()
            first = block.lines[0]
            above = self._traceback_above(first)
            while above is not None and above >= first - _LONGEST_REGION:
                if (other := self._block(above)) is not None and other.is_as(block):
                    told[other.rank] += 1
                above = self._traceback_above(above)
            own = told.pop(block.rank, 0)
            known = self._repeated[block.lines[0]] = any(count > own for count in told.values())
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
        return bool(same := self._at(one).same) and same == self._at(other).same

    def _has_newer(self, number: int) -> bool:
        """Lines of talk right behind each other are a list, unless they are the same."""
        again = self._at(number).again
        is_apart = again.startswith(_BAR)
        for other in range(number + 1, min(self.stop, number + _NEARBY)):
            if self._at(other).again != again:
                is_apart = True
            elif is_apart:
                return True
        return False

    def _counted(self, number: int) -> tuple[int, bool]:
        """Itself and the hidden ones above that it stands for, and whether these are all."""
        again = self._at(number).again
        count, newest = 1, number
        lowest = max(self.start, number - _COUNTED)
        for other in range(number - 1, lowest - 1, -1):
            if not again:
                if not self._is_same(other, number) or not self.is_hidden(other):
                    return count, True
            elif newest - other >= _NEARBY:
                return count, True
            elif self._at(other).again != again or not self.is_hidden(other):
                continue
            count, newest = count + 1, other
        return count, lowest == self.start or number - newest < _COUNTED - _NEARBY

    # tracebacks

    def _block(self, number: int) -> _Block | None:
        known = self._at(number)
        if not known.may_be_of_traceback:
            return None
        if number not in self._blocks:
            self._blocks[number] = self._begun(number, known.head.rank)
        if (block := self._blocks[number]) is not None:
            self._read_on(block)
        return block

    def _begun(self, number: int, rank: str) -> _Block | None:
        """The traceback of that rank which goes on to there."""
        block: _Block | None = None
        for other in range(number, max(self.start, number - _LONGEST_REGION) - 1, -1):
            known = self._at(other)
            if not known.head.rank or (known.head.rank == rank and not known.may_be_of_traceback):
                break
            if other in self._blocks and known.head.rank == rank:
                block = self._blocks[other]
                break
            if known.is_traceback and known.head.rank == rank:
                block = self._blocks[other] = _Block(rank, [], [], other)
                break
        if block is not None:
            self._read_on(block)
        return block if block is not None and number in block.lines else None

    def _read_on(self, block: _Block) -> None:
        stop = min(self.stop, (block.lines or [block.read_to])[0] + _LONGEST_REGION)
        while block.read_to < stop and len(block.lines) <= _LONGEST_BLOCK:
            number, known = block.read_to, self._at(block.read_to)
            if not known.head.rank:
                return
            if known.head.rank == block.rank:
                if block.lines and (known.is_traceback or not known.may_be_of_traceback):
                    return
                block.lines.append(number)
                block.said.append(without_figures(known.same))
                self._blocks[number] = block
            block.read_to += 1

    def _traceback_above(self, number: int) -> int | None:
        """Where the nearest one begins, if all lines between have a rank."""
        if number not in self._above:
            self._above[number] = None
            for other in range(number - 1, max(self.start, number - _LONGEST_REGION) - 1, -1):
                known = self._at(other)
                if not known.head.rank:
                    break
                if known.is_traceback:
                    self._above[number] = other
                    break
        return self._above[number]

    def _ranks(self, block: _Block) -> int:
        """How many told it, until one tells it again."""
        first, ranks = block.lines[0], {block.rank}
        for number in range(first + 1, min(self.stop, first + _LONGEST_REGION)):
            known = self._at(number)
            if not known.head.rank:
                break
            if known.is_traceback and (other := self._block(number)) is not None and other.is_as(block):
                if other.rank == block.rank:
                    break
                ranks.add(other.rank)
        return len(ranks)


def _read(text: str, label: str) -> _Known:
    head = log_head(text)
    message = text[head.length :]
    again = ""
    bar = message[:_LONGEST_BAR]
    if ("%" in bar or "<" in bar) and _PROGRESS.search(bar):  # a search for signs is a tenth of the other
        again = _BAR + _MOVING.sub("", bar).partition("|")[0]
    elif head.level in _TALK:
        again = recurrence(message)
    level, source = head.level, f"{label}{head.level}"
    return _Known(
        head,
        same=(asked_for(message) or message) + source if message.strip() else "",
        again=again + source if again else "",
        may_be_of_traceback=bool(head.rank) and (level is None or level.severity >= _ERROR),
        is_traceback=_TRACEBACK in text,
    )
