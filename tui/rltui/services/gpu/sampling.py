"""Periodic GPU readings from a thread that a hung driver may block, and the newest one for all who ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.services.gpu.nvml import NvmlReader

log = logging.getLogger(__name__)

_FIRST_INTERVAL_S = 1.0
READING_TIMEOUT_S = 10.0
"""Longest wait for a reading. A driver may hang for minutes, and must not block everything."""


class GpuReader(Protocol):
    """Reads one vendor's GPUs of this machine; nothing else uses a driver. For one thread only."""

    driver: str
    """Name of the driver in messages, such as `the NVIDIA driver`."""
    stuck_hint: str
    """Remedy for a driver that does not answer."""

    def read(self) -> GpuReport:
        """A reading of devices, and processes without owners. Never raises; may block."""
        ...

    def close(self) -> None: ...


class GpuSampler:
    """Passes on readings from a daemon thread of its own. The other methods return at once, in any thread.

    Args:
        take: gets each reading, and the seconds until the next one, in the sampler's thread.
        reader: `None` for this machine's GPUs.
    """

    def __init__(self, take: Callable[[GpuReport, float], None], *, reader: GpuReader | None = None) -> None:
        self._on_reading = take
        self.reader: GpuReader = reader or NvmlReader()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._changed = threading.Condition()
        self._interval_s = _FIRST_INTERVAL_S
        self._is_requested = False
        self._closing = False
        self._reading_since: float | None = None

    @property
    def stuck_s(self) -> float:
        """Seconds that the current reading has lasted; 0.0 between readings."""
        since = self._reading_since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Start with a reading right away. Once per sampler."""
        self._thread.start()

    def set_interval(self, seconds: float) -> None:
        """Seconds from the start of a reading to that of the next. Applies to the present pause too."""
        with self._changed:
            self._interval_s = seconds
            self._changed.notify()

    def read_now(self) -> None:
        """Request a reading that starts after this call, without waiting for its turn."""
        with self._changed:
            self._is_requested = True
            self._changed.notify()

    def close(self, timeout_s: float = 1.0) -> bool:
        """Stop the thread and close the driver. Nothing is passed on afterwards, except a reading in
        progress.

        Returns:
            False if the thread hangs in the driver: it is abandoned, and does not keep the program alive.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (started := self._start_reading()) is not None:
            report = self.reader.read()
            if (interval_s := self._finish_reading()) is None:
                break
            try:
                self._on_reading(report, interval_s)
            except Exception:
                log.exception("a GPU reading could not be handed over")
            self._pause(started)
        self.reader.close()

    def _start_reading(self) -> float | None:
        """Start time on the monotonic clock; `None` if the sampler is closing."""
        with self._changed:
            if self._closing:
                return None
            self._is_requested = False
            self._reading_since = time.monotonic()
            return self._reading_since

    def _finish_reading(self) -> float | None:
        """The interval to pass on with the reading; `None` if the sampler is closing."""
        with self._changed:
            self._reading_since = None
            return None if self._closing else self._interval_s

    def _pause(self, started: float) -> None:
        """Wait for the next turn. Turns that passed during the reading are skipped."""
        finished = time.monotonic()
        with self._changed:
            while not (self._closing or self._is_requested):
                turns = max(1, math.ceil((finished - started) / self._interval_s))
                remaining_s = started + turns * self._interval_s - time.monotonic()
                if remaining_s <= 0:
                    return
                self._changed.wait(remaining_s)


class GpuReadings:
    """The newest reading, shared by the watch that produces readings and their users. Lives on one loop."""

    def __init__(self) -> None:
        self.newest = GpuReport(available=False, reason="no reading yet")
        self._chosen: dict[GpuChoice, tuple[GpuDevice, ...]] = {}
        """Cache for the newest reading: requested again and again, for every component."""
        self.wanted = asyncio.Event()
        """Set while somebody waits for a reading: the next one must not wait for its turn."""
        self._reading_count = 0
        self._arrived = asyncio.Event()

    @property
    def present(self) -> Hashable:
        """A value that is equal as long as `chosen` names the same devices: their keys, labels and sizes."""
        return tuple((device.key, device.label, device.usable_bytes) for device in self.newest.devices)

    def take(self, report: GpuReport) -> None:
        self.amend(report)
        self._reading_count += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    def amend(self, report: GpuReport) -> None:
        """Add details to the newest reading, without counting as a new one."""
        self.newest = report
        self._chosen.clear()

    async def first(self) -> GpuReport:
        """The newest reading, once there is one; the empty report if the driver does not answer."""
        return await self._after(1)

    async def fresh(self) -> GpuReport:
        """A reading started after this call (the one in progress may be older); else as `first`."""
        return await self._after(self._reading_count + 2)

    async def _after(self, count: int) -> GpuReport:
        with contextlib.suppress(TimeoutError):  # the driver hangs: what there is must do
            async with asyncio.timeout(READING_TIMEOUT_S):
                while self._reading_count < count:
                    self.wanted.set()
                    await self._arrived.wait()
        return self.newest

    def chosen(self, choice: GpuChoice) -> tuple[GpuDevice, ...]:
        """The devices of this machine that `choice` names."""
        if choice not in self._chosen:
            self._chosen[choice] = chosen_devices(choice, self.newest.devices)
        return self._chosen[choice]
