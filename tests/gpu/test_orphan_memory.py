"""Device memory held by what a killed component left behind: seen, freed, gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.gpu.device import GIB, Cuda
from tests.gpu.holder import PROGRAMS
from tests.waiting import retry_until

pytestmark = [pytest.mark.gpu, pytest.mark.tmux, pytest.mark.timeout(180)]

HELD_BYTES = 2 * GIB
LAYOUT = """\
framework = "generic"
[[component]]
id = "serve"
command = ["{python}", "PARENT", "BYTES", "{workspace}/holds"]
gpus = "UUID"
stop = { grace_s = 5, leftovers = "keep" }
"""


def test_memory_of_an_orphan_is_shown_and_freed(gpu_box: Box, cuda: Cuda) -> None:
    box, file = gpu_box, gpu_box.work / "holds"
    (box.work / "run.toml").write_text("max_steps = 1\n")
    words = {"PARENT": PROGRAMS / "parent.py", "BYTES": HELD_BYTES, "UUID": cuda.now().uuid}
    layout = LAYOUT
    for word, value in words.items():
        layout = layout.replace(word, str(value))
    (box.work / "parts.toml").write_text(layout)
    before = cuda.used_bytes()
    box.json("up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out")
    retry_until(file.exists, timeout_s=60, interval_s=0.1)
    held = cuda.used_bytes() - before
    assert held >= HELD_BYTES

    os.kill(box.component("serve")["pid"], signal.SIGKILL)
    [orphan] = retry_until(lambda: box.json("gpus", "orphans")["orphans"], interval_s=0.2)
    assert orphan["pid"] == int(file.read_text())
    if gpus_name_processes(box, cuda, orphan["pid"]):
        [orphan] = retry_until(
            lambda: [one for one in box.json("gpus", "orphans")["orphans"] if one["gpu_bytes"]],
            interval_s=0.5,
        )
        print(f"\norphan: {orphan['gpu_bytes'] / GIB:.2f} GiB, measured {held / GIB:.2f} GiB")
        assert orphan["gpu_bytes"] == pytest.approx(held, rel=0.05)
    else:
        print("\nthe driver's pids name no process here, as in a container: sizes of orphans are not known")

    freed = box.json("gpus", "orphans", "--end", "--yes")
    assert [one["pid"] for one in freed["ended"]] == [orphan["pid"]]
    retry_until(lambda: cuda.used_bytes() <= before + held / 20, timeout_s=10, interval_s=0.2)
    print(f"freed: {cuda.used_bytes() / GIB:.2f} GiB used, {before / GIB:.2f} GiB before")


def gpus_name_processes(box: Box, cuda: Cuda, pid: int) -> bool:
    """Whether NVML lists a process by the pid that it has here."""
    assert Path(f"/proc/{pid}").exists()
    return any(process["pid"] == pid for process in cuda.row_of(box.json("gpus"))["processes"])
