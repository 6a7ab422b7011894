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

from rltui.core.gpu.report import GpuReport
from rltui.services.nvml_errors import ALL_FAILED, NO_BINDING, NO_DEVICES, session_reason

if TYPE_CHECKING:
    from rltui.services.nvml_device import Identity

log = logging.getLogger(__name__)

RETRY_S = 5.0
"""Least time between two attempts to initialise NVML. It can take seconds without persistence mode."""


class NvmlReader:
    """Reads every GPU that NVML shows to this process.

    Every call blocks, for many seconds with a wedged driver: keep a reader in one thread of its own. NVML
    is initialised by the first reading, and again after trouble with the driver as a whole. A single lost
    device is no such trouble: a new session might not show the healthy ones any more.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._nvml: Any = None
        self._reason: str | None = None
        self._retry_at = -math.inf
        self._identities: dict[int, Identity] = {}

    def read(self) -> GpuReport:
        """One reading of all devices. Never raises: what cannot be read is said in the report, in words."""
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
        """End the NVML session, as a GPU reset needs. A later `read` opens a new one."""
        self._reason = None
        self._retry_at = -math.inf
        self._shut_down()

    def _open(self) -> None:
        """Have an NVML session, a new one after trouble. Without success `_reason` says why."""
        now = self._monotonic()
        if now < self._retry_at or (self._nvml and self._reason is None):
            return
        self._retry_at = now + RETRY_S
        self._shut_down()
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self._reason = NO_BINDING
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self._reason = session_reason(error.value)
        else:
            self._nvml, self._reason = nvml, None

    def _shut_down(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._identities.clear()
        if nvml is None:
            return
        try:
            nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            log.debug("nvmlShutdown failed with code %d", error.value)

    def _read(self) -> GpuReport:
        from rltui.services.nvml_device import read_device

        try:
            driver = self._nvml.nvmlSystemGetDriverVersion()
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self._reason = session_reason(error.value)
            return self._unavailable()
        devices = tuple(read_device(index, self._identities) for index in range(count))
        if not devices:
            self._reason = NO_DEVICES
            return self._unavailable(driver)
        # Where nothing at all can be read, the session itself may be the trouble: `_open` makes a new one.
        self._reason = ALL_FAILED if all(device.problem for device in devices) else None
        return GpuReport(available=True, driver=driver, devices=devices, sampled_at=time.time())

    def _unavailable(self, driver: str | None = None) -> GpuReport:
        return GpuReport(available=False, reason=self._reason, driver=driver, sampled_at=time.time())
