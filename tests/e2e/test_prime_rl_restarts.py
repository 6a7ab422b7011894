"""Restarts of prime-rl runs where a wrong one would hang, train on old files, or lose something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box
from tests.fakes.prime_rl.generation import Name
from tests.fakes.prime_rl.http_client import post
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

LAYOUTS: dict[Name, str] = {"A1": "prime-rl-split", "B1": "prime-rl-merged", "C": "prime-rl"}
UTILIZATION: dict[Name, str] = {
    "A1": "inference.gpu_memory_utilization",
    "B1": "inference.gpu_memory_utilization",
    "C": "inference.vllm.gpu_memory_utilization",
}


def started(box: Box, generation: Name, steps: int = 5) -> PrimeBox:
    prime = prime_box(box, generation)
    prime.up(LAYOUTS[generation])
    prime.wait_for_steps("trainer", steps)
    return prime


def kept_files(folder: Path, content: str) -> dict[str, bytes]:
    """Files below the run and below what was moved aside, by the part of their path from `wanted` on."""
    files = {}
    for path in folder.rglob(f"{content}/step_*/**/*"):
        if path.is_file():
            parts = path.parts
            files["/".join(parts[parts.index(content) :])] = path.read_bytes()
    return files


@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_new_server_gets_the_weights_of_the_checkpoint(box: Box, generation: Name) -> None:
    prime = started(box, generation)
    plan = box.json("set", f"{UTILIZATION[generation]}=0.5", "--plan")
    assert {"inference", "orchestrator", "trainer"} <= set(plan["stop"])
    prime.done("set", f"{UTILIZATION[generation]}=0.5", "--restart", "--yes")
    steps = prime.wait_for_steps("trainer", 3, attempt=2)
    assert steps[0] > 1, "resumed"
    assert prime.attempt("inference") == 2
    retry_until(lambda: prime.weights()["version"] >= steps[0])


@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_run_from_scratch_starts_with_the_weights_of_the_model(box: Box, generation: Name) -> None:
    prime = started(box, generation)
    assert prime.weights()["version"] > 0
    command = ("restart", "-c", "orchestrator", "-c", "trainer", "--from-scratch")
    plan = box.json(*command, "--plan")
    assert ("inference" in plan["stop"]) == (generation == "B1"), "nothing else resets it there"
    prime.done(*command, "--yes")
    first = 1 if generation == "C" else 0
    steps = prime.wait_for_steps("trainer", 3, attempt=2)
    assert steps[:3] == [first, first + 1, first + 2]
    assert prime.steps("orchestrator", 2)[0] == first
    if generation == "C":
        assert "Broadcasting startup policy weights (v0)" in prime.text("trainer", 2)


@pytest.mark.parametrize("generation", ["B1", "C"])
def test_paused_engine_is_resumed(box: Box, generation: Name) -> None:
    """The engine is paused, as an orchestrator leaves it that died while it updated weights."""
    prime = started(box, generation)
    port = prime.ports.engine if generation == "C" else prime.ports.server
    prime.done("stop", "-c", "orchestrator", "-c", "trainer", "--yes", "--wait")
    post(f"http://localhost:{port}/pause")
    prime.done("start", "--yes")
    prime.wait_for_steps("trainer", 2, attempt=2)
    assert prime.attempt("inference") == 1
    retry_until(lambda: not prime.weights()["paused"])  # it pauses for each update, too
    assert "resume a paused engine: done" in box.run("events").stdout


@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_restart_moves_stale_files_aside_and_deletes_none(box: Box, generation: Name) -> None:
    prime = started(box, generation)
    prime.done("stop", "-c", "orchestrator", "-c", "trainer", "--yes", "--wait")
    before = kept_files(prime.output, "rollouts")
    saved = kept_files(prime.output, "checkpoints")
    assert before or generation == "C"
    prime.done("start", "--yes")
    steps = prime.wait_for_steps("trainer", 2, attempt=2)
    assert steps[0] > 1
    assert before.keys() <= kept_files(prime.output, "rollouts").keys()
    assert saved.keys() <= kept_files(prime.output, "checkpoints").keys()


RESUME_KEYS: dict[Name, tuple[str, ...]] = {
    "A1": ("trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step"),
    "B1": ("ckpt.resume_step",),
    "C": ("resume.step",),
}


@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_the_checkpoint_that_is_asked_for_is_the_one(box: Box, generation: Name) -> None:
    """Finding A1: back to before a collapse."""
    prime = started(box, generation, steps=9)
    first, target, *later = prime.checkpoints()
    keys = RESUME_KEYS[generation]
    before = prime.config.read_bytes()
    refusal = box.run("set", *(f"{key}=777" for key in keys), "--restart", "--yes")
    assert refusal.returncode == 3
    assert "has no complete checkpoint of that step; complete: " in refusal.stderr
    assert prime.config.read_bytes() == before
    assert prime.attempt("trainer") == 1

    def begins_at(attempt: int) -> int:
        return prime.wait_for_steps("trainer", 1, attempt)[0] - (generation == "C")

    prime.done("set", *(f"{key}={target}" for key in keys), "--restart", "--yes")
    assert begins_at(2) == prime.steps("orchestrator", 2)[0] - (generation == "C") == target
    rows = {row["key"]: row for row in box.json("knobs", "--all")["knobs"]}
    assert rows[keys[0]]["running"] == rows[keys[0]]["value"] == target
    archived = {path.name for path in (prime.output / ".rltui" / "archive").rglob("checkpoints/step_*")}
    assert f"step_{later[-1]}" in archived
    prime.wait_for_steps("trainer", 5, attempt=2)
    prime.done("restart", "-c", "trainer", "--yes")
    assert begins_at(3) > target, "the config has been heard; now the newest counts again"
    output = {knob["key"]: knob for knob in box.json("diff")["keys"]}[keys[0]]
    assert (output["before"], output["after"], output["overridden"]) == (begins_at(3), target, True)
    prime.done("restart", "-c", "trainer", "--from", str(first), "--yes")
    assert begins_at(4) == first


def test_half_a_checkpoint_is_not_resumed_from(box: Box) -> None:
    """Asked to end, today's orchestrator writes its half of a checkpoint, and the trainer none."""
    prime = prime_box(box, "C", interval=3)
    prime.up("prime-rl")
    prime.wait_for_steps("trainer", 5)
    prime.done("restart", "-c", "trainer", "--yes")
    steps = prime.wait_for_steps("trainer", 2, attempt=2)
    assert (steps[0] - 1) % 3 == 0
    assert steps[0] > 1
    output = prime.text("orchestrator", 1)
    assert "Orchestrator cleanup complete" in output, "finding P4: rollouts under way were cancelled"


