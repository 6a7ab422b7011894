"""Rows out of log lines; `tests/data/prime_rl/logs` holds lines as the three generations print them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from rltui.core.experiment.stalls import phase_of
from rltui.core.logs.lines import decode_line, plain_text
from rltui.core.metrics.names import cancelled_evals, without_cancelled_evals
from rltui.frameworks.prime_rl.log_lines import MARKS, PHASES, TOKENS_PER_ROLLOUT, log_row

LOGS = Path(__file__).parents[2] / "data/prime_rl/logs"
AGENT = "train/agg/effective/agent"
REWARD = f"{AGENT}/reward/mean"


def rows(name: str) -> list[dict[str, Any]]:
    lines = (LOGS / f"{name}.log").read_bytes().split(b"\n")
    parsed = (log_row("any", decode_line(line)) for line in lines)
    return [dict(row) for row in parsed if row is not None]


def test_split_lines() -> None:
    orchestrator, validated, trainer, diverged, evaluated = rows("split")
    assert evaluated == {"eval/reverse-text/effective/agent/avg@4": 0.5}
    assert validated["val_reward/mean"] == 0.3
    assert orchestrator == {
        "step": 3, "time/step": 12.35, REWARD: 0.1, TOKENS_PER_ROLLOUT: 99.9, "off_policy/max": 0,
    }  # fmt: skip
    assert (validated[REWARD], validated[TOKENS_PER_ROLLOUT]) == (0.12, 101.5)
    assert trainer == {
        "step": 3, "time/step": 3.21, "loss/mean": 0.0012, "entropy/all/mean": 0.5,
        "mismatch_kl/all/mean": 0.0001, "optim/grad_norm": 0.1234, "optim/lr": 3e-6,
        "perf/throughput": 12345, "perf/mfu": 12.3, "perf/peak_memory": 34.5,
    }  # fmt: skip
    assert math.isnan(diverged["loss/mean"])
    assert math.isinf(diverged["entropy/all/mean"])
    assert diverged["perf/peak_memory"] == 34.5


def test_merged_lines() -> None:
    sft, orchestrator, trainer, validation, as_json = rows("merged")
    assert (sft["step"], sft["loss/mean"], sft["optim/lr"], sft["perf/peak_memory"]) == (
        7,
        1.2345,
        2e-5,
        34.5,
    )
    assert orchestrator == {
        "step": 8, "time/step": 9.8, REWARD: 0.25, TOKENS_PER_ROLLOUT: 120.0, "off_policy/max": 1,
    }  # fmt: skip
    assert (trainer["max_vio/mean"], trainer["perf/peak_memory"]) == (0.3, 40.1)
    assert validation == {"step": 50, "val/loss": 1.5}
    assert (as_json["step"], as_json["time/step"], as_json["loss/mean"]) == (9, 3.6, 0.02)


def test_current_lines() -> None:
    first, second, below, trainer, sft, validation, evaluation, as_json = rows("current")
    assert below == {"train/reverse-text/effective/agent/reward/mean": 0.9}
    assert as_json["train/b/effective/agent/reward/mean"] == 0.9
    assert first == {
        "step": 1, "time/step": pytest.approx(12.3), REWARD: 0.1, f"{AGENT}/num_turns/mean": 1.0,
        f"{AGENT}/num_branches/mean": 1.0, "off_policy/max": 2, "train/agg/all/has_error/mean": 0.005,
        "train/agg/all/cancelled/mean": 0.02, f"{AGENT}/is_truncated/mean": 0.01,
        f"{AGENT}/is_trainable/mean": pytest.approx(0.938),
    }  # fmt: skip
    assert (second["step"], second["time/step"], second[REWARD]) == (2, 125.0, 0.2)
    assert trainer["time/step"] == pytest.approx(0.85)
    assert (trainer["max_vio/mean"], trainer["routing_confidence/mean"]) == (0.1, 0.7)
    assert (sft["time/step"], sft["loss/mean"]) == (3780.0, -0.05)
    assert validation == {"step": 50, "val/loss": 1.5}
    assert evaluation == {
        "step": 20, "eval/reverse-text/effective/agent/reward/mean": 0.75,
        "eval/reverse-text/policy_version": 19,
    }  # fmt: skip
    assert (as_json["step"], as_json[REWARD], as_json[f"{AGENT}/is_trainable/mean"]) == (4, 0.3, 0.5)


CANCELLED = (
    "23:34:14 WARNING Partially evaluated reverse-text (Step 4) |    1.2s | Reward 0.5000 | Error 0.0% |"
    " Completed 3/8 | Cancelled 5/8"
)
NOW: dict[str, dict[str, str | None]] = {
    "online-eval": {
        "Starting evals in a, b at step 4 (8 total rollouts)": "evaluates step 4",
        "a 3/8 (37.5%) | b 0/8 (0.0%); 5 inflight episodes (cap 64, signal kv)": "evaluates a 3/8",
        "Checkpoint 8 is ready - cancelling unfinished eval episodes for step 4": (
            "cancels the evaluation of step 4"
        ),
        CANCELLED: "waiting for weights",
        "Idle; 0 inflight episodes (cap 64, signal kv)": "waiting for weights",
    },
    "trainer": {
        "Broadcasting weights at step 4": "waiting for evals",
        "WARNING Still waiting for the broadcast receiver after 60s": None,
        "Step 4 |    1.2s | Loss 0.1": "",
    },
}


def test_cancelled_evaluation_has_no_score() -> None:
    assert log_row("online-eval", CANCELLED) == {"step": 4, "eval/reverse-text/all/cancelled/mean": 5 / 8}
    row = {"step": 4, "eval/a/all/cancelled/mean": 0.5, "eval/a/effective/agent/reward/mean": 0.9}
    row |= {"eval/b/effective/agent/reward/mean": 0.4}
    assert without_cancelled_evals(row).keys() == row.keys() - {"eval/a/effective/agent/reward/mean"}
    finished = row | {"eval/a/all/cancelled/mean": 0.0}
    assert without_cancelled_evals(finished) == finished
    assert (cancelled_evals(row), cancelled_evals(finished)) == ({"a": 0.5}, {})


def test_what_real_evaluations_of_sft_do() -> None:
    lines = (LOGS.parent / "runs/evals-1.log").read_bytes().splitlines()
    phases = [phase_of([plain_text(decode_line(line))], PHASES["online-eval"]) for line in lines]
    found = [phase for phase, _ in itertools.groupby(filter(None, phases))]
    assert found == [
        "evaluates step 0", "evaluates 10 episodes", "waiting for weights",
        "loads the weights of step 10", "evaluates step 10", "evaluates 10 episodes", "waiting for weights",
        "loads the weights of step 20", "evaluates step 20", "evaluates 10 episodes",
        "evaluates reverse-text 8/10", "waiting for weights",
    ]  # fmt: skip


def test_what_evaluations_of_sft_do_now() -> None:
    for component, lines in NOW.items():
        for line, words in lines.items():
            assert phase_of([line], PHASES[component]) == words, line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Step 3",
        "a user's own print: Step 3 | Time: 1.00s | Loss: 1.0",
        "23:34:14 SUCCESS Step three | Time: 1.00s | Loss: 1.0",
        "23:34:14 SUCCESS Step 3 | Time: 1.00s | Something: 1.0",
        "23:34:14 SUCCESS Step 3 | Loss: 1.0",
        '{"message": ["Step 3 | Time: 1.00s | Loss: 1.0"]}',
        '{"message": ' + "[" * 100_000 + "Step ",
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert log_row("trainer", line) is None


def test_a_line_behind_an_unfinished_progress_bar() -> None:
    bar = "Generating rollouts (train):  12%|█▎        | 16/128 [00:03<00:21,  5.31it/s]"
    row = log_row(
        "orchestrator", bar + "23:34:14 SUCCESS Step 3 | Time: 12.35s | Reward: 0.5 | Seq. Length: 9.0"
    )
    assert row is not None
    assert row["step"] == 3


def test_a_step_without_end_is_no_step() -> None:
    assert log_row("trainer", f"12:00:00 SUCCESS Step {'7' * 65_000} | Time: 1.0s | Loss: 0.1") is None


def read(line: str) -> dict[str, Any]:
    row = log_row("any", line)
    assert row is not None
    return dict(row)


def test_latest_lines() -> None:
    step = (
        "18:15:07 [SUCCESS] Step 2 |   1m 3s | Reward 0.4100 | Trainable 118/128 (92.2%) | Turns 1.0 | "
        "Branches 1.0 | Max Off-Policy 1 | Error 0.0% | Cancelled 0.8% | Truncation 1.6% | Timeout 2.5%"
    )
    hosted = read(step)
    assert (hosted["step"], hosted["time/step"], hosted[REWARD]) == (2, 63.0, 0.41)
    assert hosted[f"{AGENT}/is_timeout/mean"] == pytest.approx(0.025)
    assert read(step.replace("[SUCCESS]", "SUCCESS")) == hosted
    evaluated = "23:40:02 SUCCESS Evaluated gsm8k | Policy v20 |   1m 3s | Reward 0.5123 | Turns 1.0"
    assert read(evaluated) == {
        "step": 20,
        "eval/gsm8k/effective/agent/reward/mean": 0.5123,
        "eval/gsm8k/policy_version": 20,
    }
    assert log_row("any", evaluated.replace("Policy v20 | ", "")) is None


def test_the_first_lines_of_2025_told_another_figure() -> None:
    row = read("23:34:20 SUCCESS Step 3 | Time: 3.21s | Loss: 0.1 | Entropy: 0.5 | Importance Ratio: 1.25")
    assert row["importance_ratio/all/mean"] == 1.25


def test_every_line_that_is_read_has_the_mark() -> None:
    for name in ("split", "merged", "current"):
        lines = (LOGS / f"{name}.log").read_text().splitlines()
        assert all(any(mark in line for mark in MARKS) for line in lines if log_row("any", line) is not None)


def test_what_a_window_discarded_and_which_weights_the_engine_takes() -> None:
    warning = (
        "18:15:07 WARNING Discarded 96/128 episodes (75.0%): stale=80, errored=10, no_signal=6. Review"
        " max_off_policy_steps, episode errors, and reward signal."
    )
    discarded = "train/discarded"
    assert log_row("any", warning) == {
        f"{discarded}/stale": 0.625, f"{discarded}/errored": 0.078125, f"{discarded}/no_signal": 0.046875
    }  # fmt: skip
    assert log_row("any", warning.replace("/128", "/0")) is None
    assert log_row("any", "17:51:30    INFO Updating policy in-flight to v19") == {"policy/applied": 19}
    assert all(any(mark in line for mark in MARKS) for line in (warning, "Updating policy in-flight to v19"))
