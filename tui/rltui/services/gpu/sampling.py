"""GPU readings by the clock, from a thread that a hung driver may keep, and for programs that do not stay."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Hashable
from contextlib import closing
from typing import Protocol

from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.errors import RltuiError
from rltui.services.gpu.accounting import GpuOwners
from rltui.services.gpu.nvml import NvmlReader

log = logging.getLogger(__name__)

_FIRST_INTERVAL_S = 1.0
_PATIENCE_S = 10.0
"""How long somebody waits for a reading. A driver may hang for minutes, and must not hold everything up."""


class GpuReader(Protocol):
    """Reads one vendor's GPUs of this machine; nothing else knows a driver. For one thread only."""

    driver: str
    """What texts call the driver: `the NVIDIA driver`."""
    stuck_hint: str
    """What a person may try where it does not answer."""

    def read(self) -> GpuReport:
        """A bare reading: figures of devices, and processes without owners. Never raises; may block."""
        ...

    def close(self) -> None: ...


class GpuSampler:
    """Hands over readings from a daemon thread of its own. The other methods return at once, in any thread.

    Args:
        take: gets each reading, and how long it is until the next one, in the sampler's thread.
        reader: `None` for this machine's GPUs.
    """

    def __init__(self, take: Callable[[GpuReport, float], None], *, reader: GpuReader | None = None) -> None:
        self._take = take
        self.reader: GpuReader = reader or NvmlReader()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._changed = threading.Condition()
        self._interval_s = _FIRST_INTERVAL_S
        self._wanted = False
        self._closing = False
        self._reading_since: float | None = None

    @property
    def stuck_s(self) -> float:
        """How long the reading under way has lasted; 0.0 between readings."""
        since = self._reading_since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Begin, with a reading right away. Once per sampler."""
        self._thread.start()

    def set_interval(self, seconds: float) -> None:
        """From one reading's beginning to the next. Holds for the present pause too."""
        with self._changed:
            self._interval_s = seconds
            self._changed.notify()

    def read_now(self) -> None:
        """Take a reading that begins after this call, without waiting for its turn."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def close(self, timeout_s: float = 1.0) -> bool:
        """End the thread and give the driver back. Nothing is handed over any more, but for what is just now.

        Returns:
            False where the thread hangs in the driver: it is left alone, and does not keep the program alive.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (began := self._begin()) is not None:
            report = self.reader.read()
            if (interval_s := self._end()) is None:
                break
            try:
                self._take(report, interval_s)
            except Exception:
                log.exception("a GPU reading could not be handed over")
            self._pause(began)
        self.reader.close()

    def _begin(self) -> float | None:
        """When the reading begins, on the monotonic clock; `None` if there shall be no more."""
        with self._changed:
            if self._closing:
                return None
            self._wanted = False
            self._reading_since = time.monotonic()
            return self._reading_since

    def _end(self) -> float | None:
        """The interval to be told with the reading; `None` if nobody wants it any more."""
        with self._changed:
            self._reading_since = None
            return None if self._closing else self._interval_s

    def _pause(self, began: float) -> None:
        """Wait for the next turn. Those that passed during the reading are left out."""
        ended = time.monotonic()
        with self._changed:
            while not (self._closing or self._wanted):
                turns = max(1, math.ceil((ended - began) / self._interval_s))
                rest_s = began + turns * self._interval_s - time.monotonic()
                if rest_s <= 0:
                    return
                self._changed.wait(rest_s)


_ANSWER_S = 10.0
"""A driver that takes longer for one reading hangs."""


def read_once(experiment: str | None = None) -> GpuReport:
    """With owners; components of `experiment` count as one's own. A driver that hangs is its reason."""
    with closing(readings(None, experiment)) as reports:
        try:
            return next(reports)
        except RltuiError as error:
            return GpuReport(available=False, reason=error.title)


def readings(interval_s: float | None, experiment: str | None = None) -> Generator[GpuReport, None, None]:
    """As `read_once`: one, or endlessly many where an interval is given. To be closed in the end.

    Raises:
        RltuiError: if the driver hangs. The thread that asks it is left behind.
    """
    arrived: queue.SimpleQueue[GpuReport] = queue.SimpleQueue()
    sampler, owners = GpuSampler(lambda reading, _: arrived.put(reading)), GpuOwners(experiment)
    if interval_s is not None:
        sampler.set_interval(interval_s)
    sampler.start()
    try:
        patience_s = _ANSWER_S
        while True:
            reading = _newest(arrived, patience_s, sampler.reader)
            yield owners.attributed(reading.model_copy(update={"interval_s": interval_s}))
            if interval_s is None:
                return
            patience_s = interval_s + _ANSWER_S
    finally:
        sampler.close()


def _newest(arrived: queue.SimpleQueue[GpuReport], patience_s: float, reader: GpuReader) -> GpuReport:
    """Those that came while nobody took them are left out."""
    try:
        reading = arrived.get(timeout=patience_s)
    except queue.Empty:
        words = f"{reader.driver} has not answered for {_ANSWER_S:g} s"
        raise RltuiError(words, hint=reader.stuck_hint) from None
    while not arrived.empty():
        reading = arrived.get()
    return reading


class GpuReadings:
    """Shared by the watch, which takes readings, and by those who need them. Lives on one loop."""

    def __init__(self) -> None:
        self.newest = GpuReport(available=False, reason="not read yet")
        self._chosen: dict[GpuChoice, tuple[GpuDevice, ...]] = {}
        """Of the newest reading: asked for again and again, for every component."""
        self.wanted = asyncio.Event()
        """Somebody waits for a reading: the next one need not wait for its turn."""
        self._taken = 0
        self._arrived = asyncio.Event()

    @property
    def present(self) -> Hashable:
        """Which devices there are, and their size. The same value: `chosen` names the same ones."""
        return tuple((device.key, device.label, device.usable_bytes) for device in self.newest.devices)

    def take(self, report: GpuReport) -> None:
        self.amend(report)
        self._taken += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    def amend(self, report: GpuReport) -> None:
        """The newest reading with more about it: not a new one."""
        self.newest = report
        self._chosen.clear()

    async def first(self) -> GpuReport:
        """The newest reading, once there is one; what there is where the driver does not answer."""
        return await self._after(1)

    async def fresh(self) -> GpuReport:
        """A reading begun after this call, since the one under way may be older; as `first`."""
        return await self._after(self._taken + 2)

    async def _after(self, count: int) -> GpuReport:
        with contextlib.suppress(TimeoutError):  # the driver hangs: what there is must do
            async with asyncio.timeout(_PATIENCE_S):
                while self._taken < count:
                    self.wanted.set()
                    await self._arrived.wait()
        return self.newest

    def chosen(self, choice: GpuChoice) -> tuple[GpuDevice, ...]:
        """The devices of this machine that `choice` names."""
        if choice not in self._chosen:
            self._chosen[choice] = chosen_devices(choice, self.newest.devices)
        return self._chosen[choice]
