"""GPU readings through NVML, by way of `nvidia-ml-py` (module `pynvml`).

`pynvml` is imported with the first reading only: a machine without a GPU pays nothing at start.
"""

from __future__ import annotations

import importlib
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rltui.core.gpu.report import GpuDevice, GpuReport

if TYPE_CHECKING:  # these import pynvml
    from rltui.services.gpu.nvml.device import Gpu, GpuRoster

log = logging.getLogger(__name__)

_FIRST_RETRY_S = 5.0
_LONGEST_RETRY_S = 60.0
"""Longest time between two attempts to initialise NVML; it doubles with each. One can take seconds without
persistence mode.
"""


class NvmlReader:
    """The `GpuReader` of NVIDIA: all GPUs that NVML lists, slowly changing values less often.

    Every call blocks, for many seconds with a wedged driver: use a reader in one thread of its own. NVML is
    initialised by the first reading, and again after a failure of the driver as a whole. A single lost device
    is no such failure: a new session might not list the healthy ones any more.
    """

    driver = "the NVIDIA driver"
    stuck_hint = "check that nvidia-smi responds; a hanging driver often needs a reboot (see `dmesg`)"

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._nvml: Any = None
        self._driver: str | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._roster: GpuRoster | None = None
        """The roster survives NVML sessions."""
        self._reason: str | None = None
        self._retry_at = -math.inf
        self._pause_s = _FIRST_RETRY_S

    def read(self) -> GpuReport:
        """One reading of all devices. Never raises: failures are described in the report."""
        try:
            self._open()
            return self._read() if self._nvml else self._unavailable()
        except Exception as error:  # a broken driver or binding must not end the thread
            reason = f"GPU reading failed: {type(error).__name__}: {error}"
            if reason != self._reason:
                log.warning("GPU reading failed", exc_info=error)
            self._reason = reason
            return self._unavailable()

    def close(self) -> None:
        """Close the NVML session, as a GPU reset needs. A later `read` opens a new one."""
        self._reason = None
        self._retry_at = -math.inf
        self._pause_s = _FIRST_RETRY_S
        self._shut_down()

    def _open(self) -> None:
        """Ensure an NVML session, a new one after a failure. Without success `_reason` is set."""
        now = self._monotonic()
        if now < self._retry_at or (self._nvml and self._reason is None):
            return
        self._retry_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_RETRY_S)
        self._shut_down()
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self._reason = "the Python package nvidia-ml-py is missing or broken: reinstall rltui"
            return
        from rltui.services.gpu.nvml.handle import session_reason

        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self._reason = session_reason(error.value)
        else:
            self._nvml, self._reason = nvml, None

    def _shut_down(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._gpus, self._driver = (), None
        if nvml is None:
            return
        try:
            nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            log.debug("nvmlShutdown failed with code %d", error.value)

    def _read(self) -> GpuReport:
        from rltui.services.gpu.nvml.handle import NO_DEVICES, session_reason

        try:
            count = self._nvml.nvmlDeviceGetCount()
            if self._driver is None:
                self._driver = self._nvml.nvmlSystemGetDriverVersion()
        except self._nvml.NVMLError as error:
            self._reason = session_reason(error.value)
            return self._unavailable()
        if not count:
            self._reason = NO_DEVICES
            return self._unavailable()
        devices = self._read_devices(count)
        if all(device.problem for device in devices):
            # the session itself may be the trouble: `_open` makes a new one
            self._reason = "no GPU can be read"
        else:
            self._reason, self._pause_s = None, _FIRST_RETRY_S
        return GpuReport(available=True, driver=self._driver, devices=devices, sampled_at=time.time())

    def _read_devices(self, count: int) -> tuple[GpuDevice, ...]:
        from rltui.services.gpu.nvml.device import Gpu, GpuRoster

        self._roster = self._roster or GpuRoster()
        now = self._monotonic()
        if count != len(self._gpus):
            self._gpus = tuple(Gpu(identity) for identity in self._roster.expected(count))
        rows = [row for gpu in self._gpus for row in gpu.read(now)]
        return (*rows, *self._roster.missing_rows(gpu.identity for gpu in self._gpus))

    def _unavailable(self) -> GpuReport:
        return GpuReport(available=False, reason=self._reason, driver=self._driver, sampled_at=time.time())
