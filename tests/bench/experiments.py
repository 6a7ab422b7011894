"""Experiments of three equal programs in a box."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Box

PROGRAMS = Path(__file__).with_name("programs")
NAMES = ("inference", "orchestrator", "trainer")
COMPONENT = """
[[component]]
id = "{name}"
command = ["{python}", "{program}", "{name}", {arguments}]
stop = {{ grace_s = 5 }}
"""


@dataclass(frozen=True, slots=True)
class Running:
    """An experiment named `bench` whose components run."""

    box: Box

    @property
    def control(self) -> Path:
        return self.box.work / "out/.rltui"

    @property
    def supervisor(self) -> int:
        """Pid of the newest one."""
        journal = (self.control / "journal.jsonl").read_text()
        return int(re.findall(r"supervisor started, pid (\d+)", journal)[-1])

    @property
    def shims(self) -> list[int]:
        return [json.loads(file.read_text())["shim_pid"] for file in self._attempts("attempt.json")]

    @property
    def logs(self) -> list[Path]:
        return self._attempts("output.log")

    def _attempts(self, file: str) -> list[Path]:
        return [self.control / "components" / name / "attempt-1" / file for name in NAMES]

    @property
    def tui(self) -> list[str]:
        return [*RLTUI, "-n", "bench"]


RLTUI = [sys.executable, "-m", "rltui"]


def command(program: str, name: str, *arguments: object) -> list[str]:
    """How one component runs, in or outside of rltui."""
    return [sys.executable, str(PROGRAMS / program), name, *map(str, arguments)]


def start(box: Box, program: str, *arguments: object) -> Running:
    """Three components that run `program NAME ARGUMENT…`."""
    components = "".join(
        COMPONENT.format(
            name=name,
            python=sys.executable,
            program=PROGRAMS / program,
            arguments=", ".join(json.dumps(str(argument)) for argument in arguments),
        )
        for name in NAMES
    )
    (box.work / "bench.toml").write_text('framework = "generic"\n' + components)
    (box.work / "run.toml").write_text("max_steps = 20\nbatch_size = 128\n")
    box.json("up", "run.toml", "-l", "bench.toml", "-n", "bench", "-o", "out")
    return Running(box)
