"""The rollouts of a run on another machine: batches as they are looked at, transcripts one by one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from re import Pattern
from typing import NamedTuple

from rltui.base.questions import remote_method
from rltui.client.laptop.columns import decode_columns, encode_columns
from rltui.client.laptop.remote_object import RemoteObject
from rltui.client.transports.frames import decoding
from rltui.client.transports.ssh import HostLink
from rltui.core.rollouts.batches import Batch, BatchKey, Sample, SampleTable, Transcript
from rltui.errors import RltuiError
from rltui.services.rollouts import export_transcripts, open_rollouts, save_transcripts

_SEARCHED_AT_ONCE = 20
"""Rollouts searched for one answer."""


class RemoteRollouts:
    """`RolloutSource` of a folder of the other machine. While the link is down, it has what is cached."""

    def __init__(self, link: HostLink, folder: str) -> None:
        """Sends no request before the first call."""
        self._whose = f"{link.host.name} (rollouts)"
        self._feed = RemoteObject(link, "rollouts", folder, whose=self._whose)
        self._batches: list[Batch] = []
        self._tables: dict[BatchKey, SampleTable] = {}
        self._mark = ""
        """Mark of the batches that came last."""
        self.problem = ""

    def poll(self, shown: BatchKey | None = None, budget_s: float = 0.05) -> bool:
        """Have the other end look and read on, and take over what is new."""
        try:
            update = self._feed.call(RolloutFeed.poll, shown, self._cached_mark(shown), budget_s, self._mark)
            if update.batches is not None:
                self._batches, self._mark = [*update.batches], update.mark
            self.problem = update.problem
            if shown is not None and update.table is not None:
                self._grow(shown, update.table, update.blob)
        except RltuiError as error:
            self.problem = error.title
            return False
        return update.behind

    def batches(self) -> list[Batch]:
        return self._batches

    def table(self, key: BatchKey) -> SampleTable:
        """The samples of a batch; of one that was not looked at here, asked for now."""
        batch = next((batch for batch in self._batches if batch.key == key), None)
        cached = self._tables.get(key)
        if batch is None or (cached is not None and (batch.samples is None or len(cached) >= batch.samples)):
            return cached or SampleTable()
        try:
            update = self._feed.call(RolloutFeed.table, key, self._cached_mark(key))
            self._grow(key, update.table, update.blob)
        except RltuiError as error:
            self.problem = error.title
        return self._tables.get(key) or SampleTable()

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        return self._feed.call(RolloutFeed.open, key, sample)

    def search(self, key: BatchKey, samples: Iterable[Sample], pattern: Pattern[str]) -> Iterator[bool]:
        stream = self._feed.stream(
            RolloutFeed.search, key, tuple(samples), pattern.pattern, int(pattern.flags)
        )
        try:
            for matches in stream:
                yield from matches
        finally:
            stream.cancel()

    def same_prompt(self, key: BatchKey, transcript: Transcript) -> Iterator[tuple[BatchKey, Sample | None]]:
        stream = self._feed.stream(RolloutFeed.same_prompt, key, transcript.sample)
        try:
            yield from stream
        finally:
            stream.cancel()

    export = staticmethod(export_transcripts)
    keep = staticmethod(save_transcripts)

    def _cached_mark(self, key: BatchKey | None) -> TableMark:
        table = None if key is None else self._tables.get(key)
        return table_mark(SampleTable() if table is None else table)

    def _grow(self, key: BatchKey, rows: NewRows, blob: bytes) -> None:
        """Append the samples of an update to the cached table of a batch."""
        if not rows.length and not rows.is_new:
            return
        table = self._tables.get(key)
        if table is None or rows.is_new:
            table = SampleTable()
        with decoding(self._whose):
            codes = [column.typecode for column in table.columns.values()]
            columns = decode_columns(codes, [rows.length] * len(codes), blob)
            table.extend(dict(zip(table.columns, columns, strict=True)), [*rows.texts])
        self._tables[key] = table


class TableMark(NamedTuple):
    """Fingerprint of the rows that one end has of a table: the other end sends those beyond it, or all where
    it differs.
    """

    samples: int
    texts: int
    check: int


def table_mark(table: SampleTable, samples: int | None = None, texts: int | None = None) -> TableMark:
    """The mark of the first `samples` rows and `texts` texts; of all by default."""
    samples = len(table) if samples is None else samples
    texts = len(table.texts) if texts is None else texts
    check = zlib.crc32("\0".join(table.texts[:texts]).encode(errors="replace"))
    for column in table.columns.values():
        check = zlib.crc32(column[:samples].tobytes(), check)
    return TableMark(samples, texts, check)


@dataclass(frozen=True, slots=True)
class NewRows:
    """The samples of a table that an end does not have."""

    is_new: bool
    """The table is another one: what was known of it counts no more."""
    length: int
    """Samples, whose columns come as bytes."""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableUpdate:
    table: NewRows
    blob: bytes = b""


@dataclass(frozen=True, slots=True)
class RolloutChanges:
    """Changes of the rollouts in a folder since the last poll."""

    behind: bool
    """True if the next poll has more to read."""
    problem: str
    mark: str
    """Fingerprint of the list of batches."""
    batches: tuple[Batch, ...] | None
    """`None` if the list is unchanged."""
    table: NewRows | None
    """Rows of the batch that is shown."""
    blob: bytes = b""


def new_rows(table: SampleTable, known_mark: TableMark) -> tuple[NewRows, bytes]:
    """Rows that an end with `known_mark` lacks of a table, and their columns; all if the table differs."""
    samples, texts, _ = known_mark
    is_new = table_mark(table, samples, texts) != known_mark
    if is_new:
        samples = texts = 0
    stop = len(table)
    columns = [column[samples:stop] for column in table.columns.values()]
    return NewRows(is_new, stop - samples, tuple([*table.texts][texts:])), encode_columns(columns)


class RolloutFeed:
    """The rollouts in a folder of this machine, for another one. From any thread."""

    def __init__(self, folder: Path) -> None:
        self._source = open_rollouts(folder)

    @remote_method
    def poll(
        self, shown: BatchKey | None, known_mark: TableMark, budget_s: float, mark: str
    ) -> RolloutChanges:
        """Read on for `budget_s`; what is new to an end that has `known_mark` of the batch `shown`."""
        source = self._source
        has_more = source.poll(shown, budget_s)
        batches = source.batches()
        now = f"{zlib.crc32(repr(batches).encode(errors='replace')):08x}"
        table, blob = (None, b"") if shown is None else new_rows(source.table(shown), known_mark)
        new_batches = None if now == mark else tuple(batches)
        return RolloutChanges(has_more, source.problem, now, new_batches, table, blob)

    @remote_method
    def table(self, shown: BatchKey, known_mark: TableMark) -> TableUpdate:
        """The samples of a batch that an end with `known_mark` lacks."""
        return TableUpdate(*new_rows(self._source.table(shown), known_mark))

    @remote_method
    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        return self._source.open(key, sample)

    @remote_method
    def search(
        self, key: BatchKey, samples: tuple[Sample, ...], pattern: str, flags: int
    ) -> Iterator[tuple[bool, ...]]:
        """Matches of each sample in order, a chunk at a time."""
        matches_in_order = self._source.search(key, samples, re.compile(pattern, flags))
        while matches := tuple(islice(matches_in_order, _SEARCHED_AT_ONCE)):
            yield matches

    @remote_method
    def same_prompt(self, key: BatchKey, sample: Sample) -> Iterator[tuple[BatchKey, Sample | None]]:
        """Batches, each with its sample of the same prompt, or without one."""
        yield from self._source.same_prompt(key, self._source.open(key, sample))
