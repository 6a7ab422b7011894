"""The series of a run on another machine: those that are looked at are kept here, and new points added."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from rltui.client.laptop.packed import SERIES_CODES, packed, series_columns, series_of, thinned, unpacked
from rltui.client.transports.frames import Packet, understood
from rltui.client.transports.ssh import HostLink
from rltui.core.lines import LogChange
from rltui.core.series import Rewind, Series, SeriesKey
from rltui.errors import RltuiError
from rltui.services.metrics.store import SeriesReader

_NO_STAMP = ["", 0, 0]


class RemoteSeries:
    """`SeriesSource` of a run there. While the link is down, nothing is new."""

    def __init__(self, link: HostLink, folder: str) -> None:
        """`folder`: of the store. Asks for nothing yet."""
        self._link, self._folder = link, folder
        self._stamp: list[Any] = _NO_STAMP
        self._keys: tuple[SeriesKey, ...] = ()
        self._rewinds: tuple[Rewind, ...] = ()
        self._known: dict[SeriesKey, Series] = {}
        self._counts: dict[SeriesKey, int] = {}
        """Points of each that were looked at there; it may be fewer here."""
        self._wanted: set[SeriesKey] = set()
        """Those that were read since the last look that found something."""

    def look(self) -> LogChange:
        """Ask what is new, also of the series that are looked at."""
        before = self._stamp
        if not self._ask(self._wanted) or self._stamp == before:
            return LogChange.NONE
        self._wanted = set()
        return LogChange.RESET if self._stamp[0] != before[0] else LogChange.GREW

    def keys(self) -> tuple[SeriesKey, ...]:
        return self._keys

    def rewinds(self) -> tuple[Rewind, ...]:
        return self._rewinds

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Ask for those that are not here, all at once."""
        wanted = set(keys)
        self._wanted |= wanted
        if missing := wanted - self._known.keys():
            self._ask(missing)

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        self.prepare([key])
        return self._known.get(key, Series()).tail(start)

    def _ask(self, keys: Iterable[SeriesKey]) -> bool:
        """For the news of these. False where there is no answer."""
        wanted = [[*key, self._counts.get(key, 0)] for key in keys]
        asked = {"folder": self._folder, "stamp": self._stamp, "wanted": wanted}
        try:
            self._take(self._link.call("series", asked))
        except RltuiError:  # the link is down, which the screen says
            return False
        return True

    def _take(self, answer: Packet) -> None:
        said = answer.data
        with understood(f"{self._link.host.name}, of its metrics,"):
            if said["stamp"][0] != self._stamp[0]:
                self._known, self._counts = {}, {}
            self._stamp = [*said["stamp"]]
            if said["keys"] is not None:
                self._keys = tuple(SeriesKey(str(source), str(name)) for source, name in said["keys"])
                self._rewinds = tuple(Rewind(int(step), float(at)) for step, at in said["rewinds"])
            told = [
                (SeriesKey(str(source), str(name)), int(count), int(length))
                for source, name, count, length in said["told"]
            ]
            codes = SERIES_CODES * len(told)
            lengths = [length for _, _, length in told for _ in SERIES_CODES]
            columns = unpacked(codes, lengths, answer.blob)
        for at, (key, count, _) in enumerate(told):
            new = series_of(columns[at * len(SERIES_CODES) : (at + 1) * len(SERIES_CODES)])
            self._known.setdefault(key, Series()).extend(new)
            self._counts[key] = count


def told(
    reader: SeriesReader, stamp: Sequence[Any], wanted: Iterable[Sequence[Any]]
) -> tuple[dict[str, Any], bytes]:
    """The answer to that, at the other end.

    `stamp`: what who asks knows; `wanted`: source, name and how many points it knows of each.
    """
    reader.look()
    now = list(reader.stamp)
    is_other, is_new = now[0] != stamp[0], now != list(stamp)
    columns: list[array[Any]] = []
    parts: list[list[Any]] = []
    for source, name, known in wanted:
        key, start = SeriesKey(str(source), str(name)), 0 if is_other else int(known)
        new = reader.read(key, start)
        shown = new if start else thinned(new)
        columns += series_columns(shown)
        parts.append([*key, start + len(new), len(shown)])
    said = {
        "stamp": now,
        "keys": reader.keys() if is_new else None,
        "rewinds": reader.rewinds() if is_new else None,
        "told": parts,
    }
    return said, packed(columns)
