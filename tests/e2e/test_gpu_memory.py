"""GPU memory of a whole experiment: who holds it, what will fit, who loads when. NVML is the C double."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import scenario_of, with_gpus
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

GIB = 1 << 30
TOTAL, RESERVED = 24 * GIB, GIB // 2
CONFIG = """\
max_steps = 1

[inference]
gpu_memory_utilization = 0.5

[trainer.model]
seq_len = 4096
"""
LAYOUT = """\
framework = "generic"
[[component]]
id = "trainer"
command = ["{python}", "-I", "-c", "import signal; signal.pause()"]
gpus = "0"
stop = { grace_s = 2 }

[[component]]
id = "inference"
kind = "service"
command = ["{python}", "-I", "-c", "import signal; signal.pause()"]
env = { CUDA_VISIBLE_DEVICES = "0" }
gpu_memory = "UTIL"
wait_s = 30
ready = { file = "{workspace}/loaded" }
stop = { grace_s = 2 }
"""


@dataclass(frozen=True)
class GpuBox:
    """A box with one 24 GiB card, whose memory the test sets."""

    box: Box
    scenario: Path

    def hold(self, *used_bytes: tuple[int, int], other_bytes: int = 0) -> None:
        """(pid, bytes) of each process on the card, and memory that no process accounts for."""
        used = sum(size for _, size in used_bytes) + other_bytes
        lines = [
            "count 1",
            f"0.total {TOTAL}",
            f"0.reserved {RESERVED}",
            f"0.used {used}",
            *(f"0.compute {pid} {size}" for pid, size in used_bytes),
        ]
        unfinished = self.scenario.with_suffix(".new")
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.replace(self.scenario)

    def start(self, *arguments: str, utilization: float = 0.5) -> None:
        """Start it without waiting until it is ready."""
        (self.box.work / "run.toml").write_text(CONFIG)
        (self.box.work / "parts.toml").write_text(LAYOUT.replace("UTIL", str(utilization)))
        started = self.box.run(
            "up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait", *arguments
        )
        assert started.returncode == 0, started.stderr

    def device(self) -> Any:
        """The card as the supervisor tells it."""
        return self.box.json("gpus", "one")["devices"][0]

    def share(self, component: str) -> Any:
        """Bytes that a component holds, `None` where it holds nothing."""
        return next((s for s in self.device()["shares"] if s["component"] == component), None)

    def pid(self, component: str) -> int:
        """Pid of the component's main process."""
        return int(self.box.component(component)["pid"])

    def load(self) -> None:
        """Let the engine become ready."""
        (self.box.work / "loaded").write_text("")


@pytest.fixture
def gpu_box(box: Box) -> GpuBox:
    gpus = GpuBox(with_gpus(box, ""), scenario_of(box))
    gpus.hold()
    return gpus


def until(probe: Callable[[], Any]) -> Any:
    return retry_until(probe, timeout_s=20.0, interval_s=0.1)


@pytest.mark.slow
def test_trainer_loads_second_and_memory_has_owners_budget_and_peaks_which_the_next_plan_knows(
    gpu_box: GpuBox,
) -> None:
    gpu_box.start()
    gpu_box.box.wait_for("inference", "starting")
    held_back = gpu_box.box.component("trainer")
    assert held_back["state"] == "waiting"
    assert held_back["reason"] == (
        "waiting for inference to be ready, which measures the shared GPU while it starts"
    )
    gpu_box.load()
    gpu_box.box.wait_for("trainer", "ready")
    inference, trainer = gpu_box.pid("inference"), gpu_box.pid("trainer")

    gpu_box.hold((inference, 12 * GIB), (trainer, 9 * GIB), other_bytes=GIB)
    until(lambda: gpu_box.share("trainer"))
    gpu_box.hold((inference, 12 * GIB), (trainer, 4 * GIB), other_bytes=GIB)
    share = until(lambda: (s := gpu_box.share("trainer")) and s["used_bytes"] == 4 * GIB and s)
    device = gpu_box.device()
    assert (share["owner"], share["pids"], share["peak_bytes"]) == ("component", [trainer], 9 * GIB)
    assert sum(share["used_bytes"] for share in device["shares"]) == device["used_bytes"]
    assert {share["owner"] for share in device["shares"]} == {"component", "hidden"}
    [budget] = device["budgets"]
    assert (budget["component"], budget["utilization"]) == ("inference", 0.5)
    assert budget["budget_bytes"] == (TOTAL - RESERVED) // 2

    plan = gpu_box.box.json("restart", "-c", "inference", "-c", "trainer", "--plan")
    [verdict] = [verdict for verdict in plan["memory"] if verdict["component"] == "inference"]
    assert (verdict["verdict"], verdict["peak_bytes"]) == ("fits", 9 * GIB), verdict
    assert verdict["free_bytes"] == TOTAL - RESERVED - GIB  # what both hold is given back first
    assert any("which measures the shared GPU while it starts" in reason for reason in plan["reasons"])

    history = gpu_box.box.run("down")
    assert history.returncode == 0, history.stderr
    peaks = json.loads((gpu_box.box.work / "out/.rltui/components/trainer/attempt-1/gpu.json").read_text())
    assert list(peaks["peak_bytes"].values()) == [9 * GIB]


