"""Readings of scripted scenarios, by the real reader and the real `pynvml` on the double."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.nvml import double

from rltui.core.gpu.report import GpuReport

GIB = 1 << 30
MIB = 1 << 20

Reports = dict[str, list[GpuReport]]
Steps = list[tuple[str, float]]
"""Name of a scenario, seconds on the reader's clock."""


def readings(
    folder: Path, *, written: Mapping[str, str], sequences: Mapping[str, Steps] | None = None
) -> Reports:
    """One reading of each scenario, and those along each sequence, by its name.

    All are taken by one process: starting one costs most of the time.

    Args:
        folder: for the files of the scenarios in `written`.
        written: text of scenarios by name, besides the shipped ones.
        sequences: a reader of its own goes through each.
    """
    paths = {path.stem: path for path in double.SCENARIOS.glob("*.conf")}
    for name, text in written.items():
        paths[name] = folder / f"{name}.conf"
        paths[name].write_text(text)
    scripts = {name: [(str(path), 0.0)] for name, path in paths.items()}
    for name, steps in (sequences or {}).items():
        scripts[name] = [(str(paths[scenario]), step) for scenario, step in steps]
    command = [sys.executable, str(double.HERE / "probe.py"), json.dumps(scripts)]
    output = subprocess.run(
        command, env=double.environment("shared"), capture_output=True, check=True, timeout=60, text=True
    )
    assert output.stderr == ""
    return {
        name: [GpuReport.from_plain(report) for report in reports]
        for name, reports in json.loads(output.stdout).items()
    }
