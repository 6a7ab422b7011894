"""The series of a run on another machine: those that are looked at are kept here, and new points added."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rltui.base.questions import remote_method
from rltui.client.laptop.columns import (
    SERIES_CODES,
    decode_columns,
    downsample,
    encode_columns,
    series_columns,
    series_from_columns,
)
from rltui.client.laptop.remote_object import RemoteObject
from rltui.client.transports.frames import decoding
from rltui.client.transports.ssh import HostLink
from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import Rewind, Series, SeriesKey
from rltui.errors import RltuiError
from rltui.services.metrics.store import SeriesReader

Stamp = tuple[str, int, int]
"""Version of a store, as `SeriesReader.fingerprint`."""
_NO_STAMP: Stamp = ("", 0, 0)


class RemoteSeries:
    """`SeriesSource` of a run of the other machine. While the link is down, nothing is new."""

    def __init__(self, link: HostLink, folder: str) -> None:
        """`folder` is that of the store. Sends no request yet."""
        self._whose = f"{link.host.name} (metrics)"
        self._feed = RemoteObject(link, "series", folder, whose=self._whose)
        self._stamp = _NO_STAMP
        self._keys: tuple[SeriesKey, ...] = ()
        self._rewinds: tuple[Rewind, ...] = ()
        self._cached: dict[SeriesKey, Series] = {}
        self._counts: dict[SeriesKey, int] = {}
        """Points of each that were looked at there; it may be fewer here."""
        self._read_keys: set[SeriesKey] = set()
        """Keys read since the last poll with changes."""

    def poll(self) -> LogChange:
        """Ask what is new, also of the series that are looked at."""
        before = self._stamp
        if not self._ask(self._read_keys) or self._stamp == before:
            return LogChange.NONE
        self._read_keys = set()
        return LogChange.RESET if self._stamp[0] != before[0] else LogChange.GREW

    def keys(self) -> tuple[SeriesKey, ...]:
        return self._keys

    def rewinds(self) -> tuple[Rewind, ...]:
        return self._rewinds

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Ask for those that are not here, all at once."""
        requested = set(keys)
        self._read_keys |= requested
        if missing_keys := requested - self._cached.keys():
            self._ask(missing_keys)

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        self.prepare([key])
        return self._cached.get(key, Series()).tail(start)

    def _ask(self, keys: Iterable[SeriesKey]) -> bool:
        """Ask what is new of these; false where there is no answer."""
        counts = tuple((key, self._counts.get(key, 0)) for key in keys)
        try:
            self._take(self._feed.call(SeriesFeed.news, self._stamp, counts))
        except RltuiError:  # the link is down, which the screen says
            return False
        return True

    def _take(self, update: SeriesUpdate) -> None:
        with decoding(self._whose):
            codes = SERIES_CODES * len(update.parts)
            lengths = [points.length for points in update.parts for _ in SERIES_CODES]
            columns = decode_columns(codes, lengths, update.blob)
        if update.stamp[0] != self._stamp[0]:
            self._cached, self._counts = {}, {}
        self._stamp = update.stamp
        if update.keys is not None:
            self._keys, self._rewinds = update.keys, update.rewinds
        for index, points in enumerate(update.parts):
            new = series_from_columns(columns[index * len(SERIES_CODES) : (index + 1) * len(SERIES_CODES)])
            self._cached.setdefault(points.key, Series()).extend(new)
            self._counts[points.key] = points.total


class SeriesPoints(NamedTuple):
    """Counts of a series' points in an answer."""

    key: SeriesKey
    total: int
    """Points that there are; it may be more than those that came."""
    length: int


@dataclass(frozen=True, slots=True)
class SeriesUpdate:
    stamp: Stamp
    keys: tuple[SeriesKey, ...] | None
    """`None` if the keys are unchanged, and so are the rewinds."""
    rewinds: tuple[Rewind, ...]
    parts: tuple[SeriesPoints, ...]
    blob: bytes = b""
    """Points of the series, as encoded columns."""


class SeriesFeed:
    """The metrics in a folder of this machine, for another one. From any thread."""

    def __init__(self, folder: Path) -> None:
        self._reader = SeriesReader(folder)
        self._lock = threading.Lock()

    @remote_method
    def news(self, stamp: Stamp, wanted: tuple[tuple[SeriesKey, int], ...]) -> SeriesUpdate:
        """Changes since `stamp`, and the points of the series in `wanted` beyond the given counts."""
        with self._lock:
            reader = self._reader
            reader.poll()
            now = reader.fingerprint
            is_other, is_new = now[0] != stamp[0], now != stamp
            columns: list[array[Any]] = []
            points: list[SeriesPoints] = []
            for key, count in wanted:
                start = 0 if is_other else count
                new = reader.read(key, start)
                sampled = new if start else downsample(new)
                columns += series_columns(sampled)
                points.append(SeriesPoints(key, start + len(new), len(sampled)))
            return SeriesUpdate(
                stamp=now,
                keys=tuple(reader.keys()) if is_new else None,
                rewinds=tuple(reader.rewinds()) if is_new else (),
                parts=tuple(points),
                blob=encode_columns(columns),
            )
