"""Cursors of logs: of each component the newest attempt that was read, and how far."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rltui.core.experiment.cursor import Cursor, checksum
from rltui.core.logs.source import LogEntry

_PLACE = re.compile(
    r"(?P<component>[\w.-]+)(?:#(?P<attempt>\d{1,9}))?:(?P<offset>[0-9a-f]{1,15}):(?P<mark>\w+)"
)
_MARK_BYTES = 64
"""Bytes before the place that its checksum covers."""


def log_cursor(ends: Iterable[tuple[LogEntry, int]]) -> Cursor:
    """The cursor after logs that were read up to these offsets; the attempts of a component ascend."""
    newest = {entry.component: (entry, offset) for entry, offset in ends}
    places = (f"{entry.name}:{offset:x}:{_mark(entry, offset)}" for entry, offset in newest.values())
    return Cursor("logs", ",".join(places))


def unread_logs(entries: Iterable[LogEntry], cursor: Cursor) -> Iterator[tuple[LogEntry, int]]:
    """Those of the logs that the cursor is of, and later attempts, with the offsets of what is new in them.

    Raises:
        UsageError: if a log is not the one that was read, or the cursor is of none of them.
    """
    matches = [_PLACE.fullmatch(text) for text in cursor.of_kind("logs").fields.split(",") if text]
    if not all(matches):
        raise cursor.lost("not a cursor of logs")
    places = {match["component"]: match for match in matches if match}
    read_before = [entry for entry in entries if entry.component in places]
    if places and not read_before:
        raise cursor.lost("the cursor is of other logs")
    for entry in read_before:
        match = places[entry.component]
        attempt = int(match["attempt"] or 0)
        if (entry.attempt or 0) > attempt:
            yield entry, 0
        elif (entry.attempt or 0) == attempt:
            offset = int(match["offset"], 16)
            if _mark(entry, offset) != match["mark"]:
                raise cursor.lost(f"{entry.name} was truncated or replaced since the cursor")
            yield entry, offset


def _mark(entry: LogEntry, offset: int) -> str:
    """Checksum of the bytes before the offset; of none where the log is shorter."""
    start, content = max(0, offset - _MARK_BYTES), b""
    with suppress(OSError), open(entry.path, "rb") as file:  # noqa: PTH123 - its path is a text
        content = os.pread(file.fileno(), offset - start, start)
    return checksum(content) if len(content) == offset - start else "none"
