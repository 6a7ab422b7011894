"""A machine with runs of the embedded engine, the person who owns it, and the agent that works on it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.agents.agent import Agent
from tests.agents.outside import Outside
from tests.conftest import Box, temporary_box
from tests.engine import write_example
from tests.waiting import retry_until

INTERVAL = 4
SETTINGS = """\
[agents]
rights = "act"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def warm_model() -> Path:
    """The model to start from, made once for all tests of this checkout (20 s)."""
    folder = Path(tempfile.gettempdir()) / f"rlt-model-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "outputs/reverse-text-sft/config.json").exists():
            write_example(folder, port=1, steps=1)
            argv = [sys.executable, "-m", "rltui.tinyrl", "sft", "@", "sft.toml"]
            subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return folder / "outputs"


@dataclass
class Town:
    """`one` is the run that most tasks are about."""

    box: Box
    agents: list[Agent] = field(default_factory=list)

    @property
    def one(self) -> Outside:
        return Outside(self.box.work / "out")

    @property
    def config(self) -> Path:
        return self.box.work / "rl.toml"

    def agent(self, name: str = "night-1") -> Agent:
        self.agents.append(Agent(self.box, name))
        return self.agents[-1]

    def person(self, *arguments: str, code: int = 0) -> str:
        """What the owner does, at whose hands everything is done at once."""
        result = self.box.run(*arguments, timeout_s=240)
        assert result.returncode == code, result
        return result.stdout

    def train(self, *, at_least: int = 0) -> None:
        """`one` is alive and trains."""
        if len(self.one.pids()) < 3:
            if (self.one.folder / ".rltui").exists():
                self.person("start", "one", "--yes", "--wait")
            else:
                self.person("up", "rl.toml", "-n", "one", "-o", "out")
        self.until_step(at_least)

    def until_step(self, step: int) -> None:
        retry_until(lambda: self.one.step() >= step, timeout_s=180, interval_s=0.2)


@contextmanager
def town() -> Iterator[Town]:
    with temporary_box() as box:
        shutil.copytree(warm_model(), box.work / "outputs")
        write_example(
            box.work, port=free_port(), steps=20_000, replaced={"interval = 10": f"interval = {INTERVAL}"}
        )
        (box.root / "config/rltui").mkdir(parents=True)
        (box.root / "config/rltui/settings.toml").write_text(SETTINGS)
        yield Town(box)
