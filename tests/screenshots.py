"""Make the README's pictures from a real run of the demo: `.venv/bin/python -m tests.screenshots`.

Runs the demo in a temporary folder with a tmux server of its own and saves SVGs to `.github/screenshots/`.
The picture of the GPUs is of a real run, too, whose memory the NVML double of the tests makes up.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

REPOSITORY = Path(__file__).parents[1]
TARGET = REPOSITORY / ".github" / "screenshots"
SIZE = (150, 42)
STEP = 30
"""Step of the run at which the pictures are taken …"""
LATER_STEP = 200
"""… and at which those are that look back."""
LATER_SCREENS = (("4", "metrics", "Entropy"), ("5", "rollouts", "assistant"), ("2", "logs", "merged"))
"""Key, name of the picture, and a word that the screen shows once it is ready."""


GIB = 1 << 30
TRAINER_GIB = (0.5, 3.1, 6.4, 9.1, 9.7, 11.2, 9.8, 10.4, 11.0, 9.8, 10.9, 9.8)
"""GiB that the trainer is made to hold, every five seconds."""


@contextmanager
def own_box() -> Iterator[Path]:
    """Folders and a tmux server of our own, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rlt-") as name:
        root = Path(name)
        for folder in ("run", "state", "config/rltui", "tmux"):
            (root / folder).mkdir(mode=0o700, parents=True)
        (root / "config/rltui/settings.toml").write_text("tour = false\n")
        os.environ |= {
            "XDG_RUNTIME_DIR": f"{name}/run",
            "XDG_STATE_HOME": f"{name}/state",
            "XDG_CONFIG_HOME": f"{name}/config",
            "TMUX_TMPDIR": f"{name}/tmux",
            "RLTUI_TMUX_SOCKET": "screenshots",
        }
        os.environ.pop("TMUX", None)
        os.chdir(root)
        yield root


@contextmanager
def running(name: str, *command: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """An experiment that `rltui COMMAND…` starts; ended in the end."""
    try:
        subprocess.run([sys.executable, "-m", "rltui", *command], check=True, env=env)
        yield
    finally:
        subprocess.run([sys.executable, "-m", "rltui", "down", name], check=True)


async def photograph() -> None:
    """Open the app on the demo and walk through its screens."""
    from rltui.client import launch
    from rltui.client.local_experiment import LocalExperiment
    from rltui.client.local_runs import LocalRuns
    from rltui.ui.app import RltuiApp
    from rltui.ui.screens.config import ConfigScreen

    experiment = LocalExperiment(launch.choose("demo"))
    app = RltuiApp(experiment, runs=LocalRuns())
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: (current_step() or 0) >= STEP)
        await save(pilot, "overview")
        await pilot.press("t", "r")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await save(pilot, "restart")
        await pilot.press("escape", "ctrl+k", "g", "j", "j", "j", "j", "j", "e")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("1", "0", "0")
        await save(pilot, "edit")
        await pilot.press("escape", "6")
        await until(pilot, lambda: isinstance(app.screen, ConfigScreen))
        await save(pilot, "config")
        await until(pilot, lambda: (current_step() or 0) >= LATER_STEP)
        for key, name, sign in LATER_SCREENS:
            await pilot.press(key)
            await until(pilot, lambda sign=sign: sign in app.export_screenshot())  # type: ignore[misc]
            await save(pilot, name)
        await pilot.press("1")
        edit = ("set", "demo", "lr=50", "--restart", "--yes", "--no-wait")
        subprocess.run([sys.executable, "-m", "rltui", *edit], check=True)  # noqa: ASYNC221 - nothing else runs here
        await until(pilot, lambda: "reward collapsed" in pilot.app.export_screenshot().replace("&#160;", " "))
        await pilot.press("o", "B")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await save(pilot, "rescue")


async def photograph_gpus(scenario: Path) -> None:
    """Open the GPU screen while the trainer grows."""
    from rltui.client import launch
    from rltui.client.local_experiment import LocalExperiment
    from rltui.client.local_runs import LocalRuns
    from rltui.ui.app import RltuiApp

    experiment = LocalExperiment(launch.choose("shared"))
    app = RltuiApp(experiment, runs=LocalRuns())
    async with app.run_test(size=(SIZE[0], 30)) as pilot:
        await until(pilot, lambda: all(pids("shared").values()))
        for trainer_gib in TRAINER_GIB:
            write_scenario(scenario, pids("shared"), trainer_gib)
            await pilot.pause(5.0)
        await pilot.press("3")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await save(pilot, "gpus")


