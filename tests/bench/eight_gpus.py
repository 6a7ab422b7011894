"""Eight GPUs of the NVML double, with 32 processes that live on this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.bench import experiments
from tests.bench.experiments import Running
from tests.conftest import Box
from tests.fakes.nvml import double

FULL = (double.SCENARIOS / "eight.conf").read_text()
HOLDERS = re.compile(r"(?<=\.compute )\d+")
EMPTY = re.sub(r".*\.(?:compute|used) .*\n", "", FULL)
DEVICES = {
    "inference": 'gpus = "0,1,2,3,4,5"\ngpu_memory = "0.85"',
    "trainer": 'gpus = "6,7"',
}
LARGEST = {"inference": "4100010", "trainer": "4100016"}
"""Pid in the scenario of a process that each of these stands for; the others are strangers."""


@contextmanager
def loaded(box: Box) -> Iterator[Running]:
    """An experiment of sleepers on eight GPUs. Every process on those is one that can be looked at."""
    scenario = box.root / "gpus.conf"
    scenario.write_text(EMPTY)
    environment = double.environment(scenario)
    seen = {name: environment[name] for name in ("LD_LIBRARY_PATH", double.SCENARIO_VARIABLE)}
    running = experiments.start(replace(box, env=box.env | seen), "sleeper.py", name="eight", more=DEVICES)
    holders = {LARGEST[name]: str(pid) for name, pid in running.mains.items() if name in LARGEST}
    strangers = [pid for pid in HOLDERS.findall(FULL) if pid not in holders]
    processes = [subprocess.Popen(["sleep", "infinity"]) for _ in strangers]
    holders |= {name: str(process.pid) for name, process in zip(strangers, processes, strict=True)}
    try:
        unfinished = scenario.with_suffix(".new")
        unfinished.write_text(HOLDERS.sub(lambda pid: holders[pid[0]], FULL))
        unfinished.replace(scenario)
        yield running
    finally:
        for process in processes:
            process.kill()
            process.wait()
