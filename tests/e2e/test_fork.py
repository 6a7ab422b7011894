"""`rltui fork`: another run from the config of one, or from its checkpoint; that one is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box
from tests.fakes.prime_rl.generation import Name
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUT = """\
framework = "generic"
[[component]]
id = "a"
command = ["sh", "-c", "cat {config.mine}; exec sleep 100"]
"""
LAYOUTS: dict[Name, str] = {"A1": "prime-rl-split", "B1": "prime-rl-merged", "C": "prime-rl", "D": "prime-rl"}


def content(folder: Path) -> dict[str, bytes]:
    """Path → text of all files but rltui's own."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".rltui" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def sheet(folder: Path) -> dict[str, object]:
    metadata: dict[str, object] = json.loads((folder / ".rltui/run.json").read_bytes())
    return metadata


@pytest.mark.slow
def test_a_fork_has_the_config_that_its_parent_last_ran_with(box: Box) -> None:
    (box.work / "lay.toml").write_text(LAYOUT)
    (box.work / "mine.toml").write_text("# mine\nsteps = 3  # few\nlr = 0.1\n")
    assert box.run("up", "mine.toml", "-l", "lay.toml", "-o", "out", "-n", "base").returncode == 0
    (box.work / "mine.toml").write_text("steps = 77\n")
    refusal = box.run("fork", "base", "--set", "lrr=0.2")
    assert (refusal.returncode, "did you mean lr?" in refusal.stderr) == (3, True)
    refusal = box.run("fork", "base", "--from", "last")
    assert (refusal.returncode, "base has no complete checkpoint" in refusal.stderr) == (4, True)
    plan = box.json("fork", "base", "--set", "lr=0.2", "--plan")
    assert (plan["name"], plan["folder"]) == ("base-lr0-2", str(box.work / "base-lr0-2"))
    assert sorted(path.name for path in box.work.iterdir()) == ["lay.toml", "mine.toml", "out"]
    result = box.run("fork", "base", "--set", "lr=0.2")
    assert result.returncode == 0, result.stderr
    assert box.run("logs", "base-lr0-2", "-c", "a").stdout == "# mine\nsteps = 3  # few\nlr = 0.2\n"
    assert sheet(box.work / "base-lr0-2")["parent"] == sheet(box.work / "out")["id"]
    assert "nothing to undo" in box.run("undo", "base-lr0-2").stderr, "its birth is no edit"
    second_plan = box.json("fork", "base", "--set", "lr=0.2", "--plan")
    assert second_plan["name"] == "base-lr0-2-2"


@pytest.mark.slow
@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_parts_of_a_checkpoint_are_copied_to_their_places(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation)
    prime.up(LAYOUTS[generation])
    prime.wait_for_steps("trainer", 6)
    prime.done("down")
    (run,) = (path.parents[2] for path in prime.output.rglob("checkpoints/step_2/trainer"))
    before = content(run)
    plan = box.json("fork", "one", "--from", "2", "-n", "other", "--plan")
    result = box.run("fork", "one", "--from", "2", "-n", "other", "--no-wait", timeout_s=120)
    assert result.returncode == 0, result.stderr
    other = PrimeBox(box, generation, prime.ports, prime.files, folder="other")
    steps = other.wait_for_steps("trainer", 3, timeout_s=60)
    assert min(steps) in (2, 3), "goes on behind the checkpoint"
    copies = other.output / run.relative_to(prime.output)
    for name in plan["copied"]:
        copied_files = {path: text for path, text in before.items() if path.startswith(f"{name}/")}
        assert copied_files
        assert all((copies / path).read_bytes() == text for path, text in copied_files.items())
    assert content(run) == before, "the parent is left alone"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_fork_of_a_living_run_learns_on(box: Box, free_port: int) -> None:
    write_example(
        box.work, port=free_port, steps=5000, replaced={"interval = 10": "interval = 2"}, sft_steps=20
    )
    result = box.run("up", "rl.toml", "-n", "base", timeout_s=120)
    assert result.returncode == 0, result.stderr
    parent = box.work / "outputs/reverse-text"
    retry_until(lambda: (parent / "checkpoints/step_2/STABLE").exists(), timeout_s=90)
    before = content(parent / "checkpoints/step_2")
    result = box.run("fork", "base", "--from", "2", "--set", "lr=1e-4", "-n", "other", timeout_s=120)
    assert result.returncode == 0, result.stderr
    assert content(parent / "checkpoints/step_2") == before
    fork = box.work / "outputs/other"
    assert (sheet(fork)["parent"], sheet(fork)["parent_step"]) == (sheet(parent)["id"], 2)
    retry_until(lambda: (fork / "checkpoints/step_4/STABLE").exists(), timeout_s=90)
    rows = box.json("metrics", "other", "reward")
    assert "lr = 0.0001" in (fork / ".rltui/config/rl.toml").read_text()
    assert rows


SCREEN = """\
import sys
class Captured:  # as Textual's: without an encoding
    def write(self, text): pass
    def flush(self): pass
sys.stdout = Captured()
from rltui.client.local_runs import LocalRuns
from rltui.core.runs.forks import ForkRequest
runs = LocalRuns()
runs.catch_up()
(base,) = runs.rows()
runs.fork(base.id, ForkRequest(edits={"lr": "0.3"}, is_queued=sys.argv[1] == "queue"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["now", "queue"])
def test_a_fork_from_the_screen_is_started_and_keeps_its_parent(box: Box, start: str) -> None:
    """The TUI, which cannot load libtmux, died of it; the queue forgot whose fork it was."""
    (box.work / "lay.toml").write_text(LAYOUT)
    (box.work / "mine.toml").write_text("lr = 0.1\n")
    assert box.run("up", "mine.toml", "-l", "lay.toml", "-o", "out", "-n", "base").returncode == 0
    command = [sys.executable, "-c", SCREEN, start]
    done = subprocess.run(command, cwd=box.work, env=box.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    retry_until(lambda: box.run("status", "base-lr0-3").returncode == 0, timeout_s=30)
    retry_until(lambda: "lr = 0.3" in box.run("logs", "base-lr0-3", "-c", "a").stdout, timeout_s=30)
    assert sheet(box.work / "base-lr0-3")["parent"] == sheet(box.work / "out")["id"]
    assert "└ base-lr0-3" in box.run("runs", "--group").stdout
    if start == "queue":
        (entry,) = box.json("queue")["entries"]
        assert (entry["name"], entry["state"], entry["told"]) == (
            "base-lr0-3", "running", "lr=0.3"
        )  # fmt: skip