async def photograph_runs() -> None:
    """All runs, and some of them beside each other."""
    from rltui.client.local_runs import LocalRuns
    from rltui.ui.app import RltuiApp

    async with RltuiApp(None, runs=LocalRuns()).run_test(size=(SIZE[0], 30)) as pilot:
        await until(pilot, lambda: "reverse-text" in pilot.app.export_screenshot())
        await until(pilot, lambda: "Bringing" not in pilot.app.export_screenshot())
        await pilot.press("b")
        await save(pilot, "runs")
        await pilot.press("b", "m", "m", "m", "c")
        await until(pilot, lambda: "Compare" in pilot.app.export_screenshot())
        await save(pilot, "compare")


def sweep() -> None:
    """Run the README's sweep; returns when all have ended."""
    rates, seeds = "lr=1e-4,2.5e-4,1e-3", "seed=0..1"
    arguments = ("rl.toml", rates, seeds, "--set", "max_steps=20", "--max-parallel", "2")
    subprocess.run([sys.executable, "-m", "rltui", "sweep", *arguments], check=True)
    while any(entry["state"] not in ("done", "failed") for entry in queued()):
        time.sleep(1.0)


def queued() -> list[dict[str, Any]]:
    """The entries of the queue."""
    command = [sys.executable, "-m", "rltui", "queue", "--json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(json.loads(result.stdout)["entries"])


def shared_gpu(root: Path) -> tuple[Path, Mapping[str, str]]:
    """A config and a layout that put inference and trainer on one device, and an environment with one."""
    for file in ("rl.toml", "sft.toml"):
        shutil.copy(REPOSITORY / "examples" / "reverse_text" / file, root / file)
    layout = (REPOSITORY / "layouts" / "tinyrl.toml").read_text()
    for placeholder, value in {
        "{gpus.inference}": "0",
        "{gpus.trainer}": "0",
        "{gpu_memory.inference}": "0.5",
    }.items():
        layout = layout.replace(placeholder, value)
    (root / "shared-gpu.toml").write_text(layout)
    scenario = root / "gpus.conf"
    write_scenario(scenario, {}, 0.0)
    environment = runpy.run_path(str(REPOSITORY / "tests/fakes/nvml/double.py"))["environment"]
    return scenario, environment(scenario)


def write_scenario(scenario: Path, holders: Mapping[str, int | None], trainer_gib: float) -> None:
    """One card, and what the components hold of it."""
    used_bytes = {
        pid: round(gib * GIB)
        for name, gib in {"inference": 40.6, "trainer": trainer_gib}.items()
        if (pid := holders.get(name))
    }
    lines = [
        "count 1",
        "0.name NVIDIA H100 80GB HBM3",
        f"0.total {80 * GIB}",
        f"0.reserved {GIB // 2}",
        f"0.used {sum(used_bytes.values()) + GIB // 4}",
        "0.util 87",
        "0.power 412000",
        "0.power_limit 700000",
        "0.temp 58",
        *(f"0.compute {pid} {size}" for pid, size in used_bytes.items()),
    ]
    unfinished = scenario.with_suffix(".new")
    unfinished.write_text("\n".join(lines) + "\n")
    unfinished.replace(scenario)


def status(name: str) -> Any:
    """Status of an experiment, as `rltui status --json` has it."""
    from rltui.client import launch
    from rltui.client.statuses import read_status

    return read_status(launch.choose(name))


def current_step() -> int | None:
    """Steps that the demo has completed."""
    step: int | None = status("demo")["step"]
    return step


def pids(name: str) -> dict[str, int | None]:
    """Main processes of the components that stay."""
    components = status(name)["components"]
    return {item["id"]: item["pid"] for item in components if item["id"] in ("inference", "trainer")}


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app run until `condition` holds.

    Raises:
        TimeoutError: after ten minutes.
    """
    async with asyncio.timeout(600):
        while not condition():
            await pilot.pause(0.2)


async def save(pilot: Pilot[None], name: str) -> None:
    """Save what the screen shows once it has come to rest."""
    await pilot.pause(0.6)
    TARGET.mkdir(parents=True, exist_ok=True)
    pilot.app.save_screenshot(f"{name}.svg", path=str(TARGET))
    print(TARGET / f"{name}.svg")


def main() -> None:
    """Make all pictures and write them."""
    with own_box() as root:
        with running("demo", "demo", "--no-tui"):
            asyncio.run(photograph())
        scenario, environment = shared_gpu(root)
        up = ("up", "rl.toml", "-l", "./shared-gpu.toml", "-n", "shared", "-o", "shared", "--no-wait")
        with running("shared", *up, env=environment):
            asyncio.run(photograph_gpus(scenario))
        (root / "many").mkdir()
        os.chdir(root / "many")
        for file in ("rl.toml", "sft.toml"):
            shutil.copy(REPOSITORY / "examples" / "reverse_text" / file, file)
        sweep()
        asyncio.run(photograph_runs())


if __name__ == "__main__":
    main()