@pytest.mark.parametrize("generation", list(LAYOUTS))
def test_run_ends_by_itself(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation, max_steps=4)
    prime.up(LAYOUTS[generation])
    box.wait_for("trainer", "exited", timeout_s=30)
    component = box.wait_for("orchestrator", "exited", timeout_s=30)
    assert component["exit_code"] == 0
    status = box.status()
    assert status["max_steps"] == 4
    assert status["step"] in (3, 4), "the last one, as its generation counts"
    assert status["reward"] == pytest.approx(0.5, abs=0.1)
    assert "RL trainer finished!" in box.run("logs", "-c", "trainer").stdout
    output = box.run("status").stdout
    assert "✓ done" in output
    assert "still running: inference" in output
    keys = ("max_steps",) if generation != "A1" else ("trainer.max_steps", "orchestrator.max_steps")
    prime.done("set", *(f"{key}=8" for key in keys), "--restart", "--yes")
    last = 8 if generation == "C" else 7
    retry_until(lambda: prime.steps("trainer", 2)[-1:] == [last], timeout_s=30)


def test_refused_config_stops_nothing(box: Box) -> None:
    """A config that only prime-rl itself refuses is reported before anything is stopped or written."""
    box.env["STANDIN_REFUSE"] = "orchestrator.batch_size=96"
    prime = started(box, "C")
    before = prime.config.read_bytes()
    result = box.run("set", "orchestrator.batch_size=96", "--restart", "--yes")
    assert result.returncode == 3
    assert "96 is refused by the test" in result.stderr
    assert prime.config.read_bytes() == before
    assert prime.attempt("trainer") == prime.attempt("orchestrator") == 1
    assert prime.wait_for_steps("trainer", prime.steps("trainer")[-1] + 1)


def test_trainer_without_memory_fails_with_its_cause(box: Box) -> None:
    box.env["STANDIN_OOM_AT"] = "trainer:4"
    prime = prime_box(box, "C")
    prime.up("prime-rl", "--no-wait")
    component = box.wait_for("trainer", "failed", timeout_s=30)
    assert "memory" in component["reason"]
    assert prime.steps("trainer")[-1] == 3
    status = box.status()
    assert (status["state"], status["alive"], status["reason"]["components"]) == ("failed", True, ["trainer"])
    assert "failed: trainer" in box.run("status").stdout.splitlines()[0]


def test_run_that_a_person_started_by_hand_is_watched(box: Box) -> None:
    """`rltui watch` on the folder that `rl` writes, while it does."""
    prime = prime_box(box, "C", max_steps=5)
    argv = [
        "uv",
        "run",
        "--project",
        box.env["RLTUI_PRIME_RL"],
        "rl",
        "@",
        "rl.toml",
        "--run.name",
        "by-hand",
    ]
    result = subprocess.run(argv, cwd=box.work, env=box.env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    run = box.work / "outputs" / "by-hand"
    status = box.json("watch", str(run), "--no-tui")
    assert (status["step"], status["framework"]) == (5, "prime-rl")
    log_ids = {log["id"] for log in status["logs"] if log["name"]}
    assert {"orchestrator", "trainer", "inference"} <= log_ids
    assert "RL trainer finished!" in box.run("logs", "-c", "trainer").stdout
    assert not prime.output.exists()
