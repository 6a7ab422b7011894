"""The generation whose env servers take free ports and tell their addresses in files, by parts."""

from __future__ import annotations

import subprocess

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox, prime_box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

SERVER = "env-train-reverse-text"


def addresses(prime: PrimeBox) -> dict[str, str]:
    """Split → what its server wrote down."""
    folder = prime.output / ".rltui/resolved/newest/envs"
    return {path.parent.name: path.read_text() for path in folder.glob("*/reverse-text.address")}


def test_restarted_env_server_takes_the_orchestrator_along_to_its_new_address(box: Box) -> None:
    prime = prime_box(box, "D")
    prime.up("prime-rl")
    prime.wait_for_steps("trainer", 4)
    before = addresses(prime)
    assert before.keys() == {"train", "eval"}
    assert f"Env reverse-text ready at {before['train']}" in prime.text("orchestrator")

    plan = box.json("restart", "-c", SERVER, "--plan")
    assert set(plan["stop"]) == {SERVER, "orchestrator", "trainer"}
    assert any("new port" in reason for reason in plan["reasons"]), plan["reasons"]
    prime.done("restart", "-c", SERVER, "--yes")
    steps = prime.wait_for_steps("trainer", 2, attempt=2)
    assert steps[0] > 1, "resumed from a checkpoint with both halves"
    after = addresses(prime)
    assert after["eval"] == before["eval"], "its server stayed"
    assert after["train"] != before["train"]
    output = prime.text("orchestrator", 2)
    assert f"ready at {after['train']}" in output
    assert before["train"] not in output
    assert prime.attempt("inference") == prime.attempt("env-eval-reverse-text") == 1

    assert not (prime.output / "configs").exists(), "an attempt of its own would move `latest`"
    assert (prime.output / "monitors/file/metrics.jsonl").exists()
    retry_until(lambda: (box.status()["step"] or 0) >= steps[-1])
    prime.assert_down_leaves_nothing()


def test_two_runs_side_by_side_share_no_port(box: Box) -> None:
    """Finding P3: two runs of one config chose the same ports."""
    prime = prime_box(box, "D")
    prime.up("prime-rl")
    second = box.run("up", *prime.files, "-l", "prime-rl", "-n", "two", "-o", "out2")
    assert second.returncode == 0, second.stderr
    assert "env servers" not in second.stderr, "theirs are free ones"
    retry_until(lambda: int(box.json("status", "two")["step"] or 0) >= 3, timeout_s=60)
    before = prime.steps("trainer")[-1]
    prime.wait_for_steps("trainer", before + 2)
    assert box.run("down", "two").returncode == 0
    prime.done("down", "one")


def test_run_that_a_person_started_by_hand_is_watched(box: Box) -> None:
    """Its configs and metrics are read from where this generation has them."""
    prime = prime_box(box, "D", max_steps=5)
    argv = "uv", "run", "--project", box.env["RLTUI_PRIME_RL"], "rl", "@", "rl.toml", "--run.name", "by-hand"
    result = subprocess.run(argv, cwd=box.work, env=box.env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    run = box.work / "outputs" / "by-hand"
    assert (run / "configs/latest/resolved/envs/eval/reverse-text.address").exists()
    status = box.json("watch", str(run), "--no-tui")
    assert (status["step"], status["max_steps"], status["framework"]) == (5, 5, "prime-rl")
    log_ids = {log["id"] for log in status["logs"] if log["name"]}
    assert {"orchestrator", "trainer", "inference", "envs"} <= log_ids
    assert not prime.output.exists()
