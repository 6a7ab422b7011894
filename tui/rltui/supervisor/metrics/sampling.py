"""The metrics of a run that rltui itself measures: of GPUs, inference servers and starts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from rltui.core.gpu.report import GpuReport
from rltui.core.metrics.engine import EngineMeter, EngineMetrics
from rltui.core.metrics.series import OWN_SOURCE

_INTERVAL_S = 10.0
"""Interval of the points, which makes a few MB in a month."""


class RunSampler:
    """Reduces readings, which come as often as a client watches, to one point each interval."""

    def __init__(self, add_point: Callable[[Mapping[str, float], str], None], metrics: EngineMetrics) -> None:
        """`add_point` is called with values by name, and their source. `metrics`: those of engines."""
        self._metrics = metrics
        self._add_point = add_point
        self._meters: dict[str, EngineMeter] = {}
        self._gpus_at: float | None = None
        self._memory: dict[str, float] = {}
        """Most bytes that each component held since the last point."""
        self._use: defaultdict[str, list[float]] = defaultdict(list)

    def engine(self, component: str, exposition: bytes) -> None:
        """Add the exposition of an inference server as of now."""
        meter = self._meters.setdefault(component, EngineMeter(_INTERVAL_S, self._metrics))
        for suffix, values in meter.add(exposition, time.time()).items():
            self._add_point(values, component + suffix)

    def started(self, component: str, attempt: int) -> None:
        self._add_point({f"starts/{component}": float(attempt)}, OWN_SOURCE)

    def gpus(self, report: GpuReport) -> None:
        """Add a reading: the memory that components hold, and the utilization of the devices on which they
        hold it.
        """
        held_bytes: defaultdict[str, float] = defaultdict(float)
        for device in report.devices:
            for component, used_bytes in device.component_bytes.items():
                held_bytes[component] += used_bytes
                if device.utilization is not None:
                    self._use[f"gpu_use/{component}"].append(device.utilization)
        for component, size in held_bytes.items():
            name = f"gpu_memory/{component}"
            self._memory[name] = max(size, self._memory.get(name, 0.0))
        now = time.monotonic()
        if self._memory and (self._gpus_at is None or now - self._gpus_at >= _INTERVAL_S):
            use = {name: sum(values) / len(values) for name, values in self._use.items()}
            self._add_point({**self._memory, **use}, OWN_SOURCE)
            self._gpus_at = now
            self._memory.clear()
            self._use.clear()
