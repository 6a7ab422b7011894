from __future__ import annotations

import pytest

from rltui.core.runs.checkpoints import (
    HIGHEST,
    NEWEST,
    Checkpoint,
    CheckpointReport,
    PrunePlan,
    Retention,
    levels_around,
    prune_plan,
)

GIB = 1 << 30


def one(step: int, *, missing: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Checkpoint:
    return Checkpoint(step=step, complete=not missing, missing=missing, notes=notes, size_bytes=GIB)


def report(*checkpoints: Checkpoint, **values: object) -> CheckpointReport:
    return CheckpointReport.from_plain({"experiment": "x", "checkpoints": checkpoints, **values})


def deleted(plan: PrunePlan) -> list[int]:
    return [checkpoint.step for checkpoint in plan.delete]


FIVE = report(one(10), one(20, notes=(HIGHEST,)), one(30), one(40), one(50, notes=(NEWEST,)))


@pytest.mark.parametrize(
    ("retention", "expected_steps"),
    [
        (Retention(), [10]),
        (Retention(keep_last=1), [10, 30, 40]),
        (Retention(keep_last=1, keep_every=15), [10, 40]),
        (Retention(keep_last=1, keep=(40, 10)), [30]),
        (Retention(keep_last=9), []),
    ],
)
def test_what_any_rule_names_stays_and_so_do_the_newest_and_the_best(
    retention: Retention, expected_steps: list[int]
) -> None:
    plan = prune_plan(FIVE, retention)
    assert deleted(plan) == expected_steps
    assert plan.frees_bytes == len(expected_steps) * GIB
    assert {checkpoint.step for checkpoint in plan.keep} == {10, 20, 30, 40, 50}.difference(expected_steps)


def test_of_what_is_unfinished_only_what_is_older_than_a_whole_one_goes() -> None:
    half = ("orchestrator",)
    result = report(one(10, missing=half), one(20, notes=(NEWEST,)), one(30, missing=half))
    plan = prune_plan(result, Retention())
    assert deleted(plan) == [10]
    assert [(checkpoint.step, checkpoint.why) for checkpoint in plan.keep] == [
        (20, NEWEST),
        (30, "possibly still being written"),
    ]
    assert prune_plan(report(one(10, missing=half)), Retention()).is_empty


def test_only_what_a_person_was_shown_goes() -> None:
    plan = prune_plan(FIVE, Retention(keep_last=1), only=(10, 30))
    assert deleted(plan) == [10, 30]
    assert ("saved after the plan") in {checkpoint.why for checkpoint in plan.keep}


def test_what_was_set_aside_goes_only_when_it_is_asked_for() -> None:
    result = report(one(10), archive="/run/.rltui/archive", archive_bytes=GIB)
    assert prune_plan(result, Retention()).is_empty
    plan = prune_plan(result, Retention(archive=True))
    assert (plan.archive, plan.frees_bytes) == ("/run/.rltui/archive", GIB)


def test_reward_around_a_checkpoint() -> None:
    values = [(step, float(step)) for step in range(1, 21)]
    before, after = levels_around(values, 10)
    assert before is not None
    assert after is not None
    assert (before.mean, round(before.std or 0, 3), after.mean) == (6.5, 2.449, 14.5)
    assert levels_around(values, 20)[1] is None
    assert levels_around((), 5) == (None, None)
