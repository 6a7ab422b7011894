"""Reads the store of an earlier version: a file `head`, which says how much is committed, and segments
`<n>.rows` of records with a sequence number, each behind a line of JSON with its source, origin and names.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rltui.core.metrics.series import Rewind
from rltui.services.own_files import open_own, read_own

_HEAD = struct.Struct("=8s16sqqq")
"""Mark, id, number of the next record, number of lost ones, number of rewinds."""
_MARK = b"RLSERIE1" if sys.byteorder == "little" else b"RLSERIE2"
_FIXED = 4
"""Number of fields of a record before its values: sequence number, cursor, step, time."""
_ABSENT_BITS = 0x7FF4_0072_6C74_7569
"""The NaN of a name that a record has no value of."""


class EarlierRow(NamedTuple):
    """A row with its number in the store; the other fields are arguments of `SeriesWriter.add`."""

    number: int
    source: str
    values: dict[str, float]
    at: float
    step: int
    origin: str
    cursor: int


def earlier_files(folder: Path) -> list[Path]:
    """The files of an earlier version's store in `folder`; empty if there is none."""
    head = folder / "head"
    return [head, folder / "rewinds.jsonl", *folder.glob("*.rows")] if head.exists() else []


def earlier_rewinds(folder: Path) -> Iterator[Rewind]:
    with contextlib.suppress(OSError, ValueError):  # none, or the end of one that was not finished
        for line in read_own(folder / "rewinds.jsonl").splitlines():
            yield Rewind(**json.loads(line))


def earlier_rows(folder: Path) -> Iterator[EarlierRow]:
    """Read the committed rows, in the order in which they were written."""
    content = read_own(folder / "head")
    mark, _, end, _, _ = _HEAD.unpack(content) if len(content) == _HEAD.size else (b"", b"", 0, 0, 0)
    if mark == _MARK:
        rows = heapq.merge(*map(_segment, folder.glob("*.rows")))
        yield from itertools.takewhile(lambda row: row.number < end, rows)


def _segment(path: Path) -> Iterator[EarlierRow]:
    """The records of a file; none if it is damaged."""
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        try:
            header = json.loads(file.readline())
            source, origin, names = header["source"], header["origin"], header["names"]
        except (ValueError, KeyError, TypeError):
            return
        size = 8 * (_FIXED + len(names))
        while len(data := file.read(size)) == size:
            bits, floats = memoryview(data).cast("q"), memoryview(data).cast("d")
            row = zip(names, bits[_FIXED:], floats[_FIXED:], strict=True)
            values = {name: value for name, its_bits, value in row if its_bits != _ABSENT_BITS}
            yield EarlierRow(bits[0], source, values, floats[3], bits[2], origin, bits[1])
