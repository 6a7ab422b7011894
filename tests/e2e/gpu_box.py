"""A box whose GPUs are those of a scenario file, read through the C double of NVML."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.conftest import Box
from tests.fakes.nvml import double

SHARED = (double.SCENARIOS / "shared.conf").read_text()
"""One card of 24 GiB, of which 18 are in use; 12 by pid 4100001."""
SERVING = """\
framework = "generic"
[[component]]
id = "serve"
command = ["{python}", "-I", "-c", "import signal; signal.pause()"]
gpus = "0"
stop = { grace_s = 2 }
"""
"""A layout of one component that takes the first card and sleeps."""


def scenario_of(box: Box) -> Path:
    return box.root / "gpus.conf"


def with_gpus(box: Box, scenario: str) -> Box:
    """The file may be written anew while the box is used; a change of what is in use is seen at once."""
    path = scenario_of(box)
    path.write_text(scenario)
    return replace(box, env={**double.environment(path), **box.env})
