"""Whoever follows a printed command to the letter gets out of the state that printed it, and changes nothing
else: agents and tired people do.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints
from rltui.core.hints import Hint
from rltui.errors import ExitCode
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
TEXT = '# how long\nmax_steps = 20 # steps\nname = "counters"\n'
PICKY = """\
import sys, time, tomllib
steps = tomllib.load(open("run.toml", "rb"))["max_steps"]
if steps > 100:
    sys.exit(f"cannot do {steps} steps")
print("training", flush=True)
if steps == 1:
    sys.exit(0)
time.sleep(600)
"""


def experiment(box: Box) -> ExperimentRecord:
    """The record of the experiment, as it was made."""
    record = ControlFolder(box.work / "out").read_record()
    assert record is not None
    return record


def run_toml(box: Box) -> str:
    return (box.work / "run.toml").read_text()


def kinds(box: Box) -> list[str]:
    """Kinds of the journal's entries, oldest first."""
    return [entry["kind"] for entry in box.json("events", "one")["events"]]


@pytest.fixture
def picky(counters: Box) -> Box:
    """Up; its trainer ends where max_steps is 1, and dies where it is over 100."""
    (counters.work / "counter.py").write_text(PICKY)
    counters.json(*UP)
    return counters


def test_killed_from_outside_after_an_undo(picky: Box) -> None:
    """Finding G1: the undo that was advised took back another edit, below the step of the run."""
    assert picky.run("set", "max_steps=30", "--restart", "--yes", "--wait").returncode == 0
    assert picky.run("set", "max_steps=40", "--restart", "--yes", "--wait").returncode == 0
    assert picky.run("undo", "--restart", "--yes", "--wait").returncode == 0
    inference, before = picky.component("inference")["pid"], run_toml(picky)
    os.kill(picky.wait_for("trainer", "ready")["pid"], signal.SIGKILL)
    assert "from outside" in picky.wait_for("trainer", "failed")["reason"]
    status = picky.run("status")
    assert "undo" not in status.stdout
    assert picky.status()["rollback"] is None
    assert [
        event for event in picky.json("events", "one", "--kind", "alert")["events"] if "undo" in event["text"]
    ] == []
    result = follow(picky, status, hints.RESTART_KILLED, component="trainer")
    assert result.returncode == 0, result.stderr
    picky.wait_for("trainer", "ready")
    assert (run_toml(picky), picky.component("inference")["pid"]) == (before, inference)


def test_died_after_an_edit(picky: Box) -> None:
    assert picky.run("set", "max_steps=30").returncode == 0
    assert picky.run("set", "max_steps=200", "--restart", "--yes").returncode == 0
    retry_until(lambda: picky.status()["rollback"], timeout_s=20.0)
    alert = next(
        event["text"]
        for event in picky.json("events", "one")["events"]
        if "To undo the edit: " in event["text"]
    )
    assert "max_steps 30 → 200" in alert
    assert follow(picky, alert, hints.UNDO_RESTART).returncode == 0
    picky.wait_for("trainer", "ready")
    assert run_toml(picky) == TEXT.replace("20", "30")


def test_a_failed_start(counters: Box) -> None:
    service = counters.work / "service.py"
    sound = service.read_text()
    service.write_text("import sys; sys.exit('cannot serve')")
    failed = counters.run(*UP)
    assert failed.returncode == 5, failed.stderr
    logs = follow(counters, failed, hints.LOGS, component="inference", lines=30)
    assert (logs.returncode, "cannot serve" in logs.stdout) == (0, True)
    service.write_text(sound)
    assert counters.run("start", "--yes", "--wait").returncode == 0
    counters.wait_for("trainer", "ready")


def test_an_edit_that_is_not_in_effect(picky: Box) -> None:
    waits = picky.run("set", "max_steps=25")
    match = re.search(r"to take effect: rltui restart (.*)", waits.stderr)
    assert match is not None, waits.stderr
    assert follow(picky, waits, hints.APPLY, components=match[1].replace("-c ", "").split()).returncode == 0
    retry_until(lambda: not picky.json("diff")["keys"], timeout_s=20.0)
    assert run_toml(picky) == TEXT.replace("20", "25")


