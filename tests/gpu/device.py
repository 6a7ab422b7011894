"""The device under test: as CUDA has it, and what NVML says is used there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rltui.core.gpu.report import GpuDevice
from rltui.services.gpu.nvml import NvmlReader

GIB = 1 << 30
PROBE = """\
import json, torch
if not torch.cuda.is_available():
    raise SystemExit(f"torch {torch.__version__} sees no CUDA device")
free, total = torch.cuda.mem_get_info(0)
print(json.dumps([str(torch.cuda.get_device_properties(0).uuid), torch.cuda.get_device_name(0), total]))
"""


@dataclass(frozen=True, slots=True)
class Cuda:
    """What torch calls `cuda:0`."""

    uuid: str
    """Without `GPU-`."""
    name: str
    total_bytes: int
    """As `cudaMemGetInfo` has it."""

    def now(self) -> GpuDevice:
        """A reading of it by NVML, of this moment."""
        reader = NvmlReader()
        report = reader.read()
        reader.close()
        return next(device for device in report.devices if self.uuid in device.uuid)

    def used_bytes(self) -> int:
        """By all processes together."""
        used = self.now().used_bytes
        assert used is not None
        return used

    def row_of(self, report: Any) -> Any:
        """The device in what `rltui gpus --json` prints."""
        assert report["available"], report["reason"]
        return next(device for device in report["devices"] if self.uuid in device["uuid"])


def probe_cuda() -> Cuda | str:
    """In a process of its own, whose context is gone when this returns; else why there is none."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["torch cannot be imported"]
        return f"no CUDA device: {lines[-1]}"
    return Cuda(*json.loads(done.stdout.splitlines()[-1]))
