"""The most that each attempt of a component held on each device, as far as samples saw it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rltui.core.gpu.report import GpuDevice, GpuShare


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

    def add(self, device: GpuDevice) -> GpuDevice:
        """Take in a reading; returns it with the peaks of its shares."""
        return device.model_copy(update={"shares": tuple(self._add(device.key, s) for s in device.shares)})

    def _add(self, device: str, share: GpuShare) -> GpuShare:
        if share.owner != "component" or share.component not in self._peaks:
            return share
        peaks = self._peaks[share.component]
        peaks[device] = max(peaks.get(device, 0), share.used_bytes)
        return share.model_copy(update={"peak_bytes": peaks[device]})

    def of(self, component: str) -> Mapping[str, int]:
        """Bytes by device key; empty for a component without attempt."""
        return self._peaks.get(component, {})