@pytest.mark.slow
def test_plan_warns_where_the_engine_will_be_refused_and_says_what_passes(gpu_box: GpuBox) -> None:
    gpu_box.hold((1, 10 * GIB))
    gpu_box.start("--only", "inference", utilization=0.9)
    waits = until(lambda: gpu_box.box.component("inference")["reason"])
    assert waits.startswith("waiting for GPU 0: needs 21.2 GiB free"), waits
    plan = gpu_box.box.json("restart", "-c", "inference", "--plan")
    [verdict] = plan["memory"]
    assert (verdict["verdict"], verdict["component"]) == ("will_refuse", "inference"), verdict
    [problem] = [problem for problem in plan["problems"] if problem["key"] == "gpu_memory"]
    assert problem["severity"] == "warning"
    assert problem["message"] == verdict["text"]
    report = gpu_box.box.json("gpus", "one")
    assert [verdict["component"] for verdict in report["verdicts"]] == ["inference"]


@pytest.mark.slow
def test_trainer_that_will_not_fit_is_told_before_it_starts(gpu_box: GpuBox) -> None:
    gpu_box.load()
    gpu_box.start()
    gpu_box.box.wait_for("trainer", "ready")
    trainer = gpu_box.pid("trainer")
    gpu_box.hold((trainer, 14 * GIB))
    until(lambda: gpu_box.share("trainer"))
    plan = gpu_box.box.json("restart", "-c", "inference", "-c", "trainer", "--plan")
    [verdict] = plan["memory"]
    assert verdict["verdict"] == "trainer_short", verdict
    assert 0.2 < verdict["safe_utilization"] < 0.4
    config = gpu_box.box.work / "run.toml"
    config.write_text(CONFIG.replace("4096", "2048"))
    [memory] = gpu_box.box.json("restart", "-c", "inference", "-c", "trainer", "--plan")["memory"]
    assert any("trainer.model.seq_len was 4096, is 2048" in note for note in memory["notes"]), memory


@pytest.mark.slow
def test_check_says_what_will_fit_before_anything_runs(gpu_box: GpuBox) -> None:
    gpu_box.hold((1, 10 * GIB))
    (gpu_box.box.work / "run.toml").write_text(CONFIG)
    (gpu_box.box.work / "parts.toml").write_text(LAYOUT.replace("UTIL", "0.7"))
    check = gpu_box.box.json("check", "run.toml", "-l", "parts.toml")
    [verdict] = check["memory"]
    assert check["valid"]
    assert (verdict["verdict"], verdict["component"]) == ("will_refuse", "inference")
    text = gpu_box.box.run("check", "run.toml", "-l", "parts.toml").stdout
    assert f"warning: {verdict['text']}\n" in text
    assert not (gpu_box.box.work / "outputs").exists()


@pytest.mark.slow
def test_history_knows_who_held_what(gpu_box: GpuBox) -> None:
    gpu_box.load()
    gpu_box.start()
    gpu_box.box.wait_for("trainer", "ready")
    gpu_box.hold((gpu_box.pid("trainer"), 3 * GIB), other_bytes=GIB)
    until(lambda: gpu_box.share("trainer"))
    code = (
        "import json; from rltui.client import launch\n"
        "with launch.connect(launch.choose('one')) as wire: print(json.dumps(wire.call('gpu_history')))"
    )
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, env=gpu_box.box.env, capture_output=True, check=True, timeout=30)
    [device] = json.loads(answer.stdout)["histories"]
    newest = {series["label"]: series["used_bytes"][-1] for series in device["series"]}
    assert newest == {"trainer": 3 * GIB, "others": GIB}
    assert len(device["times"]) == len(device["series"][0]["used_bytes"])
