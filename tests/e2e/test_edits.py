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


BUSY = """\
import subprocess, sys
from pathlib import Path
from rltui.client import launch
from rltui.services.config.lock import config_lock
wire = launch.connect(launch.choose("one"))
answers = 0
with config_lock([Path("run.toml")]):
    edit = subprocess.Popen([sys.executable, "-m", "rltui", "set", "max_steps=30"], stderr=subprocess.PIPE)
    while edit.poll() is None:
        wire.call("status")
        answers += 1
    print(edit.returncode, answers)
"""


def run_toml(box: Box) -> Path:
    return box.work / "run.toml"


def script(box: Box, program: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", program]
    return subprocess.run(argv, cwd=box.work, env=box.env, capture_output=True, text=True, check=False)


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

    assert counters.run("undo", "--redo").returncode == 0
    assert run_toml(counters).read_text() == TEXT.replace("20", "30").replace('"counters"', '"other"')
    assert [(edit["action"], edit.get("takes_back")) for edit in edits(counters)] == [
        ("set", None),
        ("undo", 1),
        ("redo", 2),
    ]


@pytest.mark.slow
def test_set_refuses_explains_and_holds_nobody_up(counters: Box) -> None:
    counters.json(*UP)
    stale = script(counters, STALE)
    assert stale.stdout.startswith(
        "4 nothing was written; the edit still applies to the new content: review the change"
    ), stale.stderr
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
    assert [(knob["key"], knob["before"], knob["after"]) for knob in different["keys"]] == [
        ("max_steps", 20, 41), ("seed", None, 5), ("name", "counters", None),
    ]  # fmt: skip

    # Finding A14: the edit waits for the lock for two seconds, in which thousands are answered.
    result = script(counters, BUSY)
    assert result.returncode == 0, result.stderr
    code, answers = map(int, result.stdout.split())
    assert code == 4, result.stderr
    assert answers > 50


@pytest.mark.slow
def test_an_edit_that_kills_a_component_can_be_rolled_back(counters: Box) -> None:
    (counters.work / "counter.py").write_text(PICKY)
    layout = counters.work / "counters.toml"
    layout.write_text(layout.read_text() + 'restart = { policy = "never" }\n')
    counters.json(*UP)
    assert counters.run("set", "max_steps=200", "--restart", "--yes").returncode == 0
    retry_until(lambda: counters.status()["rollback"], timeout_s=20.0)
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    offer = counters.status()["rollback"]
    assert offer["edit"] == "max_steps 20 → 200"
    assert "cannot do 200 steps" in offer["reason"] or "exited 1" in offer["reason"]
    plan = counters.json("undo", "--restart", "--yes")
    assert offer["component"] in plan["start"]
    assert run_toml(counters).read_text() == TEXT
    assert counters.status()["rollback"] is None
    counters.wait_for("trainer", "ready")


@pytest.mark.slow
def test_a_secret_is_nowhere_but_in_the_files(counters: Box) -> None:
    """Findings H3, H4 and H16: it is in the config, and in copies that nobody else may read."""
    (counters.work / "counter.py").write_text(PICKY)
    layout = counters.work / "counters.toml"
    layout.write_text(layout.read_text() + 'restart = { policy = "never" }\n')
    run_toml(counters).write_text(TEXT + 'token = "first-one"\n')
    told_file = counters.work / "told"
    settings = counters.root / "config/rltui/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[alerts]\ncommand = ['sh', '-c', 'cat >> {told_file}']\n")
    counters.json(*UP)
    edit = counters.run("set", "token=second-one", "max_steps=200", "--restart", "--yes")
    assert edit.returncode == 0
    retry_until(lambda: counters.status()["rollback"], timeout_s=20.0)
    retry_until(
        lambda: told_file.exists() and "failed after an edit" in told_file.read_text(), timeout_s=20.0
    )
    commands = [
        ("events",),
        ("events", "--json"),
        ("diff",),
        ("diff", "--text"),
        ("diff", "-c", "trainer#1"),
        ("knobs", "--all"),
    ]
    commands += [
        ("knobs", "--all", "--json"),
        ("status", "--json"),
        ("undo", "--plan"),
        ("set", "token=second-one-more", "--json"),
    ]
    answers = [edit.stdout, edit.stderr, told_file.read_text()]
    for command in commands:
        result = counters.run(*command)
        answers += [result.stdout, result.stderr]
    assert "(hidden)" in "".join(answers)
    assert not any(secret in answer for answer in answers for secret in ("first-one", "second-one"))
    control = counters.work / "out/.rltui"
    holders = [path for path in control.rglob("*") if path.is_file() and b"-one" in path.read_bytes()]
    assert {path.parent.name for path in holders} == {"backups", "config"}
    assert {path.stat().st_mode & 0o077 for path in holders} == {0}
    assert counters.run("undo").returncode == 0
    assert counters.run("undo").returncode == 0
    assert run_toml(counters).read_text() == TEXT + 'token = "first-one"\n'


@pytest.mark.slow
def test_a_config_that_becomes_something_else_harms_nobody(counters: Box) -> None:
    """Findings H7 and H19: a folder, a pipe, a device or a huge file in place of the config."""
    counters.json(*UP)
    path, saved_copy = run_toml(counters), run_toml(counters).with_name("kept.toml")
    path.rename(saved_copy)
    for make in (
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.write_text("# data\n" * 700_000),
    ):
        make()
        for command in (("set", "max_steps=30"), ("check", "run.toml", "-l", "counters.toml")):
            result = counters.run(*command, timeout_s=30)
            assert (result.returncode, "run.toml" in result.stderr) == (3, True), result.stderr
        assert counters.status()["state"] == "running"
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    saved_copy.rename(path)
    assert counters.run("set", "max_steps=30").returncode == 0
