"""Memory that each owner of a device held over time. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from rltui.core.gpu.report import GpuHistory, GpuSeries

FINE_POINTS = 600
"""Number of unmerged samples: ten minutes at one per second."""
COARSE_POINTS = 720
"""Number of older intervals; their length doubles whenever there would be more."""
FIRST_INTERVAL_S = 15.0
_UNIT = 1 << 20
"""Sizes are stored in MiB, four bytes each."""


@dataclass(slots=True)
class _Columns:
    """Times, and a column of sizes for each label, all equally long."""

    times: array[float] = field(default_factory=lambda: array("d"))
    sizes: dict[str, array[int]] = field(default_factory=dict)

    def append(self, time: float, sizes: Mapping[str, int]) -> None:
        for label in sizes.keys() - self.sizes.keys():
            self.sizes[label] = array("I", bytes(4 * len(self.times)))
        self.times.append(time)
        for label, column in self.sizes.items():
            column.append(sizes.get(label, 0))

    def raise_last(self, time: float, sizes: Mapping[str, int]) -> None:
        """Make the last interval end at `time` and hold at least these sizes."""
        self.times[-1] = time
        for label in sizes.keys() - self.sizes.keys():
            self.sizes[label] = array("I", bytes(4 * len(self.times)))
        for label, size in sizes.items():
            self.sizes[label][-1] = max(self.sizes[label][-1], size)

    def drop_first(self) -> None:
        del self.times[0]
        for column in self.sizes.values():
            del column[0]

    def halve(self) -> None:
        """Merge every two intervals into one, with the larger size."""
        self.times = self.times[1::2]
        self.sizes = {
            label: array("I", map(max, column[::2], column[1::2])) for label, column in self.sizes.items()
        }


class MemoryHistory:
    """The history of one device, in some 25 kB however long it runs."""

    def __init__(self) -> None:
        self._fine = _Columns()
        self._coarse = _Columns()
        self._interval_s = FIRST_INTERVAL_S
        self._interval_start = 0.0
        """Start of the last coarse interval."""

    def add(self, time: float, used_bytes: Mapping[str, int]) -> None:
        """Add a sample: bytes by label, `time` not before the previous one."""
        sizes = {label: size // _UNIT for label, size in used_bytes.items()}
        self._fine.append(time, sizes)
        if len(self._fine.times) > FINE_POINTS:
            self._fine.drop_first()
        if self._coarse.times and time - self._interval_start < self._interval_s:
            self._coarse.raise_last(time, sizes)
            return
        if len(self._coarse.times) >= COARSE_POINTS:
            self._coarse.halve()
            self._interval_s *= 2
        self._interval_start = time
        self._coarse.append(time, sizes)

    def history(self, device: str) -> GpuHistory:
        """The whole history, oldest first; the last ten minutes or so in full detail."""
        since = self._fine.times[0] if self._fine.times else 0.0
        older = sum(time < since for time in self._coarse.times)
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
