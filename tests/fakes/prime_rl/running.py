"""Stand-ins started by hand, one by one, as a person without a manager would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.prime_rl.checkout import TOOLS, checkout
from tests.fakes.prime_rl.engine import WEIGHTS_ROUTE
from tests.fakes.prime_rl.examples import Ports, free_ports, write_example
from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.fakes.prime_rl.grammar import CommandLine
from tests.fakes.prime_rl.http_client import get
from tests.fakes.prime_rl.launcher import write_parts
from tests.fakes.prime_rl.resolve import whole
from tests.fakes.prime_rl.trees import merge
from tests.waiting import retry_until

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Running:
    """One run: its configs made, its programs started on request, all ended by `end`."""

    generation: Name
    root: Path
    ports: Ports
    programs: Path
    configs: Path
    run: Path
    """Folder that the trainer writes into."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    starts: int = 0

    def start(self, program: str, config: str | None = None, **environment: str) -> None:
        """Start it, with a log of its own each time."""
        self.starts += 1
        name = config or program
        config_file = next(self.configs.rglob(f"{name}.*"))
        log = self.root / f"{self.starts}-{program}.log"
        with log.open("wb") as file:
            self.processes[program] = subprocess.Popen(
                [str(self.programs / program), "@", str(config_file)],
                cwd=self.root,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                start_new_session=True,
            )

    def start_all(self, **environment: str) -> None:
        self.start("inference", **environment)
        if GENERATIONS[self.generation].is_late:
            self.start("env-server", "reverse-text", **environment)
        self.start("orchestrator", **environment)
        self.start("trainer", **environment)

    def restart(self, *programs: str) -> None:
        """Kill all of them, then start them in this order."""
        self.kill(*programs)
        for program in programs:
            self.start(program)

    def kill(self, *programs: str) -> None:
        """Each with its own children, such as the server's router."""
        for program in programs:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[program].pid, signal.SIGKILL)
            self.processes[program].wait()

    def text(self, program: str) -> str:
        """Output of its newest process, without colours."""
        logs = self.root.glob(f"*-{program}.log")
        newest = max(logs, key=lambda path: int(path.name.partition("-")[0]))
        return _COLOUR.sub("", newest.read_text())

    def steps(self, program: str) -> list[int]:
        """Numbers of the steps that its newest process finished."""
        return [int(number) for number in re.findall(r"SUCCESS Step (\d+) \|", self.text(program))]

    def wait_for_step(self, program: str, step: int, timeout_s: float = 30.0) -> None:
        retry_until(lambda: step in self.steps(program), timeout_s=timeout_s)

    def weights(self) -> dict[str, Any]:
        """The weights that the engine has loaded."""
        port = self.ports.engine if GENERATIONS[self.generation].is_late else self.ports.server
        state: dict[str, Any] = get(f"http://localhost:{port}{WEIGHTS_ROUTE}")
        return state

    def end(self) -> None:
        self.kill(*self.processes)


def prepare(root: Path, generation: Name, *, max_steps: int = 6, interval: int = 2, **extra: Any) -> Running:
    """A checkout, an example on free ports, and the config of each process; nothing is started.

    `extra` are top-level tables on top of the example.
    """
    ports = free_ports()
    files = write_example(root, generation, ports, max_steps=max_steps, interval=interval)
    parts = {"train.toml": "trainer", "orch.toml": "orchestrator", "infer.toml": "inference"}
    tree: dict[str, Any] = {}
    for file in files:
        data = tomllib.loads(file.read_text())
        tree = merge(tree, {parts[file.name]: data} if file.name in parts else data, deep=True)
    tree = merge(tree, {"output_dir": str(root / "out"), **extra}, deep=True)
    if generation == "C":
        tree["run"] = {"name": "one"}
    resolved = whole(GENERATIONS[generation], CommandLine(files=tree))
    write_parts(GENERATIONS[generation], resolved, root / "configs")
    run = root / "out" / ("one" if generation == "C" else "")
    programs = checkout(root, generation)
    return Running(generation, root, ports, programs / ".venv" / "bin", root / "configs", run)


def environment_of(programs: Path) -> dict[str, str]:
    """Environment of a shell in which the checkout's `uv` is found."""
    return {**os.environ, "PATH": f"{programs.parents[1] / TOOLS}{os.pathsep}{os.environ['PATH']}"}