def test_a_living_run_is_in_the_way(picky: Box) -> None:
    pid = picky.component("trainer")["pid"]
    (picky.work / "other.toml").write_text(TEXT)
    conflict = picky.run("up", "other.toml", "-l", "counters.toml", "-n", "two", "-o", "out")
    assert conflict.returncode == 4, conflict.stderr
    assert hints.DOWN(name="one") in conflict.stderr
    removal = picky.run("runs", "rm", "one")
    assert removal.returncode == 4
    assert picky.component("trainer")["pid"] == pid
    assert follow(picky, removal, hints.DOWN, name="one").returncode == 0
    assert picky.tagged("one") == []
    missing = picky.run("runs", "rm", "one")
    assert missing.returncode == 0, missing.stderr
    forked = picky.run("fork", "one")
    assert forked.returncode == 4
    assert follow(picky, forked, hints.RESTORE, run="one").returncode == 0
    assert (picky.work / "out/.rltui/journal.jsonl").exists()
    assert picky.run("runs", "rm", "one").returncode == 0
    assert follow(picky, missing, hints.TRASH_EMPTY).returncode == 2, (
        "what is for good is refused without --yes"
    )


@pytest.mark.slow
def test_a_finished_run_of_which_a_server_lives(counters: Box) -> None:
    (counters.work / "counter.py").write_text(PICKY)
    (counters.work / "run.toml").write_text(TEXT.replace("20", "1"))
    counters.run(*UP)
    retry_until(lambda: counters.status()["state"] == "done", timeout_s=20.0)
    assert follow(counters, counters.run("status"), hints.DOWN, name="one").returncode == 0
    assert counters.tagged("one") == []
    missing = counters.run("undo", "one")
    assert missing.returncode == 4
    assert follow(counters, missing, hints.EVENTS).returncode == 0


@pytest.mark.slow
def test_a_layout_that_was_changed(picky: Box) -> None:
    """The advised `up … --resume` was refused: the name is taken by a folder that it did not name."""
    layout = picky.work / "counters.toml"
    layout.write_text(layout.read_text().replace('title = "Counters"', 'title = "Others"'))
    plan = picky.run("restart", "one", "-c", "trainer", "--plan")
    record = experiment(picky)
    assert follow(picky, plan, hints.DOWN, name="one").returncode == 0
    assert record.resume_command in plan.stdout, plan.stdout
    result = picky.run(*shlex.split(record.resume_command)[1:])
    assert result.returncode == 0, result.stderr
    assert picky.status()["title"] == "Others"
    assert "changed" not in picky.run("restart", "one", "-c", "trainer", "--plan").stdout


def test_lists_that_messages_point_to(picky: Box) -> None:
    """Messages of states in which listing what there is leads on."""
    write_example(picky.work, port=1, steps=20)
    files = [picky.work / "rl.toml", picky.work / "sft.toml"]
    retry_until(lambda: str(hints.METRICS_ALL) in picky.run("metrics", "nosuch").stderr, timeout_s=30.0)
    cases: tuple[tuple[tuple[str, ...], int, Hint, dict[str, Any]], ...] = (
        (("set", "max_stps_of_all=5"), 3, hints.KNOBS_ALL, {}),
        (
            ("up", "rl.toml", "--set", "nosuch=5"),
            3,
            hints.KNOBS_OF_FILES,
            {"files": files},
        ),
        (("runs", "compare", "one"), 2, hints.RUNS, {}),
        (("metrics", "nosuch"), 2, hints.METRICS_ALL, {}),
        (("graphs",), 2, hints.COMMANDS, {}),
        (("status", "--nosuch"), 2, hints.OPTIONS, {"command": "status"}),
    )
    for arguments, code, hint, values in cases:
        result = picky.run(*arguments)
        assert result.returncode == code, (arguments, result.stderr)
        assert follow(picky, result, hint, **values).returncode == 0, arguments
    assert picky.run("runs", "archive", "one").returncode == 0
    listing = follow(picky, picky.run("runs"), hints.RUNS_ALL)
    assert "one" in listing.stdout


