"""Experiments of three equal programs in a box."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.conftest import Box

PROGRAMS = Path(__file__).with_name("programs")
NAMES = ("inference", "orchestrator", "trainer")
COMPONENT = """
[[component]]
id = "{name}"
command = ["{python}", "{program}", "{name}", {arguments}]
stop = {{ grace_s = 5 }}
{more}
"""


@dataclass(frozen=True, slots=True)
class Running:
    """An experiment whose components run."""

    box: Box
    name: str = "bench"

    @property
    def control(self) -> Path:
        return self.box.work / self.name / ".rltui"

    @property
    def supervisor(self) -> int:
        """Pid of the newest one."""
        journal = (self.control / "journal.jsonl").read_text()
        return int(re.findall(r"supervisor started, pid (\d+)", journal)[-1])

    @property
    def shims(self) -> list[int]:
        return [json.loads(file.read_text())["shim_pid"] for file in self._attempts("attempt.json")]

    @property
    def mains(self) -> dict[str, int]:
        """Pid of each component's main process."""
        files = zip(NAMES, self._attempts("attempt.json"), strict=True)
        return {name: json.loads(file.read_text())["pid"] for name, file in files}

    @property
    def logs(self) -> list[Path]:
        return self._attempts("output.log")

    def _attempts(self, file: str) -> list[Path]:
        return [self.control / "components" / name / "attempt-1" / file for name in NAMES]

    @property
    def tui(self) -> list[str]:
        return [*RLTUI, self.name]


NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
RLTUI = [sys.executable, "-m", "rltui"]


def command(program: str, name: str, *arguments: object) -> list[str]:
    """How one component runs, in or outside of rltui."""
    return [sys.executable, str(PROGRAMS / program), name, *map(str, arguments)]


def start(
    box: Box, program: str, *arguments: object, name: str = "bench", more: Mapping[str, str] = NOTHING_MORE
) -> Running:
    """Three components that run `program NAME ARGUMENT…`. `more`: further lines of their layout entries."""
    components = "".join(
        COMPONENT.format(
            name=component,
            python=sys.executable,
            program=PROGRAMS / program,
            arguments=", ".join(json.dumps(str(argument)) for argument in arguments),
            more=more.get(component, ""),
        )
        for component in NAMES
    )
    (box.work / f"{name}.toml").write_text('framework = "generic"\n' + components)
    (box.work / f"run-{name}.toml").write_text("max_steps = 20\nbatch_size = 128\n")
    box.json("up", f"run-{name}.toml", "-l", f"{name}.toml", "-n", name, "-o", name)
    return Running(box, name)
