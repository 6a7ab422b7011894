"""prime-rl's real programs under rltui, on a CPU: SFT, its checkpoint, RL with a live edit and a rewind.

`make_checkout.py` makes them, and says what of them is real. Tried last with 559b44772 (2026-08-21), and
an RL run by hand with 3586e667f, a branch of the next day.

Measured beside seven other people on two cores, at a load of 20: the environment 20 minutes (3.5 of CPU) and
6.6 GB of disk, a test about 15 minutes and 3 GB of memory. On an idle machine a server starts in one minute
instead of four.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import EXPERIMENT, PrimeBox
from tests.fakes.prime_rl.examples import free_ports
from tests.prime_rl_real.configs import ANSWER_TOKENS, eval_text, rl_text, sft_text
from tests.waiting import retry_until

pytestmark = [pytest.mark.primerl, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(3600)]

START_S = 900.0
"""From `up` to the first step, on a machine of two busy cores; a minute and a half on an idle one."""
STEP_S = 240.0
EVALS_LAYOUT = "prime-rl-sft-evals"
SFT_STEPS = 40
"""Too few to be right always, of which RL could not learn."""


@pytest.fixture
def prime(real: Box, checkout: Path) -> PrimeBox:
    """With the config of an RL run."""
    ports = free_ports()
    (real.work / "rl.toml").write_text(rl_text(checkout, ports))
    return PrimeBox(real, "C", ports, ("rl.toml",))


def rows(folder: Path) -> list[dict[str, Any]]:
    """What a run's programs wrote of their steps."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_config_is_valid_for_both(prime: PrimeBox) -> None:
    done = prime.box.run("check", "rl.toml", "-l", "prime-rl", timeout_s=START_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("valid by prime-rl (August 2026 on)'s own validators")
    assert "episodes in flight: 8" in done.stdout


def test_from_sft_over_rl_with_an_edit_and_a_rewind_to_evaluations(prime: PrimeBox, checkout: Path) -> None:
    box = prime.box
    fine_tune(box, checkout)
    prime.done("checkpoints", "use", "sft", "last", "--config", "rl.toml", "--yes", timeout_s=START_S)
    assert f"sft/run/checkpoints/step_{SFT_STEPS}/weights" in prime.config.read_text()
    prime.up("prime-rl", "--only", "inference", "--no-wait")
    box.wait_for("inference", "ready", timeout_s=START_S)
    assert evaluate(box)["kind"] == "base", "of RL: nothing is trained yet"
    kept = box.component("inference")["pid"]

    prime.done("start", EXPERIMENT, "--yes", "--no-wait", timeout_s=START_S)
    prime.wait_for_steps("trainer", 4, timeout_s=START_S)
    status = box.status()
    assert status["state"] == "running"
    assert status["step"] >= 3
    assert 0 < status["reward"] < 1
    assert "Updating policy in-flight to v2" in prime.text("orchestrator")
    written = {key for row in rows(prime.output) for key in row}
    assert {"train/agg/all/agent/reward/mean", "loss/mean", "mismatch_kl/all/mean"} <= written
    batches = box.json("rollouts", EXPERIMENT)["batches"]
    assert {(1, 8), (2, 8)} <= {(each["step"], each["count"]) for each in batches}

    change_batch_size(prime)
    rewind(prime)
    assert evaluate(box)["kind"] == "now"
    assert box.component("inference")["pid"] == kept
    status = box.status()
    assert status["state"] == "running"
    assert status["orphans"] == []
    kinds = Counter(event["kind"] for event in box.json("events", EXPERIMENT)["events"])
    assert kinds["edit"] == 1
    assert not kinds["alert"], "nothing was wrong"
    prime.assert_down_leaves_nothing(STEP_S)


def fine_tune(box: Box, checkout: Path) -> None:
    """Run `sft` to its end."""
    (box.work / "sft.toml").write_text(sft_text(checkout, box.work / "data", max_steps=SFT_STEPS))
    done = box.run("up", "sft.toml", "-n", "sft", "-o", "sft", "--no-wait", timeout_s=STEP_S)
    assert done.returncode == 0, done.stderr
    retry_until(lambda: box.status("sft")["state"] == "done", timeout_s=START_S, interval_s=1)
    losses = box.json("metrics", "sft", "loss")["series"][0]
    assert losses["steps"] == list(range(1, SFT_STEPS + 1))
    assert losses["values"][-1] < losses["values"][0] - 1
    checkpoints = box.json("checkpoints", "sft")["checkpoints"]
    steps = [(each["step"], each["complete"]) for each in checkpoints]
    assert steps == [(SFT_STEPS // 2, True), (SFT_STEPS, True)]
    assert box.run("down", "sft", timeout_s=STEP_S).returncode == 0


def evaluate(box: Box) -> dict[str, Any]:
    """Evaluate the weights in the engine; the new entry in the list."""
    words = ("eval", "run", EXPERIMENT, "reverse-text", "--examples", "5", "--rollouts", "4")
    done = box.run(*words, "--max-tokens", str(ANSWER_TOKENS), timeout_s=START_S)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = box.json("eval", EXPERIMENT)["evaluations"][-1]
    assert (found["num_examples"], found["failed_frac"]) == (5, 0)
    assert 0 < found["mean"] < 1
    return found


def change_batch_size(prime: PrimeBox) -> None:
    """A live edit: the pair that trains starts again from a checkpoint, the engine stays as it is."""
    prime.done("set", EXPERIMENT, "orchestrator.batch_size=16", "--restart", "--yes", timeout_s=START_S)
    first = prime.wait_for_steps("trainer", 3, attempt=2, timeout_s=START_S)[0]
    assert first > 1
    assert (first - 1) % 2 == 0
    retry_until(lambda: prime.steps("orchestrator", 2)[:1] == [first], timeout_s=STEP_S)
    assert "cleanup complete (forced)" in prime.text("orchestrator", 1)
    assert 16 in {each["count"] for each in prime.box.json("rollouts", EXPERIMENT)["batches"]}


def rewind(prime: PrimeBox) -> None:
    """Steps after the second are done again; their checkpoints are set aside, not lost."""
    prime.done(
        "restart",
        EXPERIMENT,
        "--from",
        "2",
        "-c",
        "orchestrator",
        "-c",
        "trainer",
        "--yes",
        timeout_s=START_S,
    )
    assert prime.wait_for_steps("trainer", 2, attempt=3, timeout_s=START_S)[:2] == [3, 4]
    retry_until(lambda: prime.steps("orchestrator", 3)[:1] == [3], timeout_s=STEP_S)
    document = prime.box.json("checkpoints", EXPERIMENT)
    assert 4 in document["set_aside"][-1]["steps"]
    abandoned = prime.box.json("metrics", EXPERIMENT, "loss")["series"][0]
    assert abandoned["steps"] == sorted(set(abandoned["steps"]))
    assert abandoned["abandoned"]


def test_ends_by_itself_and_goes_on_to_a_later_step(prime: PrimeBox) -> None:
    box = prime.box
    prime.config.write_text(prime.config.read_text().replace("max_steps = 1000", "max_steps = 2"))
    prime.up("prime-rl", "--no-wait")
    for name in ("trainer", "orchestrator"):
        assert box.wait_for(name, "exited", timeout_s=START_S)["exit_code"] == 0
    told = box.run("status").stdout
    assert "✓ done" in told
    assert "still running: inference" in told
    assert prime.steps("trainer") == prime.steps("orchestrator") == [1, 2]
    assert prime.checkpoints() == [2]
    prime.done("set", "max_steps=3", "--restart", "--yes", timeout_s=START_S)
    box.wait_for("trainer", "exited", timeout_s=START_S)
    assert prime.steps("trainer", 2) == [3]
    written = Counter(row["step"] for row in rows(prime.output) if "loss/mean" in row)
    assert written == {1: 1, 2: 1, 3: 1}
    prime.assert_down_leaves_nothing(STEP_S)


def test_sft_is_evaluated_while_it_trains(real: Box, checkout: Path) -> None:
    """Run by parts, so that the engine is the same when the trainer goes on from a checkpoint."""
    text = sft_text(checkout, real.work / "data", max_steps=20) + eval_text(free_ports())
    (real.work / "sft.toml").write_text(text)
    done = real.run(
        "up", "sft.toml", "-n", "sft", "-o", "sft", "-l", EVALS_LAYOUT, "--no-wait", timeout_s=STEP_S
    )
    assert done.returncode == 0, done.stderr
    real.wait_for("inference", "ready", timeout_s=START_S)
    engine = real.component("inference")["pid"]
    retry_until(lambda: real.status("sft")["state"] == "done", timeout_s=START_S, interval_s=1)
    assert {0, 20} <= set(evaluated(real)), "the one between may be skipped"

    more = real.run("set", "sft", "max_steps=30", "--restart", "--yes", timeout_s=START_S)
    assert more.returncode == 0, more.stderr
    retry_until(lambda: evaluated(real)[-1:] == [30], timeout_s=START_S, interval_s=1)
    retry_until(lambda: real.status("sft")["state"] == "done", timeout_s=START_S, interval_s=1)
    assert real.component("inference")["pid"] == engine
    assert real.run("down", "sft", timeout_s=STEP_S).returncode == 0
    assert not real.tagged("sft")


def evaluated(box: Box) -> list[int]:
    """Steps of which the run has the reward of its evals."""
    key = "eval/reverse-text/effective/agent/reward/mean"
    return sorted(row["step"] for row in rows(box.work / "sft/run") if key in row)
