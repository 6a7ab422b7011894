"""Evaluations of every kind."""

from __future__ import annotations

import math

from tests.fakes.experiment import NOW, FakeExperiment
from tests.ui.checkpoint_cases import REPORT as CHECKPOINTS

from rltui.core.runs.evals import EvalReport, EvalRequest, EvalTarget, Evaluation, QueuedEval

EXAMPLES = 20


def evaluation(number: int, kind: str, label: str, mean: float, **values: object) -> Evaluation:
    """Example by example a little around the mean, so that it can be compared."""
    rewards = {f"{at:02}": mean + 0.06 * math.sin(at * number) for at in range(EXAMPLES)}
    base: dict[str, object] = {
        "id": str(number), "at": NOW - 600 * (12 - number), "experiment": "reverse-text", "kind": kind,
        "label": label, "env": "primeintellect/reverse-text", "num_examples": EXAMPLES, "rollouts": 60,
        "rollouts_per_example": 3, "mean": mean, "std": 0.11, "stderr": 0.012, "verdict": "ok",
        "rewards": rewards, "seconds": 71.0, "results": f"/run/.rltui/evals/{number}/results",
        "command": ("vf-eval", "reverse-text", "-m", "Qwen3-0.6B", "-n", "20", "-r", "3"),
        "model": "/run/weights/step_20",
    }  # fmt: skip
    return Evaluation.from_plain(base | values)


def queued(number: int, target: EvalTarget, why: str, **values: object) -> QueuedEval:
    request = EvalRequest(target=target)
    base: dict[str, object] = {"id": str(number), "request": request, "env": "reverse-text", "why": why}
    return QueuedEval.from_plain(base | values)


CUT_OFF = "54 of 60 rollouts were cut off; raise --max-tokens"
HUB = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-RL"
REPORT = EvalReport(
    experiment="reverse-text",
    evaluations=(
        evaluation(1, "base", "base", 0.052),
        evaluation(2, "sft", "sft", 0.311),
        evaluation(3, "checkpoint", "checkpoint 10", 0.334, step=10, run="aaa", stderr=0.03, rewards={}),
        evaluation(4, "checkpoint", "checkpoint 20", 0.702, step=20, run="aaa"),
        evaluation(
            5, "checkpoint", "checkpoint 30", 0.02, step=30, run="aaa", verdict="truncated",
            truncated_frac=0.9, words=CUT_OFF,
        ),
        evaluation(6, "model", HUB, 0.81, model=HUB, failed_frac=0.05),
        evaluation(7, "now", "now (step 12 to 14)", 0.29, step=14, first_step=12, run="bbb"),
        evaluation(8, "base", "base", 0.4, env="gsm8k"),
    ),
    queue=(
        queued(9, EvalTarget(kind="checkpoint", step=40), "the evaluator is running", state="running",
               started_at=NOW - 31, done=24, by="eval_every"),
        queued(10, EvalTarget(kind="base"), "GPU memory: 12 of 80 GiB free, it needs 40", at=NOW - 12),
    ),
    every=1,
)  # fmt: skip


def with_evals(report: EvalReport = REPORT, *, readonly: bool = False) -> FakeExperiment:
    experiment = FakeExperiment(readonly=readonly)
    experiment.eval_report = report
    experiment.checkpoint_report = CHECKPOINTS
    return experiment
