"""Run with the double's environment: takes readings along scripted scenarios and prints them as JSON.

Argument: `{name: [[scenario path, seconds on the reader's clock], …]}`. Each name gets a reader of its own.
Output: `{name: [report, …]}`.
"""

from __future__ import annotations

import json
import os
import sys

from rltui.services.gpu.nvml import NvmlReader


def take(steps: list[tuple[str, float]]) -> list[dict[str, object]]:
    now = [0.0]
    reader = NvmlReader(monotonic=lambda: now[0])
    reports = []
    for scenario, seconds in steps:
        os.environ["RLTUI_FAKE_NVML"], now[0] = scenario, seconds
        reports.append(reader.read().to_plain())
    reader.close()
    return reports


if __name__ == "__main__":
    print(json.dumps({name: take(steps) for name, steps in json.loads(sys.argv[1]).items()}))
