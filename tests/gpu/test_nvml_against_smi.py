"""The reader against `nvidia-smi` on a machine with a driver."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rltui.core.gpu.report import GpuDevice
from rltui.services.gpu.nvml import NvmlReader

pytestmark = pytest.mark.gpu

MIB = 1 << 20
MEMORY = ("memory.total", "memory.reserved", "memory.used", "memory.free")
FIXED = ("name", "enforced.power.limit", "clocks.max.sm", "pcie.link.width.current")
ECC = "ecc.errors.uncorrected.volatile.total"
PROCESSES = ("gpu_uuid", "pid", "used_memory")


def smi(query: str, fields: tuple[str, ...]) -> list[list[str]]:
    """Rows of cells, in MiB, W and MHz. A cell without a figure is in brackets."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no nvidia-smi on PATH to compare with")
    command = ["nvidia-smi", f"--query-{query}={','.join(fields)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    return [line.split(", ") for line in output.stdout.splitlines()]


def smi_devices(fields: tuple[str, ...]) -> dict[str, list[str]]:
    """Cells by UUID."""
    return {uuid: cells for uuid, *cells in smi("gpu", ("uuid", *fields))}


def read(reader: NvmlReader) -> dict[str, GpuDevice]:
    """Whole devices by UUID."""
    report = reader.read()
    assert report.available, report.reason
    return {device.uuid: device for device in report.devices if device.mig is None}


@pytest.fixture
def reader() -> NvmlReader:
    """With an open session: without persistence mode a device wakes up for it."""
    made = NvmlReader()
    made.read()
    return made


def test_memory_is_within_one_mib_of_nvidia_smi(reader: NvmlReader) -> None:
    rows = smi_devices(MEMORY)
    devices = read(reader)
    reader.close()
    assert devices.keys() <= rows.keys()
    for uuid, device in devices.items():
        ours = [device.total_bytes, device.reserved_bytes, device.used_bytes, device.free_bytes]
        assert all(value is not None for value in ours), device
        assert [(value or 0) / MIB for value in ours] == pytest.approx(
            [int(cell) for cell in rows[uuid]], abs=1
        )


def test_fixed_figures_are_those_of_nvidia_smi(reader: NvmlReader) -> None:
    rows = smi_devices((*FIXED, ECC))
    devices = read(reader)
    reader.close()
    for uuid, device in devices.items():
        ours = (device.power_limit_w, device.max_sm_clock_mhz, device.pcie_width, device.ecc_errors)
        name, *cells = rows[uuid]
        assert device.name == name
        assert list(ours) == [None if cell.startswith("[") else pytest.approx(float(cell)) for cell in cells]


def test_processes_are_those_of_nvidia_smi(reader: NvmlReader) -> None:
    theirs = {(uuid, int(pid)): used for uuid, pid, used in smi("compute-apps", PROCESSES)}
    devices = read(reader)
    reader.close()
    ours = {
        (uuid, process.pid): process.used_bytes
        for uuid, device in devices.items()
        for process in device.processes
        if "C" in process.kind
    }
    assert ours.keys() == {key for key in theirs if key[0] in devices}
    for key, used_bytes in ours.items():
        known = None if theirs[key].startswith("[") else pytest.approx(int(theirs[key]), abs=1)
        assert (None if used_bytes is None else used_bytes / MIB) == known


def test_processes_hold_no_more_than_is_used(reader: NvmlReader) -> None:
    devices = read(reader)
    reader.close()
    for device in devices.values():
        assert device.used_bytes is not None
        assert sum(process.used_bytes or 0 for process in device.processes) <= device.used_bytes
        assert not any(process.estimated for process in device.processes)
