"""A run of a small program that does its steps at once, and waits then: checkpoints without an engine."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

WALKED = 23
"""Steps that a run does; every fifth leaves a checkpoint."""
WALKER = """\
import json, sys, time, tomllib
from pathlib import Path
run = Path(sys.argv[2])
done = max((int(each.parent.name[5:]) for each in run.glob("checkpoints/step_*/STABLE")), default=0)
print(f"goes on from {done}", flush=True)
while True:
    config = tomllib.loads(Path(sys.argv[1]).read_text())
    if done < config["walk"]:
        done += 1
        row = {"step": done, "time": time.time(), "loss/mean": 0.5}
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + chr(10))
        if done % 5 == 0:
            (run / f"checkpoints/step_{done}").mkdir(parents=True, exist_ok=True)
            (run / f"checkpoints/step_{done}/STABLE").write_text("x" * done)
    time.sleep(0.01 if done < config["walk"] else 0.1)
"""
LAYOUT = """\
framework = "generic"
[[component]]
id = "trainer"
command = ["{python}", "-u", "{workspace}/walker.py", "{config.walk}", "{run_dir}"]
"""
CONFIG = f"walk = {WALKED}  # steps\nlr = 0.001\n"


def start_walk(box: Box, name: str, *options: str) -> None:
    """Start a run that does its steps and waits then."""
    if not (box.work / "walker.py").exists():  # a walker that is just starting would read an empty one
        (box.work / "walker.py").write_text(WALKER)
        (box.work / "lay.toml").write_text(LAYOUT)
    (box.work / f"{name}").mkdir(exist_ok=True)
    (box.work / name / "walk.toml").write_text(CONFIG)
    command = ("up", f"{name}/walk.toml", "-l", "lay.toml", "-n", name, "-o", f"out-{name}")
    box.json(*command, *options, timeout_s=180)


def walking(box: Box, name: str) -> None:
    start_walk(box, name)
    has_walked(box, name)


def has_walked(box: Box, name: str, steps: int = WALKED) -> None:
    try:
        retry_until(lambda: box.status(name)["step"] == steps, timeout_s=60)
    except TimeoutError:
        log = box.run("logs", name, "--limit", "20").stdout
        pytest.fail(f"not at step {steps}: {box.json('status', name)}\n{log}")
