"""Takes GPU readings by the clock, in a thread that a hung driver may keep for good."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from rltui.core.gpu.report import GpuReport
from rltui.services.nvml import NvmlReader

log = logging.getLogger(__name__)

FIRST_INTERVAL_S = 1.0


class GpuReader(Protocol):
    """Used by one thread only."""

    def read(self) -> GpuReport:
        """Take a reading. Never raises; may block."""
        ...

    def close(self) -> None:
        """Give the driver back."""
        ...


class GpuSampler:
    """Hands over readings from a daemon thread of its own. The other methods return at once, in any thread.

    Args:
        take: gets each reading, with `interval_s`, in the sampler's thread.
        reader: `None` for this machine's GPUs.
    """

    def __init__(self, take: Callable[[GpuReport], None], *, reader: GpuReader | None = None) -> None:
        self._take = take
        self._reader = reader or NvmlReader()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._changed = threading.Condition()
        self._interval_s = FIRST_INTERVAL_S
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
            report = self._reader.read()
            if (interval_s := self._end()) is None:
                break
            try:
                self._take(report.model_copy(update={"interval_s": interval_s}))
            except Exception:
                log.exception("a GPU reading could not be handed over")
            self._pause(began)
        self._reader.close()

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
