"""The order in which CUDA counts the devices, asked of the driver by a process of its own.

This file is also that process's program, so it imports nothing of rltui. The driver library keeps what it saw
in the environment for good and may block for many seconds, so it is never loaded here. No context is created:
the devices' memory stays as it is.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import uuid

TIMEOUT_S = 20.0
"""`cuInit` takes seconds on a machine with many devices and without persistence mode."""

logger = logging.getLogger(__name__)


def fastest_first(*, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """UUIDs (`GPU-…`) in CUDA's own order, that of `CUDA_DEVICE_ORDER=FASTEST_FIRST`, which is the default.

    Blocks for about a second. Empty where there is no CUDA driver, or none that answers. Where there are MIG
    slices, CUDA lists one of them alone.
    """
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        logger.info("CUDA's order of devices is unknown: %s", error.stderr.strip())
        return ()
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("CUDA's order of devices is unknown: %s", error)
        return ()
    return tuple(done.stdout.split())


def _device_uuids() -> list[str]:
    """In this process's order.

    Raises:
        OSError: there is no driver, or it refuses.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    # The newer call (CUDA 11.4) tells slices of one GPU apart.
    get_uuid = cuda.cuDeviceGetUuid_v2 if hasattr(cuda, "cuDeviceGetUuid_v2") else cuda.cuDeviceGetUuid
    count = ctypes.c_int()
    _check("cuInit", cuda.cuInit(0))
    _check("cuDeviceGetCount", cuda.cuDeviceGetCount(ctypes.byref(count)))
    return [_device_uuid(get_uuid, ordinal) for ordinal in range(count.value)]


def _device_uuid(get_uuid: ctypes._NamedFuncPointer, ordinal: int) -> str:
    data = ctypes.create_string_buffer(16)
    # A `CUdevice` is the ordinal itself: `cuDeviceGet` only checks its range.
    _check("cuDeviceGetUuid", get_uuid(data, ordinal))
    return f"GPU-{uuid.UUID(bytes=data.raw)}"


def _check(call: str, result: int) -> None:
    if result != 0:
        raise OSError(f"{call} answered {result}")


if __name__ == "__main__":
    try:
        sys.stdout.writelines(f"{name}\n" for name in _device_uuids())
    except (OSError, AttributeError) as error:  # AttributeError: a library without these calls
        sys.exit(str(error))
