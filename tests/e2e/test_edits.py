"""Edits through the command line: with a supervisor and without, undone across restarts of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
TEXT = '# how long\nmax_steps = 20 # steps\nname = "counters"\n'
STALE = """\
from pathlib import Path
from rltui.client import launch
from rltui.errors import RltuiError
wire = launch.connect(launch.choose("one"))
request = {"action": "set", "edits": {"max_steps": 50}}
base = wire.call("plan", request)["base"]
path = Path("run.toml")
path.write_text(path.read_text() + "# theirs\\n")
conflicts = wire.call("plan", {**request, "base": base})["conflicts"]
assert [(each["keys"], "+# theirs" in each["theirs"]) for each in conflicts] == [([], True)], conflicts
try:
    wire.call("execute", {**request, "base": base})
except RltuiError as error:
    print(int(error.exit_code), error.hint)
"""
PICKY = """\
import sys, time, tomllib
steps = tomllib.load(open("run.toml", "rb"))["max_steps"]
if steps > 100:
    sys.exit(f"cannot do {steps} steps")
print("training", flush=True)
time.sleep(600)
"""


def run_toml(box: Box) -> Path:
    return box.work / "run.toml"


def edits(box: Box) -> list[dict[str, object]]:
    lines = (box.work / "out/.rltui/journal.jsonl").read_text().splitlines()
    return [entry["data"] for entry in map(json.loads, lines) if entry["kind"] == "edit"]


def test_undo_survives_the_supervisor_and_goes_on_without_one(counters: Box) -> None:
    counters.json(*UP)
    assert counters.run("set", "max_steps=30", "name=other").returncode == 0
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    table = counters.json("knobs")
    assert table["undo"] == 'max_steps 20 → 30, name "counters" → "other"'
    plan = counters.json("undo")
    assert plan["start"] == ["inference", "orchestrator", "trainer"]
    assert run_toml(counters).read_text() == TEXT
    assert counters.run("down").returncode == 0

    assert counters.run("redo").returncode == 0
    assert run_toml(counters).read_text() == TEXT.replace("20", "30").replace('"counters"', '"other"')
    assert [(edit["action"], edit["takes_back"]) for edit in edits(counters)] == [
        ("set", None),
        ("undo", 1),
        ("redo", 2),
    ]


def test_set_refuses_and_explains(counters: Box) -> None:
    counters.json(*UP)
    stale = subprocess.run(
        [sys.executable, "-c", STALE],
        cwd=counters.work,
        env=counters.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert stale.stdout.startswith("4 nothing was written; the same edit fits"), stale.stderr
    run_toml(counters).write_text(TEXT)
    unknown = counters.run("set", "max_stps=5")
    assert (unknown.returncode, "did you mean max_steps?" in unknown.stderr) == (3, True)
    assert counters.run("set", "--force", "seed=5", "--unset", "name").returncode == 0
    assert run_toml(counters).read_text() == "# how long\nmax_steps = 20 # steps\nseed = 5\n"
    assert counters.run("set", "max_steps=40").returncode == 0
    run_toml(counters).write_text(run_toml(counters).read_text().replace("40", "41"))
    clash = counters.run("undo")
    assert (clash.returncode, "max_steps" in clash.stderr) == (4, True)
    assert "max_steps = 41" in run_toml(counters).read_text()
    different = counters.json("diff")
    assert [(each["key"], each["before"], each["after"]) for each in different["keys"]] == [
        ("max_steps", 20, 41), ("seed", None, 5), ("name", "counters", None),
    ]  # fmt: skip


def test_an_edit_that_kills_a_component_can_be_rolled_back(counters: Box) -> None:
    (counters.work / "counter.py").write_text(PICKY)
    layout = counters.work / "counters.toml"
    layout.write_text(layout.read_text() + 'restart = { policy = "never" }\n')
    counters.json(*UP)
    assert counters.run("set", "max_steps=200", "--restart", "--yes").returncode == 0
    retry_until(lambda: counters.json("status")["rollback"], timeout_s=20.0)
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    offer = counters.json("status")["rollback"]
    assert offer["edit"] == "max_steps 20 → 200"
    assert "cannot do 200 steps" in offer["reason"] or "exited 1" in offer["reason"]
    plan = counters.json("undo", "--restart", "--yes")
    assert offer["component"] in plan["start"]
    assert run_toml(counters).read_text() == TEXT
    assert counters.json("status")["rollback"] is None
    counters.wait_for("trainer", "ready")
