"""What rltui itself measures of a run, passed on to its series: GPUs, inference servers, starts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from rltui.core.engine_metrics import EngineMeter
from rltui.core.gpu.report import GpuReport
from rltui.core.series import OWN_SOURCE

_INTERVAL_S = 10.0
"""Between two points: some MB for a month."""


class RunSampler:
    """Keeps the pace: readings come as often as somebody looks, points do not."""

    def __init__(self, take: Callable[[Mapping[str, float], str], None]) -> None:
        """`take`: gets values by name, and their source."""
        self._add_point = take
        self._meters: dict[str, EngineMeter] = {}
        self._gpus_at: float | None = None
        self._memory: dict[str, float] = {}
        """Most that each component held since the last point."""
        self._use: defaultdict[str, list[float]] = defaultdict(list)

    def engine(self, component: str, exposition: bytes) -> None:
        """What an inference server says of itself now."""
        meter = self._meters.setdefault(component, EngineMeter(_INTERVAL_S))
        for suffix, values in meter.add(exposition, time.time()).items():
            self._add_point(values, component + suffix)

    def started(self, component: str, attempt: int) -> None:
        self._add_point({f"starts/{component}": float(attempt)}, OWN_SOURCE)

    def gpus(self, report: GpuReport) -> None:
        """A reading: the memory that components hold, and how much the devices on which they hold it work."""
        held: defaultdict[str, float] = defaultdict(float)
        for device in report.devices:
            owners = {share.component for share in device.shares if share.owner == "component"} - {None}
            for share in device.shares:
                if share.owner == "component" and share.component is not None:
                    held[share.component] += share.used_bytes
            if device.utilization is not None:
                for owner in owners:
                    self._use[f"gpu_use/{owner}"].append(device.utilization)
        for component, size in held.items():
            name = f"gpu_memory/{component}"
            self._memory[name] = max(size, self._memory.get(name, 0.0))
        now = time.monotonic()
        if self._memory and (self._gpus_at is None or now - self._gpus_at >= _INTERVAL_S):
            use = {name: sum(seen) / len(seen) for name, seen in self._use.items()}
            self._add_point({**self._memory, **use}, OWN_SOURCE)
            self._gpus_at = now
            self._memory.clear()
            self._use.clear()
