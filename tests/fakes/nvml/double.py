"""Builds the test double of `libnvidia-ml.so.1` and says how to make a process load it.

The loader reads `LD_LIBRARY_PATH` at process start, so the double reaches only processes started with the
environment made here, and never the test process itself.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.fakes.compiled import built

HERE = Path(__file__).parent
SOURCES = (HERE / "libnvidia_ml.c", HERE / "scenario.h")
SCENARIOS = HERE / "scenarios"
LIBRARY = "libnvidia-ml.so.1"
SCENARIO_VARIABLE = "RLTUI_FAKE_NVML"


def environment(scenario: str | Path) -> dict[str, str]:
    """Variables for a process that shall see the machine of `scenario`: a shipped name or a file.

    Skips the calling test where there is no C compiler.
    """
    path = scenario if isinstance(scenario, Path) else SCENARIOS / f"{scenario}.conf"
    return {**os.environ, "LD_LIBRARY_PATH": str(built(LIBRARY, SOURCES)), SCENARIO_VARIABLE: str(path)}


def environment_without_driver(folder: Path) -> dict[str, str]:
    """Variables for a process that shall find no NVML, whatever is installed.

    A text file of the library's name in the empty `folder` ends the loader's search.
    """
    (folder / LIBRARY).write_text("not a library\n")
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}
