"""Starting where an earlier run lies: a clear choice, and nothing is ever overwritten."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from tests.conftest import Box

from rltui.client.transports.unix import Wire
from rltui.core.experiment.api import Request

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

NOTES = """
[[component]]
id = "notes"
command = ["sleep", "600"]
part_of_run = false
"""
BESIDES = """
[[component]]
id = "eval"
start = "manual"
command = ["{given.command}"]
port = "{given.port}"
"""
UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def earlier(counters: Box) -> Path:
    """The output folder of a run that got to step 3 and was stopped."""
    out = counters.work / "out"
    (out / "checkpoints" / "step_3").mkdir(parents=True)
    (out / "checkpoints" / "step_3" / "STABLE").touch()
    rows = (f'{{"step": {step}, "loss/mean": 0.5}}\n' for step in range(1, 5))
    (out / "metrics.jsonl").write_text("".join(rows))
    return out


def test_without_a_choice_it_is_refused_with_both(counters: Box, earlier: Path) -> None:
    result = counters.run(*UP)
    assert result.returncode == 4
    assert "--resume continues from checkpoint 3" in result.stderr
    assert f"--new starts a new run in {earlier}-2" in result.stderr
    assert not (earlier / ".rltui").exists(), "nothing was written"


def test_new_takes_the_next_folder_and_leaves_the_earlier_alone(counters: Box, earlier: Path) -> None:
    before = sorted(str(path) for path in earlier.rglob("*"))
    status = counters.json("up", "run.toml", "-l", "counters.toml", "-o", "out", "--new")
    assert status["output_dir"] == f"{earlier}-2"
    assert status["experiment"] == "out-2"
    assert status["step"] == 0
    assert sorted(str(path) for path in earlier.rglob("*")) == before


def test_resumed_from_the_newest_checkpoint_then_stopped_it_can_be_read_and_edited(
    counters: Box, earlier: Path
) -> None:
    status = counters.json(*UP, "--resume")
    assert status["output_dir"] == str(earlier)
    assert status["step"] == 3, "step 4 lies beyond the checkpoint and is done again"
    assert "from checkpoint 3" in counters.run("events").stdout
    conflict = counters.run("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "elsewhere")
    assert conflict.returncode == 4
    assert "the name one is taken" in conflict.stderr

    counters.run("down")
    assert counters.status()["step"] == 4, "from the metrics file alone"
    assert counters.run("set", "max_steps=7").returncode == 0
    table = counters.json("knobs")
    assert next(knob["value"] for knob in table["knobs"] if knob["key"] == "max_steps") == 7
    assert counters.run("logs", "-c", "trainer", "--limit", "1").stdout.startswith("count ")
    plan = counters.json("start", "--plan")
    assert plan["start"] == ["inference", "orchestrator", "trainer"]
    assert not list((counters.root / "run/rltui").glob("*.sock")), "a plan leaves no supervisor behind"


@pytest.mark.slow
def test_from_scratch_keeps_the_earlier_files_aside(counters: Box, earlier: Path) -> None:
    counters.json(*UP, "--resume")
    plan = counters.json("restart", "-c", "orchestrator", "-c", "trainer", "--from-scratch", "--plan")
    assert plan["lost"] == {"steps": 3, "resume_step": None, "newest": False, "interval": 3, "rollouts": None}
    assert (
        counters.run("restart", "-c", "orchestrator", "-c", "trainer", "--from-scratch", "--yes").returncode
        == 0
    )
    counters.wait_for("trainer", "ready")
    assert not (earlier / "metrics.jsonl").exists()
    archived = list((earlier / ".rltui" / "archive").glob("*/metrics.jsonl"))
    assert len(archived) == 1
    assert archived[0].read_text().count("\n") == 4
    (archived[0].parent / "weights").write_bytes(b"w" * (2 << 20))
    assert f"aside in {earlier}/.rltui/archive; to delete: rltui checkpoints" in counters.run("down").stderr


@pytest.mark.slow
def test_a_living_job_beside_the_run_does_not_keep_it_from_its_checkpoint(
    counters: Box, earlier: Path
) -> None:
    """Finding A2: such a job once made a restart begin at step 0."""
    layout = counters.work / "counters.toml"
    layout.write_text(f"{layout.read_text()}{NOTES}")
    counters.json(*UP, "--resume")
    (earlier / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(1, 6)))
    plan = counters.json("restart", "-c", "orchestrator", "-c", "trainer", "--plan")
    assert plan["keep"] == ["inference", "notes"]
    assert plan["lost"]["resume_step"] == 3
    counters.run("restart", "-c", "orchestrator", "-c", "trainer", "--yes", "--wait")
    assert counters.run("events").stdout.count("from checkpoint 3") == 2
    assert counters.json("restart", "-c", "notes", "--plan")["lost"] == {
        "steps": 0, "resume_step": None, "newest": False, "interval": None, "rollouts": None
    }  # fmt: skip


@pytest.mark.slow
def test_what_starts_by_hand_gets_what_the_request_gives(counters: Box, free_port: int) -> None:
    layout = counters.work / "counters.toml"
    layout.write_text(f"{layout.read_text()}{BESIDES}")
    component_ids = [component["id"] for component in counters.json(*UP)["components"]]
    assert component_ids == ["inference", "orchestrator", "trainer"], "neither started nor shown"
    refused = counters.run("start", "-c", "eval", "--yes", "--wait")
    assert "a request to start eval must set it" in refused.stderr
    port = unused_port()
    arguments: dict[str, str | tuple[str, ...]] = {"command": ("sleep", "600"), "port": str(port)}
    start = Request(action="start", components=("eval",), given=arguments)
    with Wire(next((counters.root / "run/rltui").glob("one-*.sock"))) as wire:
        wire.call("execute", start.to_plain())
    first = counters.wait_for("eval", "ready")
    assert (first["manual"], first["port"]) == (True, port)
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    assert counters.run("restart", "-c", "eval", "--yes", "--wait").returncode == 0, "as it was given before"
    assert counters.component("eval")["attempt"] == first["attempt"] + 1
    assert "eval" in counters.json("set", "max_steps=900", "--restart", "--plan")["keep"]
    assert counters.run("down").returncode == 0
    assert not counters.tagged("one")


@pytest.mark.slow
def test_two_experiments_on_one_config_are_told_of_each_other(counters: Box, free_port: int) -> None:
    """Finding A4: `set` for one once changed what the other starts with next, without a word."""
    counters.json(*UP)
    counters.run("down", "one")  # while it lives, the other begins with a copy of its own
    other = counters.work / "other.toml"
    layout = (counters.work / "counters.toml").read_text()
    other.write_text(layout.replace(str(free_port), str(unused_port())))
    up = ("up", "./run.toml", "-l", "other.toml", "-n", "two", "-o", "out-two")
    text = "the experiment one ("
    second = counters.run(*up)
    assert second.returncode == 0
    assert text not in second.stderr, "it is not running"
    assert counters.run("start", "one", "--yes", "--wait").returncode == 0
    assert text in counters.run("set", "two", "max_steps=30", "--plan").stdout
    warned = counters.run("set", "one", "max_steps=30")
    assert (warned.returncode, "the experiment two (" in warned.stderr) == (2, True)
    assert counters.run("set", "one", "max_steps=30", "--yes").returncode == 0
    assert text in counters.run("check", "run.toml", "-l", "other.toml").stdout
    counters.run("down", "one")
    assert text not in counters.run("set", "two", "max_steps=40").stdout
    counters.run("down", "two")
