"""A start that needs GPU memory waits for it, and says who holds it. NVML is the C double."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import SHARED, scenario_of, with_gpus
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUT = """\
framework = "generic"
[[component]]
id = "serve"
kind = "service"
command = ["{python}", "-I", "-c", "import signal; signal.pause()"]
gpus = "0"
gpu_memory = "0.9"
wait_s = 30
stop = { grace_s = 2 }
"""


def test_start_waits_for_gpu_memory_and_names_its_holders(box: Box) -> None:
    box = with_gpus(box, SHARED)
    (box.work / "run.toml").write_text("max_steps = 1\n")
    (box.work / "parts.toml").write_text(LAYOUT)
    started = box.run("up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    assert started.returncode == 0, started.stderr
    reason = retry_until(lambda: box.component("serve")["reason"])
    assert box.component("serve")["state"] == "waiting"
    assert reason.startswith("waiting for GPU 0: needs 21.2 GiB free, ")
    assert "12.0 GiB held by pid 4100001" in reason
    scenario_of(box).write_text(SHARED.replace("0.used 19327352832", "0.used 1073741824"))
    box.wait_for("serve", "ready")
    assert box.component("serve")["attempt"] == 1
