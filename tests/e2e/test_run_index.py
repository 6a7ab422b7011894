"""The index of runs beside real ones: fed by their supervisors, mended where these were killed."""

from __future__ import annotations

import os
import signal

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.core.runs.row import RunRow
from rltui.services.processes import is_alive, read_process_id
from rltui.services.runs.catalog import catch_up
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

LAYOUT = """\
framework = "generic"
[[component]]
id = "trainer"
command = ["{python}", "-u", "train.py", "{output_dir}"]
"""
TRAIN = """\
import json, sys, time
with open(f"{sys.argv[1]}/metrics.jsonl", "w", buffering=1) as file:
    for step in range(1, 2000):
        row = {"step": step, "time": time.time(), "reward": step / 100, "loss/mean": 1.0}
        file.write(json.dumps(row) + "\\n")
        time.sleep(0.1)
"""


def test_a_living_run_a_killed_supervisor_and_the_end(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, box.env[name])
    (box.work / "a.toml").write_text(LAYOUT)
    (box.work / "train.py").write_text(TRAIN)
    assert box.run("up", "-l", "a.toml", "-n", "a", "-o", "out").returncode == 0
    index = RunIndex()

    def row() -> RunRow:
        return find_run(index, "a")

    retry_until(lambda: (row().step or 0) > 10 and row().supervisor is not None)
    assert row().state == "running"
    assert catch_up(index).read == 0
    supervisor = read_process_id(box.supervisor_pid())
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    retry_until(lambda: not is_alive(supervisor))
    before = row().step or 0
    retry_until(lambda: catch_up(index).read == 1 and (row().step or 0) > before)
    assert (row().state, row().supervisor) == ("running", None)
    assert box.run("down", "a").returncode == 0
    assert (row().state, row().attempts) == ("stopped", 1)
    index.close()
    index.path.unlink()
    assert catch_up(index).messages == ("no index of runs: rebuilding it from the folders",)
    assert row().state == "stopped"
