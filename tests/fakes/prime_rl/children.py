"""Processes of a launcher: started with their output in files, watched, ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.lines import Printer

_WATCH_S = 0.05
_GRACE_S = 5.0


class AskedToEndError(Exception):
    """The launcher was asked to end."""


@dataclass
class Children:
    """Children of one launcher. In the older generations only the direct child is asked to end, which is
    `uv`.
    """

    generation: Generation
    out: Printer
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, name: str, argv: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        wrapped = ["uv", "run", *argv] if self.generation.name in ("A1", "B0") else list(argv)
        with output.open("wb") as file:
            self.started[name] = subprocess.Popen(
                wrapped, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
            )

    def follow(self, file: Path) -> None:
        """Show the end of a log file, as the launcher does with `tail -F`."""
        self.started["tail"] = subprocess.Popen(["tail", "-F", str(file)], stderr=subprocess.DEVNULL)

    def watch(self, awaited: Sequence[str]) -> int:
        """Wait until all of `awaited` have ended, or one of the others failed; returns the exit code."""
        while any(self.started[name].poll() is None for name in awaited):
            for name, child in self.started.items():
                if name != "tail" and child.poll():
                    self.out.error(f"Error: {name.capitalize()} failed with exit code {child.returncode}")
                    self.out.error("Terminating all processes...")
                    return 1
            time.sleep(_WATCH_S)
        for name in awaited:
            if code := self.started[name].returncode:
                self.out.error(f"{name.capitalize()} failed with exit code {code}")
                return 1
        return 0

    def end(self) -> None:
        for child in self.started.values():
            if child.poll() is None:
                child.terminate()
        for child in self.started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
            if child.poll() is None:
                child.kill()
                child.wait()


def supervised(generation: Generation, out: Printer, body: Callable[[Children], int]) -> int:
    """Run a launcher's body; whatever happens, its children end with it."""

    def on_term(number: int, frame: FrameType | None) -> None:
        raise AskedToEndError

    if generation.name == "B1" or generation.is_late:
        signal.signal(signal.SIGTERM, on_term)
    children = Children(generation, out)
    try:
        return body(children)
    except AskedToEndError:
        out.warning("Received SIGTERM, terminating all processes...")
    except KeyboardInterrupt:
        out.warning("Received interrupt signal, terminating all processes...")
    finally:
        sys.stdout.flush()
        children.end()
    return 1
