"""Runs that have ended, as their folders tell of them: nothing was ever started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rltui import paths
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

EXAMPLE = paths.shipped_dir("examples") / "reverse_text" / "rl.toml"
LAYOUT = paths.shipped_dir("layouts") / "tinyrl.toml"


def write_attempt(folder: Path, **values: object) -> None:
    """The record of an attempt in `folder`, which has ended if `values` say when."""
    folder.mkdir(parents=True, exist_ok=True)
    shim = {
        "experiment": "one", "component": folder.parent.name,
        "attempt": int(folder.name.removeprefix("attempt-")),
        "state": "running" if values.get("ended_at") is None else "exited", "boot": "",
        "shim_pid": None, "shim_start": None, "pid": None, "pid_start": None, "session": None,
        "argv": ["x"], "cwd": "/", "log": "", "started_at": 0.0, "ended_at": None,
        "exit_code": None, "signal": None, "error": None, "stop_requested": False, "descendants": [],
    }  # fmt: skip
    (folder / "attempt.json").write_text(json.dumps({**shim, **values}))


def write_finished_run(folder: Path, *, steps: int = 3, code: int | None = 0) -> ExperimentRecord:
    """A run of the embedded engine that has ended, as its programs and its shims leave it."""
    config = folder.parent / f"{folder.name}.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXAMPLE, config)
    record = ExperimentRecord(
        name=folder.name, output_dir=str(folder), workspace=str(folder.parent),
        config_files=(str(config),), layout_file=str(LAYOUT), framework="tinyrl", created_at=1.8e9,
    )  # fmt: skip
    control = ControlFolder(folder)
    control.write_record(record)
    for component in ("inference", "orchestrator", "trainer"):
        attempt = control.attempt_dir(component, control.new_attempt(component))
        (attempt / "config").mkdir()
        shutil.copy(config, attempt / "config" / "rl.toml")
        write_attempt(
            attempt,
            experiment=record.tag,
            started_at=1.8e9,
            ended_at=1.8e9 + 60,
            exit_code=code,
            stop_requested=component == "inference",
        )
        (attempt / "output.log").write_text("")
        (attempt / "spec.json").write_text(json.dumps({"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}))
    rows = [
        row
        for step in range(1, steps + 1)
        for row in (
            {"step": step, "time": 1.8e9 + step, "train/agg/effective/agent/reward/mean": step / 10},
            {"step": step, "time": 1.8e9 + step, "loss/mean": 1.0 / step},
        )
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return record
