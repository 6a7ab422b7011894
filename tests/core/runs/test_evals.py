"""Figures, errors, differences and verdicts of evaluations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rltui.core.runs.evals import (
    EvalRequest,
    EvalStatistics,
    EvalTarget,
    Evaluation,
    QueuedEval,
    baseline,
    difference,
    refusal,
    statistics_of,
    verdict,
)


def evaluation(rewards: dict[str, float], **more: Any) -> Evaluation:
    result = statistics_of((name, reward, False, False, -1) for name, reward in rewards.items())
    values: dict[str, Any] = {
        "id": "1", "at": 1.0, "experiment": "x", "kind": "checkpoint", "label": "checkpoint 20",
        "env": "reverse-text", "num_examples": result.examples, "rollouts": result.rollouts,
        "rollouts_per_example": 1, "mean": result.mean, "std": result.std, "stderr": result.stderr,
        "verdict": "ok", "rewards": result.rewards,
    }  # fmt: skip
    return Evaluation(**(values | more))


def test_errors_go_from_example_to_example() -> None:
    """Twenty answers to each of two prompts are two measurements, not forty."""
    samples = [("a", 1.0, False, False, 7)] * 20 + [("b", 0.0, False, False, 9)] * 20
    result = statistics_of(samples)
    assert (result.rollouts, result.examples, result.mean, result.std) == (40, 2, 0.5, 0.5)
    assert result.stderr == pytest.approx(0.5)  # of two values, 1 and 0: deviation 0.71, by the root of two
    assert result.input_tokens == 9


def test_the_error_of_equal_groups_is_that_of_their_means() -> None:
    means = {"a": 0.1, "b": 0.4, "c": 0.9}
    result = statistics_of(
        (name, mean + off, False, False, -1) for name, mean in means.items() for off in (-0.1, 0.1)
    )
    mean = sum(means.values()) / 3
    spread = math.sqrt(sum((value - mean) ** 2 for value in means.values()) / 2)
    assert result.stderr == pytest.approx(spread / math.sqrt(3))
    assert result.input_tokens is None


def test_nothing_is_made_of_nothing() -> None:
    assert statistics_of([]).mean is None
    assert statistics_of([("a", 0.5, False, False, 1)]).stderr is None
    unrewarded = statistics_of([("a", math.nan, False, True, 1)])
    assert (unrewarded.rollouts, unrewarded.failed, unrewarded.mean) == (1, 1, None)


def test_the_same_examples_are_compared_one_by_one() -> None:
    """Hard and easy prompts spread both means; the difference of each is alike."""
    before = evaluation({"a": 0.0, "b": 0.5, "c": 0.9})
    after = evaluation({"a": 0.1, "b": 0.6, "c": 1.0})
    result = difference(after, before)
    assert result is not None
    assert result.examples == 3
    assert result.value == pytest.approx(0.1)
    assert result.stderr == pytest.approx(0.0, abs=1e-9)
    assert result.words == "+0.100 ± 0.000 ≈", "three examples are too few to believe an interval"
    assert result.document()["ci95"] is None

    more = evaluation({"a": 0.1, "b": 0.6, "c": 1.0, "d": 0.0})  # over those that both have
    result = difference(more, before)
    assert result is not None
    assert (result.examples, round(result.value, 6)) == (3, 0.1)


def test_other_examples_are_compared_by_their_means() -> None:
    before, after = evaluation({"a": 0.0, "b": 0.5}), evaluation({"c": 1.0, "d": 0.5})
    result = difference(after, before)
    assert result is not None
    assert result.examples == 0
    assert result.value == pytest.approx(0.5)
    assert result.stderr == pytest.approx(math.hypot(0.25, 0.25))
    one = difference(evaluation({"a": 1.0}), before)
    assert one is not None
    assert one.words == "+0.750 (other examples)"
    assert difference(after, before.replace(env="gsm8k")) is None
    assert difference(after, before.replace(mean=None)) is None


def test_the_baseline_is_what_was_there_before_training() -> None:
    first = evaluation({"a": 0.3}, id="1", at=1.0, label="checkpoint 10")
    base = evaluation({"a": 0.1}, id="2", at=2.0, kind="base")
    sft = evaluation({"a": 0.2}, id="3", at=3.0, kind="sft")
    last = evaluation({"a": 0.9}, id="4", at=4.0)
    assert baseline([first, base, sft, last], last) == base
    assert baseline([first, base, sft, last], sft) == base
    assert baseline([first, base, sft, last], base) is None
    assert baseline([first, sft, last], last) == sft
    assert baseline([first, last], last) == first
    assert baseline([first, last], first) is None
    assert baseline([base.replace(verdict="failed"), last], last) is None


ASKED = EvalRequest(num_examples=20, rollouts_per_example=3)


@pytest.mark.parametrize(
    ("result", "ended", "is_verdict", "says"),
    [
        (EvalStatistics(), "", "empty", "without an error, but left no results"),
        (EvalStatistics(), "exit code 1: no such environment", "empty", "no such environment"),
        (EvalStatistics(rollouts=60, failed=60, mean=0.0), "", "failed", "60 of 60 rollouts failed"),
        (EvalStatistics(rollouts=60, failed=30, mean=0.4), "", "failed", "30 of 60 rollouts failed"),
        (EvalStatistics(rollouts=60), "", "failed", "no rollout has a reward"),
        (EvalStatistics(rollouts=60, truncated=60, mean=0.0), "", "truncated", "--max-tokens"),
        (EvalStatistics(rollouts=60, truncated=50, mean=0.1), "", "ok", "--max-tokens"),
        (EvalStatistics(rollouts=60, truncated=2, mean=0.8), "", "ok", "2 of 60 rollouts were cut off"),
        (EvalStatistics(rollouts=60, mean=0.8), "", "ok", ""),
        (EvalStatistics(rollouts=12, mean=0.8), "stopped", "failed", "stopped; only 12 of 60 rollouts"),
        (EvalStatistics(rollouts=12, mean=0.8), "", "ok", "only 12 of 60 rollouts"),  # a small data set
    ],
)
def test_the_verdict_is_that_of_the_results(
    result: EvalStatistics, ended: str, is_verdict: str, says: str
) -> None:
    sentence = verdict(result, ASKED, ended)
    assert sentence[0] == is_verdict
    assert says in sentence[1]
    assert bool(says) == bool(sentence[1])


def test_answers_that_cannot_fit_are_refused() -> None:
    assert "no room for a prompt in a context of 2048" in refusal(2048, 2048, None)
    assert "a prompt of 1100 tokens" in refusal(1024, 2048, 1100)
    assert refusal(1024, 2048, 1024) == refusal(None, 2048, 1024) == refusal(4096, None, 1024) == ""


def test_what_waits_says_for_what() -> None:
    target = EvalTarget(kind="checkpoint", step=20)
    queued = QueuedEval(id="2", request=EvalRequest(target=target, env="reverse-text"), why="12 GiB")
    assert queued.label == "checkpoint 20 on reverse-text"
    assert queued.words == "waiting for 12 GiB"
    running = queued.replace(state="running", done=24, why="the evaluator is running")
    assert running.words == "24/60 rollouts"
    assert EvalTarget(kind="model", model="Qwen/Qwen3-0.6B").label == "Qwen/Qwen3-0.6B"
