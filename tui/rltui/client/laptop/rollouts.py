"""The rollouts of a run on another machine: batches as they are looked at, transcripts one by one."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from re import Pattern
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from rltui.client.laptop.packed import packed, unpacked
from rltui.client.transports.frames import Packet, understood
from rltui.client.transports.ssh import HostLink
from rltui.core.rollouts import Batch, BatchKey, RolloutSource, Sample, SampleTable, Transcript
from rltui.errors import RltuiError
from rltui.services.runs.rollouts import export_transcripts, keep_transcripts

_Value = TypeVar("_Value")
_NOT_UNDERSTOOD = "the rollouts that the other end says are not understood"
_TRANSCRIPT: TypeAdapter[Transcript] = TypeAdapter(Transcript)
_SAMPLE: TypeAdapter[Sample] = TypeAdapter(Sample)
_KEY: TypeAdapter[BatchKey] = TypeAdapter(BatchKey)
_BATCHES: TypeAdapter[list[Batch]] = TypeAdapter(list[Batch])


class RemoteRollouts:
    """`RolloutSource` of a folder there. While the link is down, what is here is all there is."""

    def __init__(self, link: HostLink, folder: str) -> None:
        """Asks for nothing yet."""
        self._link, self._folder = link, folder
        self._whose = f"{link.host.name}, of its rollouts,"
        self._batches: list[Batch] = []
        self._tables: dict[BatchKey, SampleTable] = {}
        self._mark = ""
        """What the other end calls the batches that it told last."""
        self.problem = ""

    def look(self, shown: BatchKey | None = None, budget_s: float = 0.05) -> bool:
        """Have the other end look and read on, and take over what is new."""
        asked = {"shown": shown, "known": self._known(shown), "budget_s": budget_s, "mark": self._mark}
        try:
            answer = self._ask("rollouts.look", asked)
            with understood(self._whose):
                said = answer.data
                if said["batches"] is not None:
                    self._batches = _checked(_BATCHES, said["batches"])
                    self._mark = str(said["mark"])
                self.problem = str(said["problem"])
                if shown is not None:
                    self._grow(shown, answer)
                return bool(said["behind"])
        except RltuiError as error:
            self.problem = error.title
        return False

    def batches(self) -> list[Batch]:
        return self._batches

    def table(self, key: BatchKey) -> SampleTable:
        """Of a batch that was not looked at here, asked for now."""
        batch = next((batch for batch in self._batches if batch.key == key), None)
        known = self._tables.get(key)
        if batch is None or (known is not None and (batch.samples is None or len(known) >= batch.samples)):
            return known or SampleTable()
        try:
            answer = self._ask("rollouts.table", {"shown": key, "known": self._known(key)})
            with understood(self._whose):
                self._grow(key, answer)
        except RltuiError as error:
            self.problem = error.title
        return self._tables.get(key) or SampleTable()

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        answer = self._ask("rollouts.open", {"key": key, "sample": sample})
        return _checked(_TRANSCRIPT, answer.data)

    def search(self, key: BatchKey, samples: Iterable[Sample], pattern: Pattern[str]) -> Iterator[bool]:
        asked = {"key": key, "samples": list(samples), "pattern": pattern.pattern, "flags": pattern.flags}
        for said in self._several("rollouts.search", asked):
            with understood(self._whose):
                matches = [*map(bool, said)]
            yield from matches

    def same_prompt(self, key: BatchKey, transcript: Transcript) -> Iterator[tuple[BatchKey, Sample | None]]:
        for said in self._several("rollouts.same", {"key": key, "sample": transcript.sample}):
            with understood(self._whose):
                other, found = said
            yield key_of(other), None if found is None else sample_of(found)

    export = staticmethod(export_transcripts)
    keep = staticmethod(keep_transcripts)

    def _ask(self, method: str, asked: dict[str, Any]) -> Packet:
        return self._link.call(method, {"folder": self._folder, **asked})

    def _several(self, method: str, asked: dict[str, Any]) -> Iterator[Any]:
        came: SimpleQueue[Packet | RltuiError] = SimpleQueue()
        channel = self._link.ask(came.put, method, {"folder": self._folder, **asked})
        try:
            while not isinstance(answer := came.get(), RltuiError) and answer.data is not None:
                yield answer.data
        finally:
            self._link.cancel(channel)
        if isinstance(answer, RltuiError):
            raise answer

    def _known(self, key: BatchKey | None) -> TableMark:
        table = None if key is None else self._tables.get(key)
        return mark_of(SampleTable() if table is None else table)

    def _grow(self, key: BatchKey, answer: Packet) -> None:
        """With the samples that were told of a batch."""
        said = answer.data["table"]
        if not said["length"] and not said["is_new"]:
            return
        table = self._tables.get(key)
        if table is None or said["is_new"]:
            table = SampleTable()
        codes = [column.typecode for column in table.columns.values()]
        columns = unpacked(codes, [int(said["length"])] * len(codes), answer.blob)
        table.extend(dict(zip(table.columns, columns, strict=True)), [str(text) for text in said["texts"]])
        self._tables[key] = table


class TableMark(NamedTuple):
    """What an end has of a table: the other one sends what is behind that, or all where it differs."""

    samples: int
    texts: int
    check: int


def mark_of(table: SampleTable, samples: int | None = None, texts: int | None = None) -> TableMark:
    """Of a table, or of so much of it."""
    samples = len(table) if samples is None else samples
    texts = len(table.texts) if texts is None else texts
    check = zlib.crc32("\0".join(table.texts[:texts]).encode(errors="replace"))
    for column in table.columns.values():
        check = zlib.crc32(column[:samples].tobytes(), check)
    return TableMark(samples, texts, check)


def told(table: SampleTable, known: Sequence[int]) -> tuple[dict[str, Any], bytes]:
    """What is told of a table to who knows that of it: at the other end."""
    samples, texts, _ = mark = TableMark(*map(int, known))
    is_new = mark_of(table, samples, texts) != mark
    if is_new:
        samples = texts = 0
    stop, all_texts = len(table), [*table.texts]
    columns = [column[samples:stop] for column in table.columns.values()]
    return {"is_new": is_new, "length": stop - samples, "texts": all_texts[texts:]}, packed(columns)


def batches_mark(batches: Sequence[Batch]) -> str:
    """What tells these from others."""
    return f"{zlib.crc32(repr(batches).encode(errors='replace')):08x}"


def key_of(said: object) -> BatchKey:
    """Of what an end has said; raises RltuiError where it is none."""
    return _checked(_KEY, said)


def sample_of(said: object) -> Sample:
    return _checked(_SAMPLE, said)


def looked(source: RolloutSource, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The answer to `look`, at the other end, as the next two."""
    shown = None if asked["shown"] is None else key_of(asked["shown"])
    behind = source.look(shown, float(asked["budget_s"]))
    batches = source.batches()
    mark = batches_mark(batches)
    table, blob = (None, b"") if shown is None else told(source.table(shown), asked["known"])
    told_batches = None if mark == asked["mark"] else batches
    said = {
        "behind": behind,
        "problem": source.problem,
        "mark": mark,
        "batches": told_batches,
        "table": table,
    }
    return said, blob


def tabled(source: RolloutSource, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    table, blob = told(source.table(key_of(asked["shown"])), asked["known"])
    return {"table": table}, blob


def opened(source: RolloutSource, asked: Mapping[str, Any]) -> tuple[object, bytes]:
    return _TRANSCRIPT.dump_python(source.open(key_of(asked["key"]), sample_of(asked["sample"]))), b""


def _checked(adapter: TypeAdapter[_Value], value: object) -> _Value:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise RltuiError(_NOT_UNDERSTOOD) from error
