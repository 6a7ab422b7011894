"""How plans are told."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import ORPHANS

from rltui.core.experiment.api import Lost, Orphan, Plan
from rltui.views.plan import estimate_text, lost_text, plan_text


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (Lost(), ""),
        (Lost(steps=1), "1 step · starts at step 0"),
        (Lost(steps=2, resume_step=10), "2 steps · resumes after step 10"),
        (Lost(resume_step=10), "nothing · resumes after step 10"),
        (Lost(steps=2, resume_step=12, newest=True), "2 steps · from the newest checkpoint (12 now)"),
        (
            Lost(steps=2, resume_step=10, rollouts=37),
            "2 steps and 37 rollouts in flight · resumes after step 10",
        ),
        (Lost(rollouts=1, resume_step=3), "1 rollout in flight · resumes after step 3"),
        (Lost(rollouts=1), "1 rollout in flight"),
        (Lost(rollouts=0), ""),
    ],
)
def test_lost_text(lost: Lost, words: str) -> None:
    assert lost_text(lost) == words


@pytest.mark.parametrize(
    ("estimate_s", "words"),
    [(None, ""), (0.2, "ready in a moment, as before"), (45.4, "ready in about 45s, as before")],
)
def test_estimate_text(estimate_s: float | None, words: str) -> None:
    assert estimate_text(Plan(start=("a",), estimate_s=estimate_s)) == words


RESTART_WORDS = """\
end first  1 leftover process of inference attempt 1:
           pid 4711 VLLM::EngineCore 4m12s 58.0 GiB
stop       trainer
start      trainer
lose       2 steps and 37 rollouts in flight · resumes after step 10
time       ready in about 45s, as before
"""
STOP_WORDS = """\
stop       trainer
lose       2 steps and 1 rollout in flight · starts at step 0
time       done in a moment, as before
"""
END_OTHERS_WORDS = """\
end        pid 7 python train.py
           holds 12.0 GiB of GPU memory
           holds GPU memory, not started by rltui
end        pid 8 serve
           of old/inference: seen among its processes
"""
END_WORDS = """\
end        pid 4712 python -c worker
           listens on :8000
           of inference attempt 1: seen among its processes
keep       trainer (not touched)
"""


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            Plan(
                stop=("trainer",),
                start=("trainer",),
                free=ORPHANS[:1],
                lost=Lost(steps=2, resume_step=10, rollouts=37),
                estimate_s=45.2,
            ),
            RESTART_WORDS,
        ),
        (
            Plan(action="stop", stop=("trainer",), lost=Lost(steps=2, rollouts=1), estimate_s=0.4),
            STOP_WORDS,
        ),
        (
            Plan(action="free", free=ORPHANS[1:], keep=("trainer",)),
            END_WORDS,
        ),
        (
            Plan(
                action="free",
                free=(
                    Orphan(pid=7, start=1, command="python train.py", gpu_bytes=12 << 30, evidence="gpu"),
                    Orphan(pid=8, start=1, command="serve", experiment="old", component="inference"),
                ),
            ),
            END_OTHERS_WORDS,
        ),
        (Plan(), ""),
    ],
    ids=["restart", "stop", "free", "free-others", "nothing"],
)
def test_plan_text(plan: Plan, words: str) -> None:
    assert plan_text(plan) == words
