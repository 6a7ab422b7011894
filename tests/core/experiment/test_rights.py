from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from rltui.core.experiment.actor import Actor
from rltui.core.experiment.consent import Verb
from rltui.core.experiment.rights import Act, Counts, Granted, Permission, Rights, decide

AGENT = Actor(kind="agent", user="ada", name="night-1", pid=1)
PERSON = Actor(kind="cli", user="ada", pid=1)
LIMITS: dict[str, Any] = {
    "rights": "act", "verbs": ["s*", "restart", "undo", "up", "queue", "eval", "note"],
    "keys": ["optim.*", "batch_size"], "runs": ["night-*"], "bounds": {"optim.lr": [1e-7, 1e-3]},
    "max_runs": 2, "max_trials": 3, "restarts_per_hour": 4, "gpu_hours": 10, "disk_gb": 5,
}  # fmt: skip
FULL = Counts(runs=2, trials=3, restarts=4, gpu_hours=10.0, disk_bytes=5 * 10**9)
TOO_LARGE = Counts(disk_bytes=6 * 10**9)
CASES: list[tuple[Act, Counts, str]] = [
    (Act("rm", "night-1"), FULL, "agents may not rm ([agents] verbs)"),
    (Act("set", "demo"), FULL, "agents may not change demo ([agents] runs)"),
    (Act("set", changes={"seed": 1}), FULL, "agents may not change seed ([agents] keys)"),
    (
        Act("set", changes={"trainer.optim.lr": 50}), FULL,
        "trainer.optim.lr=50 is outside 1e-07 to 0.001 ([agents] bounds)",
    ),
    (Act("set", changes={"optim.lr": "50"}), FULL, 'optim.lr="50" is outside'),
    (Act("set", changes={"optim.lr": True}), FULL, "optim.lr=true is outside"),
    (Act("set", changes={"optim.lr": float("nan")}), FULL, "optim.lr=nan is outside"),
    (Act("set", changes={"optim.lr": [1e-4, 1]}), FULL, "optim.lr=1 is outside"),
    (Act("set", changes={"optim.lr": None}), FULL, "without a value optim.lr may be outside"),
    (Act("up", config={"optim.lr": 1, "seed": 1}), FULL, "optim.lr=1 is outside"),
    (Act("up", creates=True), FULL, "night-1 has 2 of at most 2 living runs ([agents] max_runs)"),
    (Act("queue", queues=2), replace(FULL, trials=2), "night-1 has 2 of at most 3 runs in the queue"),
    (Act("restart", restarts=True), FULL, "night-1 has 4 of at most 4 restarts in this hour"),
    (Act("start"), FULL, "night-1 has used 10.0 of 10 GPU hours ([agents] gpu_hours)"),
    (Act("eval"), TOO_LARGE, "the runs of night-1 hold 6.0 of 5 GB ([agents] disk_gb)"),
    (Act("agents"), FULL, "to decide about what agents may do is for persons, not for agents"),
]  # fmt: skip


def granted(level: Any = "act", **changes: Any) -> Granted:
    return Granted(Rights.model_validate(LIMITS | changes), level)


def test_a_person_is_never_restricted() -> None:
    for verb in get_args(Verb):
        act = Act(verb, "demo", changes={"optim.lr": 50}, restarts=True, creates=True, queues=9)
        for level in ("look", "propose", "act"):
            assert decide(granted(level, verbs=[], keys=[]), PERSON, act, FULL).permission is Permission.ALLOW


@pytest.mark.parametrize(("act", "counts", "text"), CASES)
def test_a_limit_holds_at_every_level_and_is_named(act: Act, counts: Counts, text: str) -> None:
    for level in ("propose", "act"):
        judgement = decide(granted(level), AGENT, act, counts)
        assert judgement.permission is Permission.REFUSE
        is_budget = "GPU hours" in text or "GB" in text
        assert judgement.code == ("over_budget" if is_budget else "not_allowed")
        assert judgement.text.startswith(text)
        assert judgement.allowed


def test_what_is_within_the_limits_is_done_or_proposed_by_level() -> None:
    act = Act("set", "night-2", changes={"optim.lr": 1e-4, "batch_size": 8}, restarts=True)
    counts = replace(FULL, runs=1, restarts=3, gpu_hours=9.9, disk_bytes=0)
    assert decide(granted("act"), AGENT, act, counts).permission is Permission.ALLOW
    proposed = decide(granted("propose"), AGENT, act, counts)
    assert (proposed.permission, proposed.code) == (Permission.PROPOSE, "needs_person")
    assert decide(granted("propose"), AGENT, Act("note"), counts).permission is Permission.ALLOW
    looked = decide(Granted(Rights(), "look", "agents are paused", is_paused=True), AGENT, Act("note"))
    assert (looked.permission, looked.code) == (Permission.REFUSE, "paused")
    assert "agents are paused" in looked.text


def test_what_starts_nothing_needs_no_budget() -> None:
    assert decide(granted(), AGENT, Act("stop"), FULL).permission is Permission.ALLOW
