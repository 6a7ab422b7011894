"""Calls on one NVML handle, and the meaning of NVML's return codes. Importing this module imports
`pynvml`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pynvml


class NvmlCode(IntEnum):
    """Return codes with a meaning for a monitor."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    ARGUMENT_VERSION_MISMATCH = 25
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


DEVICE_GONE = frozenset({NvmlCode.UNINITIALIZED, NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED})
"""No further call on the same handle can succeed."""

STALE_HANDLE = DEVICE_GONE | {NvmlCode.INVALID_ARGUMENT}
"""A new handle may work, as after a reset."""

ABSENT_CALL = frozenset(
    {NvmlCode.NOT_SUPPORTED, NvmlCode.FUNCTION_NOT_FOUND, NvmlCode.ARGUMENT_VERSION_MISMATCH}
)
"""This driver or card does not have the call. An older form of it may work."""

NO_DEVICES = "no NVIDIA GPU on this machine: the driver is loaded but lists none"
NOT_LISTED = "lost: no longer listed by the driver (see Xid in dmesg)"
NO_SLICES = "MIG is enabled, but the GPU has no slices yet"

_SESSION_REASONS: dict[int, str] = {
    NvmlCode.NO_PERMISSION: "no permission to use the NVIDIA driver: check the rights of /dev/nvidia*, "
    "or the container's device rules",
    NvmlCode.DRIVER_NOT_LOADED: "NVIDIA driver installed, but its kernel module is not loaded",
    NvmlCode.TIMEOUT: "the NVIDIA driver did not answer in time",
    NvmlCode.LIBRARY_NOT_FOUND: "no NVIDIA driver here (libnvidia-ml.so.1 not found)",
    NvmlCode.FUNCTION_NOT_FOUND: "the NVIDIA driver is too old for NVML",
    NvmlCode.GPU_IS_LOST: "a GPU fell off the bus and the driver no longer responds: reboot",
    NvmlCode.RESET_REQUIRED: "a GPU needs a reset before the driver responds again",
    NvmlCode.OPERATING_SYSTEM: "the operating system blocks the NVIDIA driver (cgroup or seccomp)",
    NvmlCode.LIB_RM_VERSION_MISMATCH: "the NVIDIA driver's library and kernel module differ in version, "
    "as after an update: reboot",
    NvmlCode.IN_USE: "the NVIDIA driver is busy",
    NvmlCode.NOT_READY: "the NVIDIA driver is still starting",
    NvmlCode.GPU_NOT_FOUND: NO_DEVICES,
    NvmlCode.UNKNOWN: (
        "the NVIDIA driver reports an unknown error: in a container, its devices were probably"
        " revoked: recreate the container"
    ),
}

_DEVICE_PROBLEMS: dict[int, str] = {
    NvmlCode.NO_PERMISSION: "no permission to read this GPU: check the container's device rules",
    NvmlCode.TIMEOUT: "did not answer in time",
    NvmlCode.GPU_IS_LOST: "lost: it fell off the bus (see Xid in dmesg); needs a reboot",
    NvmlCode.RESET_REQUIRED: "needs a reset",
    NvmlCode.OPERATING_SYSTEM: "blocked by the operating system (cgroup or seccomp)",
    NvmlCode.IN_USE: "busy",
    NvmlCode.UNKNOWN: "the driver reports an unknown error",
}


def session_reason(code: int) -> str:
    """The reason why NVML as a whole cannot be read, and a remedy, in one line."""
    return _SESSION_REASONS.get(code, f"the NVIDIA driver reports error {code}")


def device_problem(code: int) -> str:
    return _DEVICE_PROBLEMS.get(code, f"cannot be read: NVML error {code}")


class NvmlHandle:
    """Calls NVML for one device or MIG slice. A call that is not supported is made once per handle only."""

    def __init__(self, raw: object) -> None:
        self.raw = raw
        """NVML's own handle; may be replaced by a newer one of the same device."""
        self._absent: set[tuple[object, ...]] = set()

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - pynvml is untyped
        """The result of `pynvml.<name>(handle, *arguments)`.

        Raises:
            NVMLError: The call failed, now or, if it is not supported, once before.
        """
        key = (name, *arguments)
        if key in self._absent:
            raise pynvml.NVMLError(NvmlCode.NOT_SUPPORTED)
        function = getattr(pynvml, name, None)
        try:
            if function is None:  # a binding older than the call
                raise pynvml.NVMLError(NvmlCode.FUNCTION_NOT_FOUND)
            return function(self.raw, *arguments)
        except pynvml.NVMLError as error:
            if error.value in ABSENT_CALL:
                self._absent.add(key)
            raise

    def try_call(self, name: str, *arguments: object) -> Any | None:  # noqa: ANN401 - pynvml is untyped
        """Like `call`, with `None` if this card, driver or container does not give the value.

        Raises:
            NVMLError: The device itself is gone.
        """
        if (name, *arguments) in self._absent:
            return None
        try:
            return self.call(name, *arguments)
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            return None
