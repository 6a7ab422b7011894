"""The reader against `nvidia-smi` on a machine with a driver."""

from __future__ import annotations

import subprocess

import pytest

from rltui.services.nvml import NvmlReader

MIB = 1 << 20
QUERY = "uuid,memory.total,memory.reserved,memory.used,memory.free"


def smi_rows() -> dict[str, list[int]]:
    """UUID to total, reserved, used and free in MiB."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    rows = [line.split(", ") for line in output.stdout.splitlines()]
    return {uuid: [int(number) for number in numbers] for uuid, *numbers in rows}


@pytest.mark.gpu
def test_memory_is_within_one_mib_of_nvidia_smi() -> None:
    reader = NvmlReader()
    reader.read()  # opens the session first: without persistence mode a device wakes up for it
    rows = smi_rows()
    report = reader.read()
    reader.close()

    assert report.available, report.reason
    assert rows.keys() == {device.uuid for device in report.devices}
    for device in report.devices:
        ours = [device.total_bytes, device.reserved_bytes, device.used_bytes, device.free_bytes]
        assert all(value is not None for value in ours), device
        assert [(value or 0) / MIB for value in ours] == pytest.approx(rows[device.uuid], abs=1)
