"""SFT with evaluations, by parts: the engine stays up while trainer and evaluations restart."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import evaluated_sft_box
from tests.fakes.prime_rl.generation import Name
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

GENERATIONS: list[Name] = ["C", "D"]
SERVER = "env-eval-reverse-text"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_edit_restarts_the_trainer_and_keeps_the_engine(box: Box, generation: Name) -> None:
    prime = evaluated_sft_box(box, generation)
    status = prime.up()
    assert {item["id"] for item in status["components"]} == {"inference", SERVER, "online-eval", "trainer"}
    prime.wait_for_steps("trainer", 6)
    retry_until(lambda: "valuated reverse-text (Step 4)" in prime.text("online-eval"))
    plan = box.json("set", "data.micro_batch_size=2", "--plan")
    assert set(plan["stop"]) == {"online-eval", "trainer"}, plan["reasons"]
    prime.done("set", "data.micro_batch_size=2", "--restart", "--yes")
    steps = prime.wait_for_steps("trainer", 6, attempt=2)
    assert (steps[0] > 4, steps[0] % 2) == (True, 1), "resumed from a checkpoint"
    assert prime.attempt("inference") == prime.attempt(SERVER) == 1
    retry_until(lambda: prime.weights()["version"] > steps[0])
    first = prime.checkpoints()[0]
    prime.done("restart", "-c", "trainer", "--from", str(first), "--yes")
    assert prime.wait_for_steps("trainer", 6, attempt=3)[0] == first + 1
    retry_until(lambda: "valuated reverse-text" in prime.text("online-eval", 3))
    assert "at step 0 " not in prime.text("online-eval", 3), "it knows the checkpoint, too"
    assert prime.attempt("inference") == 1
    plan = box.json("restart", "-c", "trainer", "--from-scratch", "--plan")
    assert ("inference" in plan["stop"]) == (generation == "C"), "nothing else resets its weights there"
    prime.assert_down_leaves_nothing()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_run_is_done_when_the_last_weights_are_evaluated(box: Box, generation: Name) -> None:
    box.env["STANDIN_EVAL_S"] = "0.5"
    prime = evaluated_sft_box(box, generation, max_steps=5, every=5)
    prime.up()
    box.wait_for("trainer", "exited", timeout_s=30)
    component = box.wait_for("online-eval", "exited", timeout_s=30)
    assert component["exit_code"] == 0
    assert "Evaluated reverse-text (Step 5)" in prime.text("online-eval")
    status = box.status()
    assert (status["state"], status["step"], status["max_steps"]) == ("done", 5, 5)
    assert "cancelled" not in box.run("events").stdout


def test_cancelled_evaluations_are_no_scores(box: Box) -> None:
    """Each takes longer than the steps to the next: it is cancelled by a newer checkpoint, by default."""
    box.env["STANDIN_EVAL_S"] = "4"
    prime = evaluated_sft_box(box, "D", max_steps=16)
    box.env["STANDIN_STEP_S"] = "0.3"
    prime.up()
    box.wait_for("online-eval", "exited", timeout_s=60)
    assert box.component("trainer")["state"] == "exited"
    report = box.json("eval")
    found = {evaluation["step"]: evaluation["mean"] for evaluation in report["training"]}
    assert [found[step] for step in (0, 4, 8, 12)] == [None] * 4, found
    assert found[16] == pytest.approx(0.8), "the last one is finished"
    assert "while training: 0.800 at step 16, cancelled at 12, " in box.run("eval").stdout
    texts = [event["text"] for event in box.json("events")["events"]]
    assert [text.partition(";")[0] for text in texts if "evaluation of" in text][:2] == [
        "evaluation of step 0 on reverse-text was cancelled by a newer checkpoint",
        "evaluation of step 4 on reverse-text was cancelled by a newer checkpoint",
    ]
    assert any("eval.cancel_on_new_checkpoint = false" in text for text in texts), "the finding has the knob"


def test_trainer_that_waits_for_an_evaluation_says_so(box: Box) -> None:
    box.env["STANDIN_EVAL_S"] = "30"
    prime = evaluated_sft_box(box, "D")
    prime.config.write_text(
        prime.config.read_text().replace("[eval]", "[eval]\ncancel_on_new_checkpoint = false")
    )
    prime.up("", "--no-wait")
    retry_until(lambda: "waiting for evals" in box.component("trainer")["facts"], timeout_s=30)
    assert retry_until(lambda: [fact for fact in box.component("online-eval")["facts"] if "/8" in fact])
    assert not box.component("trainer")["stalled"]
    prime.done("down")
