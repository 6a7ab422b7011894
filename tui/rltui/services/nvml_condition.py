"""How a GPU fares: what changes from moment to moment, what changes slowly, what stays."""

from __future__ import annotations

from typing import NamedTuple

import pynvml

from rltui.services.nvml_errors import DEVICE_GONE
from rltui.services.nvml_handle import Handle

UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
SINCE_LOADED = pynvml.NVML_VOLATILE_ECC

_HARDWARE_SLOWDOWN = 0x8
_HARDWARE_CAUSES = 0x40 | 0x80
"""Either of them sets `_HARDWARE_SLOWDOWN` too."""

THROTTLE_WORDS = {
    0x2: "application clocks",
    _HARDWARE_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""`nvmlClocksEventReason*` of NVIDIA's `nvml.h`. Idle (0x1) and the software power cap (0x4) are normal."""


class Load(NamedTuple):
    """Read each time."""

    utilization: float | None = None
    """0–1."""
    memory_utilization: float | None = None
    """0–1."""
    power_w: float | None = None
    sm_clock_mhz: int | None = None


class Condition(NamedTuple):
    """Read every few seconds."""

    power_limit_w: float | None = None
    temperature_c: float | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_errors: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class Build(NamedTuple):
    """Read once."""

    max_sm_clock_mhz: int | None = None
    nvlinks: int | None = None


def read_load(handle: Handle) -> Load:
    """All three readers: what the card does not give is `None`.

    Raises:
        NVMLError: The device is gone.
    """
    rates = handle.ask("nvmlDeviceGetUtilizationRates")
    return Load(
        utilization=None if rates is None else min(rates.gpu / 100, 1.0),
        memory_utilization=None if rates is None else min(rates.memory / 100, 1.0),
        power_w=_watts(handle.ask("nvmlDeviceGetPowerUsage")),
        sm_clock_mhz=handle.ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    )


def read_condition(handle: Handle) -> Condition:
    return Condition(
        power_limit_w=_watts(handle.ask("nvmlDeviceGetEnforcedPowerLimit")),
        temperature_c=_temperature(handle),
        memory_clock_mhz=handle.ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
        throttle=_throttle(handle),
        ecc_errors=handle.ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, SINCE_LOADED),
        pcie_generation=handle.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_width=handle.ask("nvmlDeviceGetCurrPcieLinkWidth"),
    )


def read_build(handle: Handle) -> Build:
    return Build(
        max_sm_clock_mhz=handle.ask("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
        nvlinks=_active_nvlinks(handle),
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _temperature(handle: Handle) -> float | None:
    """By the newer call where driver and binding have it: the older one is to be removed."""
    sensor = pynvml.NVML_TEMPERATURE_GPU
    value: int | None = handle.ask("nvmlDeviceGetTemperatureV", sensor)
    return value if value is not None else handle.ask("nvmlDeviceGetTemperature", sensor)


def _throttle(handle: Handle) -> tuple[str, ...]:
    bits: int | None = handle.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:  # a driver older than the new name
        bits = handle.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return throttle_words(bits or 0)


def throttle_words(bits: int) -> tuple[str, ...]:
    """Why the clocks are lower than they could be. Bits as NVML has them; unknown ones are not named."""
    if bits & _HARDWARE_CAUSES:
        bits &= ~_HARDWARE_SLOWDOWN
    return tuple(words for bit, words in THROTTLE_WORDS.items() if bits & bit)


def _active_nvlinks(handle: Handle) -> int | None:
    """`None` where the card has no NVLink. The first link that the card does not know ends the search."""
    states: list[int] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(handle.call("nvmlDeviceGetNvLinkState", link))
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            break
    return sum(states) if states else None
