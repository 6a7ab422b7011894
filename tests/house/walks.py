"""Which modules a supervisor passes a knob edit and a GPU reading through, and what a question costs.

A real supervisor is asked, with a profile function in it (`hook/`), on the double of NVML.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles

from tests.conftest import Box, temporary_box
from tests.fakes.nvml import double

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
RUNS = 15
PERIOD_S = 3.0
"""In which the GPUs are read and what is new is told."""
KEY, VALUE = "max_steps", "150"
"""The edit. The hook knows it by these."""
COMPONENT = """
[[component]]
id = "{name}"
command = ["{{python}}", "-I", "-S", "-c", "import signal; signal.pause()", "{{config.rl}}"]
gpus = "0"
stop = {{ grace_s = 2 }}
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """The way of one thing through the supervisor: the modules with a function that was handed it."""

    steps: tuple[tuple[str, str], ...]
    """From module to module, each once, in the order of the first time."""

    @property
    def modules(self) -> list[str]:
        return list(dict.fromkeys(name for step in self.steps for name in step if name))

    @property
    def acting(self) -> list[str]:
        """Without those that only judge or compute: core and frameworks."""
        return [name for name in self.modules if name.startswith(("supervisor", "services"))]

    @property
    def returns(self) -> int:
        """Steps into a module that was seen before: a reader opens it again."""
        targets = [target for _, target in self.steps]
        return len(targets) - len(set(targets))


@contextmanager
def tinyrl_experiment(root: Path) -> Iterator[tuple[Box, Path]]:
    """A small one that runs, and the file in which its supervisor writes down the walks."""
    with temporary_box() as box:
        (box.work / "rl.toml").write_text((root / "examples/reverse_text/rl.toml").read_text())
        parts = "".join(COMPONENT.format(name=name) for name in ("inference", "orchestrator", "trainer"))
        (box.work / "parts.toml").write_text(f'framework = "tinyrl"\n{parts}')
        steps = box.root / "steps"
        seen = double.environment("shared")
        path = os.pathsep.join((str(HERE / "hook"), str(root / "tui")))
        traced = replace(
            box,
            env=box.env
            | {name: seen[name] for name in ("LD_LIBRARY_PATH", double.SCENARIO_VARIABLE)}
            | {"PYTHONPATH": path, "RLTUI_HOUSE_TRACE": str(steps)},
        )
        started = traced.run("up", "rl.toml", "-l", "parts.toml", "-n", "one", "-o", "out")
        assert started.returncode == 0, started.stderr
        yield replace(traced, env={**traced.env, "RLTUI_HOUSE_TRACE": ""}), steps


def walks(root: Path = REPOSITORY) -> tuple[Walk, Walk]:
    """Of a knob edit by `rltui set`, and of a GPU reading."""
    with tinyrl_experiment(root) as (box, steps):
        box.json("gpus", "one")
        time.sleep(PERIOD_S)
        readings = _steps(steps, "gpu")
        edit = box.run("set", f"{KEY}={VALUE}", "--yes")
        assert edit.returncode == 0, edit.stderr
        time.sleep(PERIOD_S)
        return _steps(steps, "edit"), readings


def _steps(path: Path, wanted: str) -> Walk:
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return Walk(tuple((origin, target) for kind, origin, target in lines if kind == wanted))


def status_beside_python(root: Path = REPOSITORY) -> tuple[float, float]:
    """CPU seconds of `status --json` while it runs, and of a bare Python: the lower quartiles."""
    with tinyrl_experiment(root) as (box, _):
        bare, asked = [], []
        for _ in range(RUNS):
            bare.append(_cpu_s(box, [sys.executable, "-I", "-c", "pass"]))
            asked.append(_cpu_s(box, [sys.executable, "-m", "rltui", "status", "--json"]))
    return quantiles(asked, n=4)[0], quantiles(bare, n=4)[0]


def _cpu_s(box: Box, argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=box.work, env=box.env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
