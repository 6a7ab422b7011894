"""Who held how much of a device over time, and at most. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rltui.core.gpu.report import GpuHistory, GpuSeries, GpuShare

FINE_POINTS = 600
"""Samples kept as they came: ten minutes at one per second."""
COARSE_POINTS = 720
"""Intervals kept of what is older; their length doubles whenever there would be more."""
FIRST_INTERVAL_S = 15.0
_UNIT = 1 << 20
"""Sizes are kept in MiB, four bytes each."""


@dataclass(slots=True)
class _Columns:
    """Times, and a column of sizes for each label, all equally long."""

    times: array[float] = field(default_factory=lambda: array("d"))
    sizes: dict[str, array[int]] = field(default_factory=dict)

    def append(self, at: float, sizes: Mapping[str, int]) -> None:
        for label in sizes.keys() - self.sizes.keys():
            self.sizes[label] = array("I", bytes(4 * len(self.times)))
        self.times.append(at)
        for label, column in self.sizes.items():
            column.append(sizes.get(label, 0))

    def raise_last(self, at: float, sizes: Mapping[str, int]) -> None:
        """Make the last interval end at `at` and hold at least these."""
        self.times[-1] = at
        for label in sizes.keys() - self.sizes.keys():
            self.sizes[label] = array("I", bytes(4 * len(self.times)))
        for label, size in sizes.items():
            self.sizes[label][-1] = max(self.sizes[label][-1], size)

    def drop_first(self) -> None:
        del self.times[0]
        for column in self.sizes.values():
            del column[0]

    def halve(self) -> None:
        """Two intervals become one, with the larger size."""
        self.times = self.times[1::2]
        self.sizes = {
            label: array("I", map(max, column[::2], column[1::2])) for label, column in self.sizes.items()
        }


class MemoryHistory:
    """Of one device. Takes some 25 kB, however long it runs."""

    def __init__(self) -> None:
        self._fine = _Columns()
        self._coarse = _Columns()
        self._interval_s = FIRST_INTERVAL_S
        self._began = 0.0
        """When the last coarse interval began."""

    def add(self, at: float, used_bytes: Mapping[str, int]) -> None:
        """A sample: bytes by label, `at` not before the one before."""
        sizes = {label: size // _UNIT for label, size in used_bytes.items()}
        self._fine.append(at, sizes)
        if len(self._fine.times) > FINE_POINTS:
            self._fine.drop_first()
        if self._coarse.times and at - self._began < self._interval_s:
            self._coarse.raise_last(at, sizes)
            return
        if len(self._coarse.times) >= COARSE_POINTS:
            self._coarse.halve()
            self._interval_s *= 2
        self._began = at
        self._coarse.append(at, sizes)

    def history(self, device: str) -> GpuHistory:
        """All that is known, oldest first; the last ten minutes or so in full detail."""
        since = self._fine.times[0] if self._fine.times else 0.0
        older = sum(at < since for at in self._coarse.times)
        labels = sorted({*self._fine.sizes, *self._coarse.sizes})
        return GpuHistory(
            device=device,
            times=(*self._coarse.times[:older], *self._fine.times),
            series=tuple(GpuSeries(label=label, used_bytes=self._column(label, older)) for label in labels),
        )

    def _column(self, label: str, older: int) -> tuple[int, ...]:
        zeros = array("I", bytes(4 * len(self._fine.times)))
        coarse = self._coarse.sizes[label][:older]
        return tuple(size * _UNIT for size in (*coarse, *self._fine.sizes.get(label, zeros)))


@dataclass(slots=True)
class Peaks:
    """Of the newest attempt of each component."""

    _attempts: dict[str, int] = field(default_factory=dict)
    _peaks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Component → device key → bytes."""

    def begin(self, component: str, attempt: int, known: Mapping[str, int]) -> None:
        """An attempt runs, of which this much is known already. No news: nothing happens."""
        if self._attempts.get(component) != attempt:
            self._attempts[component] = attempt
            self._peaks[component] = dict(known)

    def added(self, device: str, shares: Iterable[GpuShare]) -> tuple[GpuShare, ...]:
        """Take in who holds a device now, by its key; returns the shares with their peaks."""
        return tuple(self._added(device, share) for share in shares)

    def _added(self, device: str, share: GpuShare) -> GpuShare:
        if share.owner != "component" or share.component not in self._peaks:
            return share
        peaks = self._peaks[share.component]
        peaks[device] = max(peaks.get(device, 0), share.used_bytes)
        return share.model_copy(update={"peak_bytes": peaks[device]})

    def of(self, component: str) -> Mapping[str, int]:
        """Bytes by device key; empty for a component without attempt."""
        return self._peaks.get(component, {})
