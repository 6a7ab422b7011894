"""Cursors: where an answer of events, logs or metrics ended, so that the next one goes on there. Pure, light.

One is an opaque text for who asks. A cursor of events names the last event by its time and a checksum, not
by its place in the file: so it holds after a restart of the supervisor, in a journal that was rotated or cut,
and beside damaged lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args
from zlib import crc32

from rltui.base.times import Moment, Period
from rltui.errors import UsageError

CursorKind = Literal["events", "logs", "metrics"]
_CURSOR = re.compile(rf"(?P<kind>{'|'.join(get_args(CursorKind))})@(?P<fields>[\w.:,#+-]*)", re.ASCII)
_EVENT = re.compile(r"(?P<micro>[0-9a-f]{12,14})\.[0-9a-f]{8}")
_MICRO = 1_000_000
_NEXT = "ask without --since once; the answer has a new cursor"


class Cursor(NamedTuple):
    kind: str
    fields: str = ""
    """Empty: from the beginning."""

    def __str__(self) -> str:
        return f"{self.kind}@{self.fields}"

    def of_kind(self, kind: CursorKind) -> Cursor:
        """This cursor.

        Raises:
            UsageError: if it is of another kind.
        """
        if self.kind != kind:
            raise self.lost(f"a cursor of {self.kind}, not of {kind}")
        return self

    def lost(self, what: str, hint: str = _NEXT) -> UsageError:
        """The error for a cursor whose place is not there."""
        return UsageError(f"{what}: {self}", hint=hint, code="cursor_lost")


def parse_cursor(text: str) -> Cursor | None:
    """The cursor that a text is; `None` for other texts, such as times."""
    match = _CURSOR.fullmatch(text)
    return Cursor(match["kind"], match["fields"]) if match else None


def checksum(content: bytes) -> str:
    return f"{crc32(content):08x}"


# --- events -----------------------------------------------------------------------------------------------


def cursor_of(entry: Mapping[str, Any]) -> Cursor:
    """The cursor after an entry of the journal, as the file has it."""
    mark = checksum(f"{entry['kind']} {entry['text']}".encode())
    return Cursor("events", f"{round(entry['at'] * _MICRO):x}.{mark}")


def index_since(entries: Sequence[Mapping[str, Any]], since: Moment | Cursor) -> int:
    """Index of the first of `entries` after a cursor, or from a time or a step on.

    Raises:
        UsageError: if the event that the cursor names is not there.
    """
    if not isinstance(since, Cursor):
        period, step = Period(since), None
        for index, entry in enumerate(entries):
            step = step if entry.get("step") is None else entry["step"]
            if period.holds(entry["at"], step):
                return index
        return len(entries)
    if not since.of_kind("events").fields:
        return 0
    for index in range(len(entries) - 1, -1, -1):
        if cursor_of(entries[index]) == since:
            return index + 1
    match = _EVENT.fullmatch(since.fields)
    by_time = f"; or continue by time: --since {int(match['micro'], 16) / _MICRO:.6f}" if match else ""
    raise since.lost("this run has no event at the cursor", _NEXT + by_time)
