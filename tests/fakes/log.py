"""A log that lies in memory."""

from __future__ import annotations

from rltui.core.logs.source import LogChange


class FakeLog:
    """A log in memory whose first `hidden` lines are indexed on demand, 10 at a time."""

    is_waiting = False

    def __init__(self, *lines: str, hidden: int = 0, problem: str | None = None) -> None:
        self.text = list(lines)
        self.start = hidden
        self.stop = len(lines)
        self.problem = problem
        self.change = LogChange.NONE
        self.polls = 0
        self.reads: list[int] = []

    def line(self, number: int) -> str:
        self.reads.append(number)
        return self.text[number]

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if self.start <= offset < self.stop else None

    def line_at(self, offset: int) -> str:
        return self.text[offset]

    def label(self, number: int) -> str:
        return ""

    def poll(self, *, may_skip: bool) -> LogChange:
        self.polls += 1
        change, self.change = self.change, LogChange.NONE
        if change is LogChange.RESET:
            self.start = 0
        self.stop = len(self.text)
        return change

    def close(self) -> None:
        raise AssertionError("closing is the owner's business")

    def load_older(self) -> bool:
        before = self.start
        self.start = max(0, before - 10)
        return self.start < before

    def append(self, *lines: str) -> None:
        self.text.extend(lines)
        self.change = LogChange.GREW

    def replace(self, *lines: str) -> None:
        self.text = list(lines)
        self.change = LogChange.RESET
