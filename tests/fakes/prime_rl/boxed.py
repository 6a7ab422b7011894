"""An experiment of `rltui`'s on the stand-ins, in a box of its own."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Box
from tests.fakes.prime_rl.checkout import TOOLS, checkout
from tests.fakes.prime_rl.engine import WEIGHTS_ROUTE
from tests.fakes.prime_rl.examples import (
    Ports,
    free_ports,
    write_evaluated_sft,
    write_example,
    write_sft_example,
)
from tests.fakes.prime_rl.generation import GENERATIONS, Name
from tests.fakes.prime_rl.http_client import get
from tests.waiting import retry_until

EXPERIMENT = "one"
_STEP = re.compile(r"SUCCESS Step (\d+) \|")


@dataclass(frozen=True)
class PrimeBox:
    """`rltui` beside a checkout of one generation."""

    box: Box
    generation: Name
    ports: Ports
    files: tuple[str, ...]
    """Names of the config files, in the box's work folder."""
    folder: str = "out"
    """The folder that `-o` names."""

    @property
    def config(self) -> Path:
        """The first of the config files."""
        return self.box.work / self.files[0]

    @property
    def output(self) -> Path:
        """The same, with its whole path."""
        return self.box.work / self.folder

    def up(self, layout: str = "", *more: str) -> dict[str, Any]:
        """Start everything; returns when it is ready, with the status. Without a layout: the default."""
        choice = ("-l", layout) if layout else ()
        arguments = ("up", *self.files, *choice, "-n", EXPERIMENT, "-o", "out", *more)
        status: dict[str, Any] = self.box.json(*arguments)
        return status

    def done(self, *arguments: str, timeout_s: float = 60) -> str:
        """Run a command that must succeed; what it says on stderr."""
        result = self.box.run(*arguments, timeout_s=timeout_s)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stderr

    def pid(self, component: str, attempt: int = 1) -> int:
        """Pid of an attempt's process, once there is one."""
        record = self._folder(component, attempt) / "attempt.json"

        def known() -> int | None:
            return json.loads(record.read_text()).get("pid") if record.exists() else None

        return retry_until(known, timeout_s=30)

    def attempt(self, component: str) -> int:
        """Number of the newest attempt."""
        folders = self._folder(component, 1).parent.glob("attempt-*")
        return max(int(folder.name.removeprefix("attempt-")) for folder in folders)

    def text(self, component: str, attempt: int | None = None) -> str:
        """Output of an attempt (default: the newest), without colours."""
        log = self._folder(component, attempt or self.attempt(component)) / "output.log"
        return re.sub(r"\x1b\[[0-9;]*m", "", log.read_text()) if log.exists() else ""

    def steps(self, component: str, attempt: int | None = None) -> list[int]:
        """Numbers of the steps that an attempt finished."""
        return [int(number) for number in _STEP.findall(self.text(component, attempt))]

    def wait_for_steps(
        self, component: str, count: int, attempt: int = 1, timeout_s: float = 30
    ) -> list[int]:
        """Wait until the attempt has finished so many steps; returns their numbers."""
        retry_until(lambda: len(self.steps(component, attempt)) >= count, timeout_s=timeout_s)
        return self.steps(component, attempt)

    def weights(self) -> dict[str, Any]:
        """The weights that the engine has loaded."""
        port = self.ports.engine if GENERATIONS[self.generation].is_late else self.ports.server
        state: dict[str, Any] = get(f"http://localhost:{port}{WEIGHTS_ROUTE}")
        return state

    def checkpoints(self) -> list[int]:
        """Steps of which the trainer's half is on disk somewhere below the output folder."""
        marks = self.output.rglob("checkpoints/step_*/trainer/.metadata")
        folders = (path for path in marks if ".rltui" not in path.parts)
        return sorted(int(path.parent.parent.name.removeprefix("step_")) for path in folders)

    def kill(self, pid: int) -> None:
        """One of the experiment's processes, by its number."""
        assert pid in self.box.tagged(EXPERIMENT)
        os.kill(pid, signal.SIGKILL)

    def programs_alive(self) -> list[int]:
        """Pids of the stand-ins that still run."""
        programs = f"{self.box.root}/prime-rl-{self.generation.lower()}/.venv/bin/".encode()
        pids = []
        for pid in self.box.tagged(EXPERIMENT):
            with suppress(OSError):
                if programs in Path(f"/proc/{pid}/cmdline").read_bytes():
                    pids.append(pid)
        return pids

    def _folder(self, component: str, attempt: int) -> Path:
        return self.output / ".rltui" / "components" / component / f"attempt-{attempt}"

    def assert_down_leaves_nothing(self, timeout_s: float = 60) -> None:
        self.done("down", timeout_s=timeout_s)
        retry_until(lambda: not self.box.tagged(EXPERIMENT))


def prime_box(box: Box, generation: Name, *, max_steps: int = 100_000, interval: int = 2) -> PrimeBox:
    """A box with the generation's RL example in the work folder. `RLTUI_PRIME_RL` names the checkout."""
    ports = free_ports()
    files = write_example(box.work, generation, ports, max_steps=max_steps, interval=interval)
    _place(box, generation)
    return PrimeBox(box, generation, ports, tuple(file.name for file in files))


def prime_sft_box(box: Box, generation: Name, *, max_steps: int = 100_000, interval: int = 2) -> PrimeBox:
    """A box with the generation's SFT example in the work folder."""
    file = write_sft_example(box.work, generation, max_steps=max_steps, interval=interval)
    _place(box, generation)
    return PrimeBox(box, generation, free_ports(), (file.name,))


def evaluated_sft_box(
    box: Box, generation: Name, *, max_steps: int = 100_000, interval: int = 2, every: int = 4
) -> PrimeBox:
    """A box with SFT and evaluations every so many steps in the work folder."""
    ports = free_ports()
    file = write_evaluated_sft(
        box.work, generation, ports, max_steps=max_steps, interval=interval, every=every
    )
    _place(box, generation)
    return PrimeBox(box, generation, ports, (file.name,))


def _place(box: Box, generation: Name) -> None:
    root = checkout(box.root, generation)
    box.env["RLTUI_PRIME_RL"] = str(root)
    box.env["PATH"] = f"{root / TOOLS}{os.pathsep}{box.env['PATH']}"
    box.env["STANDIN_STEP_S"] = "0.05"
