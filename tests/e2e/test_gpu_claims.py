"""Two experiments that start at the same instant never count on the same GPU memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import scenario_of, with_gpus
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

GIB = 1 << 30
CARD = f"""\
driver 580.95.05
count 1
0.name NVIDIA A100-SXM4-80GB
0.uuid GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
0.total {80 * GIB}
0.reserved 0
"""
LAYOUT = """\
framework = "generic"
[[component]]
id = "inference"
kind = "service"
command = ["{{python}}", "-I", "-S", "-c", "import signal; signal.pause()"]
gpus = "0"
gpu_memory = "0.6"
wait_s = 30
ready = {{ file = "{ready}", timeout_s = 60 }}
stop = {{ grace_s = 2 }}
"""


def at_once(box: Box, names: tuple[str, ...]) -> list[subprocess.CompletedProcess[str]]:
    """`up` of all of them, by real processes."""

    def up(name: str) -> subprocess.CompletedProcess[str]:
        command = ["up", "-l", f"./{name}.toml", "-n", name, "-o", name, "--no-wait", "--json"]
        return subprocess.run(
            [sys.executable, "-m", "rltui", *command],
            cwd=box.work,
            env=box.env,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor() as pool:
        return list(pool.map(up, names))


def test_two_that_start_at_once_take_turns(box: Box) -> None:
    box = with_gpus(box, f"{CARD}0.used 0\n")
    for name in ("a", "b"):
        (box.work / f"{name}.toml").write_text(LAYOUT.format(ready=box.work / f"{name}.ready"))
    for result in at_once(box, ("a", "b")):
        assert result.returncode == 0, result.stderr + result.stdout

    def inference_of(name: str) -> dict[str, Any]:
        return box.component("inference", experiment=name)

    def turns() -> list[str]:
        states = {name: inference_of(name) for name in ("a", "b")}
        order = sorted(states, key=lambda name: states[name]["state"])  # starting, waiting
        waits = states[order[1]]["reason"] or ""
        is_so = [states[name]["state"] for name in order] == ["starting", "waiting"] and "reserved" in waits
        return order if is_so else []

    first, second = retry_until(turns, timeout_s=60)
    assert inference_of(second)["reason"] == (
        f"waiting for GPU 0: needs 48.6 GiB, 80.0 GiB free; 48.6 GiB reserved for {first}, which is starting"
    )
    output = box.run("gpus").stdout
    assert f"{first}/inference is starting and will take 48.6 GiB more" in output
    checked = json.loads(box.run("check", "-l", f"./{second}.toml", "--json").stdout)
    assert f"48.6 GiB reserved for {first}, which is starting" in json.dumps(checked["memory"])

    # It loads its model, while its supervisor is killed, and is ready.
    os.kill(box.supervisor_pid(first), signal.SIGKILL)
    pid = inference_of(first)["pid"]
    scenario_of(box).write_text(f"{CARD}0.used {20 * GIB}\n0.compute {pid} {20 * GIB}\n")
    retry_until(lambda: "28.6 GiB reserved" in (inference_of(second)["reason"] or ""), timeout_s=20)
    scenario_of(box).write_text(f"{CARD}0.used {48 * GIB}\n0.compute {pid} {48 * GIB}\n")
    (box.work / f"{first}.ready").touch()
    retry_until(lambda: inference_of(first)["state"] == "ready", timeout_s=20)
    retry_until(lambda: "48.0 GiB held by" in (inference_of(second)["reason"] or ""), timeout_s=20)
    retry_until(lambda: not list((box.root / "state/rltui/gpu_claims").glob("[ab]")))

    assert box.run("down", first).returncode == 0
    scenario_of(box).write_text(f"{CARD}0.used 0\n")
    (box.work / f"{second}.ready").touch()
    retry_until(lambda: inference_of(second)["state"] == "ready", timeout_s=20)
