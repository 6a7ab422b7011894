"""The GPU panel and the GPU screen, with GPUs in every state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fakes.experiment import FakeExperiment, gpu_histories, knob_table, running_status
from tests.ui.conftest import press, screen_lines, until
from tests.ui.gpu_scenarios import SCENARIOS
from tests.ui.scenes.scene import SMALL, Scene, on, scene
from textual.pilot import Pilot

from rltui.ui.app import RltuiApp
from rltui.ui.widgets.gpu_chart import GpuChart

INFERENCE_OF_24 = "█ inference 11.2 · peak 11.7 · budget 0.5 ┊ 12.0"
INFERENCE_OF_80 = "█ inference 71.2 · peak 71.7 · budget 0.9 ┊ 72.0"
TRAINER = "▒ trainer 8.6 · peak 9.1"
NO_INFERENCE = "█ inference · budget 0.5 ┊ 12.0"
LOST = "⚠ 1 H100: fell off the bus (GPU is lost); it usually takes a"
UNREACHED = "⚠ node8: srun: error: Unable to confirm allocation for job 4711"

WORDS: dict[str, tuple[str, ...]] = {
    "shared": ("20.2/24.0", INFERENCE_OF_24, TRAINER, "▨ unattributed 0.4  ░ free 3.8"),
    "two": ("71.2/80.0", INFERENCE_OF_80, "░ free 8.8", "54.4/80.0"),
    "eight": ("71.2/80.0  98%  58°", "56.4/80.0  98%  64°"),
    "mig": ("17.1/39.5", "█ inference 17.1 · peak 17.6 · budget 0.5 ┊ 19.8", "░ free 22.4", "12.2/39.5"),
    "lost": (INFERENCE_OF_80, "░ free 8.8", LOST),
    "no-driver": ("No GPUs: the NVIDIA driver is not installed",),
    "estimates": ("█ inference ~11.2", "▒ trainer ~8.6 · peak 9.1", "▦ unknown owner 0.7  ░ free 3.5"),
    "unified": ("unified memory", "63.0/120", "█ inference 41.0 · peak 41.5 · budget 0.4", "░ free 56.6"),
    "old-driver": ("incl. reserved", "11.2/24.0", INFERENCE_OF_24, "░ free 12.8"),
    "stale": ("⚠ 12s old", "19.8/24.0", INFERENCE_OF_24, TRAINER),
    "orphans": (NO_INFERENCE, "× leftover 9.4  ? unknown 3.0  ▤ alice 1.2  ░ free 4.3"),
    "bad-verdict": ("▒ trainer 14.9", NO_INFERENCE, "✗ inference needs 12.0 GiB free, 9.1 are free"),
    "good-verdict": (NO_INFERENCE, "✓ fits: inference takes 12.0 of 15.4 GiB free, 3.4 stay for the"),
    "worn": (INFERENCE_OF_80, "throttled: power brake and thermal slowdown", "3 uncorrected memory errors"),
    "other-host": ("8.6/24.0", "node7", "71.2/80.0", UNREACHED),
}  # fmt: skip
"""Panel and screen alike. "mismatch" and "four" look like "no-driver", "two" and "eight"."""
ON_PANEL: dict[str, tuple[str, ...]] = {
    "shared": ("RTX 4090", "83 %  312/450 W  66 °C"),
    "eight": ("█ inference 282 · on 4 GPUs · peak 71.7 each", "▒ trainer 224 · on 4 GPUs · peak 57.9 each"),
    "mig": ("0.0 H100 MIG 3g.40gb", "0.1 H100 MIG 3g.40gb"),
    "orphans": ("⚠ unknown pid 5120 python 3.0 GiB · K", "K end"),
    "worn": ("⚠ GPU 0, 1: throttled", "⚠ GPU 0: 3 uncorrected"),
    "other-host": (INFERENCE_OF_80,),
}
ON_SCREEN: dict[str, tuple[str, ...]] = {
    "shared": ("NVIDIA GeForce RTX 4090 · power 312 of 450 W", "▸ 4242   me", "4300   me"),
    "two": ("reserved 0.5 GiB · memory busy 41 %", "PCIe 5 ×16", "18 NVLinks · ECC errors 0"),
    "eight": (INFERENCE_OF_80, "▸ 4242   me"),
    "mig": ("Processes of GPU 0.0", "H100 80GB HBM3 MIG 3g.40gb · MIG-1"),
    "estimates": ("~11.2 GiB  47 %", "▦ unknown owner", "peak 20.5 GiB now · ▤ others"),
    "worn": ("power 640 of 700 W · ECC errors 3",),
    "orphans": ("▸ 4711   me", "? ⚠ unattributed, yours", "▤ another user's", "python eval.py"),
    "bad-verdict": ("14.9 GiB  62 %", "12.0 ┊"),
}


def experiment_with(name: str) -> FakeExperiment:
    report = SCENARIOS[name]
    experiment = FakeExperiment(running_status(), report, knob_table())
    experiment.histories = gpu_histories(report)
    return experiment


def app_with(name: str) -> Callable[[Path], RltuiApp]:
    return on(lambda: experiment_with(name))


async def to_panel(pilot: Pilot[None]) -> None:
    """Where there is little room, only the focus opens it."""
    if pilot.app.size == SMALL:
        await press(pilot, "i", "shift+tab", "shift+tab")


async def to_screen(pilot: Pilot[None]) -> None:
    await press(pilot, "3")
    if "driver" in screen_lines(pilot)[0]:  # else there is no GPU
        await until(pilot, lambda: pilot.app.screen.query_one(GpuChart).history is not None)


def panel(name: str) -> Scene:
    words = (*WORDS[name], *ON_PANEL.get(name, ()))
    return scene(app_with(name), to_panel, "reverse-text · ", *words, small=(), huge=())


def screen(name: str) -> Scene:
    has_gpus = bool(SCENARIOS[name].devices)
    words = (*WORDS[name], *ON_SCREEN.get(name, ()))
    title = "GPUs · driver 570.124 · every 1 s" if has_gpus else "reverse-text · GPUs"
    return scene(
        app_with(name), to_screen, title, "pid    user", "last 10 minutes", "+ closer",
        *words,
        small=(), huge=(),
    )  # fmt: skip


SCENES = {f"gpu-panel-{name}": panel(name) for name in WORDS} | {
    f"gpu-screen-{name}": screen(name) for name in WORDS
}
