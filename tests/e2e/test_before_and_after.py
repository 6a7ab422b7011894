"""The tutorials on one machine: from options on a line to metrics of before and after, on screen."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(300)]

STEPS = 24
SHAPE = ("first", "--examples", "8", "--rollouts", "2")


@pytest.fixture
def trained(box: Box, free_port: int) -> Box:
    """A run of some steps, by options behind its config, whose server is still warm."""
    pytest.importorskip("torch")
    write_example(box.work, port=free_port, steps=5000, replaced={"interval = 10": "interval = 4"})
    options = ("--max-steps", str(STEPS), "--orchestrator.batch-size=64")
    up = box.run(
        "up", "rl.toml", "-n", "first", "-o", "out", "--only", "inference", "--", *options, timeout_s=120
    )
    assert up.returncode == 0, up.stderr
    before = box.json("eval", "run", *SHAPE)["evaluations"][0]
    assert (before["kind"], before["label"]) == ("sft", "sft (now)"), "what the run will begin with"
    assert box.run("start", "--yes", "--wait", timeout_s=60).returncode == 0
    retry_until(lambda: box.status()["state"] == "done", timeout_s=120)
    return box


def evaluations(box: Box) -> list[dict[str, Any]]:
    return list(box.json("eval", "first")["evaluations"])


def component_ids(box: Box) -> list[str]:
    return [component["id"] for component in box.json("status", "first")["components"]]


def test_before_and_after_and_a_second_run_on_the_warm_server(trained: Box) -> None:
    assert "max_steps" in trained.run("diff", "--original").stdout
    assert "max_steps = 5000" in (trained.work / "rl.toml").read_text(), "the person's file stays"

    argv = [sys.executable, "-m", "rltui"]
    with closing(Terminal(argv, cwd=trained.work, env=trained.env, columns=130, rows=40)) as terminal:
        terminal.wait_for("✓ done")
        terminal.press(typed("screen.evals"))
        terminal.wait_for("first · Evaluations")
        terminal.press(typed("component.start"))
        terminal.wait_for("Evaluate")
        terminal.press("Enter")
        retry_until(lambda: len(evaluations(trained)) == 2, timeout_s=60)
        terminal.wait_for("20 × 3")
        terminal.press("Enter")
        terminal.wait_for("first · Rollouts")
        terminal.wait_for("assistant")
    first = evaluations(trained)[1]

    if first["kind"] != "base":
        assert trained.run("eval", "run", "--base", *SHAPE, timeout_s=90).returncode in (0, 5), (
            "base rambles on"
        )
    after = trained.json("eval", "run", "--from", str(STEPS - 4), *SHAPE, timeout_s=90)["evaluations"][0]
    base = next(evaluation for evaluation in evaluations(trained) if evaluation["kind"] == "base")
    assert after["mean"] > base["mean"] + 0.3
    retry_until(lambda: "eval-server" not in component_ids(trained), timeout_s=20)

    second = ("up", "rl.toml", "-n", "second", "-o", "two", "--inference-of", "first")
    assert trained.run(*second, "--", "--max-steps", "6", timeout_s=90).returncode == 0
    retry_until(lambda: trained.json("status", "second")["state"] == "done", timeout_s=60)
    reset = trained.json("metrics", "second", "reward")
    assert reset["series"], "it trained on a server that it did not start"
    refusal = trained.run("eval", "run", "--now", *SHAPE)
    assert "has the weights of second" in refusal.stderr
    assert hints.EVAL_CHECKPOINT(name="first") in refusal.stderr