@pytest.mark.slow
def test_a_queue_that_is_paused_and_an_entry_that_was_changed(counters: Box) -> None:
    empty = counters.run("queue")
    assert hints.QUEUE_ADD() in empty.stdout + empty.stderr
    assert counters.run("queue", "pause").returncode == 0
    added = counters.run("queue", "add", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert added.returncode == 0, added.stderr
    (counters.work / "run.toml").write_text(TEXT.replace("20", "30"))
    assert follow(counters, counters.run("queue"), hints.QUEUE_RESUME).returncode == 0
    retry = hints.QUEUE_RETRY(entry="one")
    retry_until(lambda: retry in counters.run("queue").stdout, timeout_s=20.0)
    assert follow(counters, counters.run("queue"), hints.QUEUE_RETRY, entry="one").returncode == 0
    retry_until(
        lambda: any(row["state"] == "running" for row in counters.json("status", "--all")["runs"]),
        timeout_s=30.0,
    )
    assert run_toml(counters) == TEXT.replace("20", "30")


def test_a_damaged_index(picky: Box) -> None:
    (index,) = (picky.root / "state/rltui").glob("runs-*.sqlite")
    index.write_bytes(b"no database" * 1000)
    damaged = picky.run("runs")
    rebuilt = follow(picky, damaged, hints.RUNS_REBUILD) if damaged.returncode else damaged
    assert (rebuilt.returncode, "one" in picky.run("runs").stdout) == (0, True), "it may mend itself"


def concerns(box: Box) -> list[str]:
    return [concern["word"] for concern in box.status()["progress"]["concerns"]]


def until_it_learns_again(box: Box, step: int) -> None:
    """Beyond what a collapse takes to be seen, counted from the step that it went back to."""
    retry_until(lambda: box.status()["step"] >= step + 40, timeout_s=200)
    status = box.status()
    assert not {"reward collapsed", "loss is nan"} & set(concerns(box)), status["progress"]
    assert status["reward"] > 0.8


FINISHED = """\
from pathlib import Path
from rltui.client import draft
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
config, out = Path("rl.toml").resolve(), Path("out").resolve()
wanted = ExperimentRequest(ConfigLine((config,)), name="one", output_dir=out)
record, _ = draft.plan_record(draft.ConfiguredRequest.plain(wanted))
record.control.write_record(record)
checkpoint = Path("out/checkpoints/step_20")
for half in ("orchestrator", "trainer"):
    (checkpoint / half).mkdir(parents=True)
    (checkpoint / half / "state.json").write_text("{}")
(checkpoint / "STABLE").touch()
"""


@pytest.mark.slow
def test_the_last_step_is_reached(box: Box, free_port: int) -> None:
    """Finding U2: both jobs of a finished run ended a second after their start, without a word before."""
    write_example(box.work, port=free_port, steps=20)
    subprocess.run([sys.executable, "-c", FINISHED], env=box.env, cwd=box.work, check=True)
    planned = box.run("start", "-c", "orchestrator", "-c", "trainer", "--plan")
    assert (
        "step 20 of 20 is reached, so the run is done; raise max_steps to continue"
        in planned.stderr + planned.stdout
    )
    scratch = box.run("restart", "-c", "orchestrator", "-c", "trainer", "--from-scratch", "--plan")
    assert "reached" not in scratch.stderr + scratch.stdout
    command = hints.SET_RESTART(words="max_steps=40")
    assert command in planned.stderr + planned.stdout
    assert box.run("set", "max_steps=40").returncode == 0
    planned = box.run("start", "-c", "orchestrator", "-c", "trainer", "--plan")
    assert "reached" not in planned.stderr + planned.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_collapsed_after_an_edit(box: Box, free_port: int) -> None:
    """Finding G2: going back to a checkpoint alone left the learning rate that had ruined the run."""
    pytest.importorskip("torch")
    write_example(box.work, port=free_port, steps=5000, replaced={"interval = 10": "interval = 5"})
    assert box.run("up", "rl.toml", "-n", "one", "-o", "out", timeout_s=200).returncode == 0
    path = box.work / "rl.toml"
    retry_until(lambda: box.status()["step"] >= 30, timeout_s=200)
    curves = box.run("status", "--json")
    follow(box, curves, hints.METRICS_JSON, code=0)
    for newer, hint in ((None, hints.UNDO_AND_GO_BACK), ("max_steps=3000", hints.SET_AND_GO_BACK)):
        inference = box.component("inference")["pid"]
        assert box.run("set", "optim.lr=2.5", "--restart", "--yes", "--wait", timeout_s=200).returncode == 0
        if newer is not None:
            assert box.run("set", newer, "--restart", "--yes", "--wait", timeout_s=200).returncode == 0
        ruined = path.read_text()
        retry_until(lambda: "reward collapsed" in concerns(box), timeout_s=200)
        offer = box.status()["rollback"]
        assert "lr 0.00025 → 2.5" in offer["edit"]
        status, step = box.run("status"), offer["resume_step"]
        values: dict[str, Any] = (
            {} if newer is None else {"words": [f"{key}={old}" for key, old in offer["edits"].items()]}
        )
        result = follow(box, status, hint, step=step, **values)
        if result.returncode == ExitCode.USAGE:  # by now it loses more than a checkpoint interval
            assert "to confirm, add --yes" in result.stderr
            result = box.run(*result.args, "--yes")
        assert result.returncode == 0
        until_it_learns_again(box, step)
        assert "lr = 2.5e-4" in path.read_text() or "lr = 0.00025" in path.read_text()
        assert ("max_steps = 3000" in path.read_text()) == (newer is not None)
        assert len(path.read_text().splitlines()) == len(ruined.splitlines())
        assert box.component("inference")["pid"] == inference
