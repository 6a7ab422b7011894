"""Make the README's pictures from a real run of the demo: `.venv/bin/python -m tests.screenshots`.

Runs the demo in a temporary folder with a tmux server of its own and saves SVGs to `.github/screenshots/`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.pilot import Pilot

TARGET = Path(__file__).parents[1] / ".github" / "screenshots"
SIZE = (150, 42)
STEP = 30
"""Step of the run at which the pictures are taken."""


@contextmanager
def running_demo() -> Iterator[None]:
    """The demo, headless, in folders that are removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rlt-") as name:
        root = Path(name)
        for folder in ("run", "state", "tmux"):
            (root / folder).mkdir(mode=0o700)
        os.environ |= {
            "XDG_RUNTIME_DIR": f"{name}/run",
            "XDG_STATE_HOME": f"{name}/state",
            "TMUX_TMPDIR": f"{name}/tmux",
            "RLTUI_TMUX_SOCKET": "screenshots",
        }
        os.environ.pop("TMUX", None)
        os.chdir(root)
        try:
            subprocess.run([sys.executable, "-m", "rltui", "demo", "--no-tui"], check=True)
            yield
        finally:
            subprocess.run([sys.executable, "-m", "rltui", "down", "demo"], check=True)


async def photograph() -> None:
    """Open the app on the demo and walk through its screens."""
    from rltui.client import launch
    from rltui.client.connection import SupervisedExperiment
    from rltui.ui.app import RltuiApp

    experiment = SupervisedExperiment(launch.choose("demo"))
    app = RltuiApp(experiment, component_ids=experiment.component_ids)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: (current_step() or 0) >= STEP)
        await save(pilot, "overview")
        await pilot.press("t", "r")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await save(pilot, "restart")
        await pilot.press("escape", "c", "g", "j", "j", "j", "j", "j", "e")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("1", "0", "0")
        await save(pilot, "edit")


def current_step() -> int | None:
    """Steps that the demo has completed."""
    from rltui.cli.status import read_status
    from rltui.client import launch

    step: int | None = read_status(launch.choose("demo"))["step"]
    return step


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app run until `condition` holds.

    Raises:
        TimeoutError: after two minutes.
    """
    async with asyncio.timeout(120):
        while not condition():
            await pilot.pause(0.2)


async def save(pilot: Pilot[None], name: str) -> None:
    """Save what the screen shows once it has come to rest."""
    await pilot.pause(0.6)
    TARGET.mkdir(parents=True, exist_ok=True)
    pilot.app.save_screenshot(f"{name}.svg", path=str(TARGET))
    print(TARGET / f"{name}.svg")


if __name__ == "__main__":
    with running_demo():
        asyncio.run(photograph())
