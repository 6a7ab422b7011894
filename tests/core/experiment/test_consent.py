from __future__ import annotations

import itertools

import pytest

from rltui.core.config.report import Problem
from rltui.core.experiment.api import EDITS, Loss, Lost, Orphan, Plan, Request
from rltui.core.experiment.consent import LOSSES, Decision, decide, loss_of_plan, with_consent
from rltui.core.experiment.refusal import refuse
from rltui.errors import UsageError

WARNING = Problem(severity="warning", message="is that meant?")


def test_who_is_asked_follows_from_the_table_alone() -> None:
    for verb, has_terminal, yes in itertools.product(LOSSES, (True, False), (True, False)):
        fixed_loss = LOSSES[verb]
        for loss in Loss if fixed_loss is None else (fixed_loss,):
            decision = decide(verb, loss, has_terminal=has_terminal, yes=yes)
            if yes or loss is Loss.NOTHING or verb == "down":
                assert decision is Decision.ACT, (verb, loss)
            elif has_terminal:
                assert decision is Decision.ASK, (verb, loss)
            else:
                expected = Decision.REFUSE if loss >= Loss.MORE else Decision.ACT
                assert decision is expected, (verb, loss)


@pytest.mark.parametrize(
    ("steps", "resume", "newest", "interval", "loss"),
    [
        (0, 20, 20, 10, Loss.INTERVAL),
        (7, 20, 20, 10, Loss.INTERVAL),
        (19, 20, 20, 10, Loss.INTERVAL),  # the next checkpoint may just be being written
        (20, 20, 20, 10, Loss.MORE),
        (10, 10, 20, 10, Loss.INTERVAL),
        (11, 10, 20, 10, Loss.MORE),
        (0, 10, 40, 10, Loss.MORE),  # nobody counts the steps, but the checkpoints say it
        (27, None, 20, 10, Loss.MORE),
        (3, None, None, 10, Loss.INTERVAL),
        (3, None, None, None, Loss.MORE),
        (0, None, None, None, Loss.INTERVAL),
    ],
)
def test_more_than_the_steps_between_two_checkpoints_is_much(
    steps: int, resume: int | None, newest: int | None, interval: int | None, loss: Loss
) -> None:
    losses = Lost(steps=steps, resume_step=resume, interval=interval)
    there = () if newest is None else tuple(range(10, newest + 1, 10))
    plan = Plan(stop=("trainer",), start=("trainer",), lost=losses, checkpoints=there)
    assert loss_of_plan(plan, Request(action="restart")) is loss
    only_written = plan.replace(action="set")
    assert loss_of_plan(only_written, Request(action="set")) is Loss.NOTHING
    assert loss_of_plan(only_written, Request(action="set", restart=True)) is loss


def test_a_new_warning_of_an_edit_weighs_and_that_of_an_undo_does_not() -> None:
    for action in EDITS:
        warned = Plan.from_plain({"action": action, "problems": [WARNING]})
        expected = Loss.NOTHING if action == "undo" else Loss.MORE
        assert loss_of_plan(warned, Request.from_plain({"action": action})) is expected
    standing = Plan(action="set", problems=(WARNING.replace(standing=True),))
    assert loss_of_plan(standing, Request(action="set")) is Loss.NOTHING
    start = Plan(action="start", start=("a",), problems=(WARNING,))
    assert loss_of_plan(start, Request(action="start", components=("a",))) is Loss.INTERVAL


def test_just_what_was_asked_for_is_started_unasked_and_a_strange_process_never_ended_so() -> None:
    plan = Plan(action="start", start=("a",))
    assert loss_of_plan(plan, Request(action="start", components=("a",))) is Loss.NOTHING
    assert loss_of_plan(plan, Request(action="start")) is Loss.INTERVAL
    for evidence, loss in (("recorded", Loss.INTERVAL), ("gpu", Loss.MORE)):
        process = Orphan.from_plain({"pid": 7, "start": 1, "evidence": evidence})
        assert loss_of_plan(Plan(action="free", free=(process,)), Request(action="free")) is loss


def test_the_way_back_to_a_named_checkpoint_gets_longer_while_its_plan_is_read() -> None:
    """README's rescue failed on a fast machine: 17 steps were agreed to, 21 were lost a second later."""
    request = Request(action="undo", restart=True, resume_step=140)
    seen, then = (
        Plan(action="undo", stop=("trainer",), start=("trainer",), checkpoints=(140, newest), lost=lost)
        for newest, lost in (
            (140, Lost(steps=17, resume_step=140, interval=20)),
            (160, Lost(steps=21, resume_step=140, interval=20)),
        )
    )
    agreed = with_consent(request, seen)
    refuse(then, agreed)
    with pytest.raises(UsageError, match="would cost more than was confirmed"):
        refuse(then, request)


def test_what_was_agreed_to_is_as_much_as_the_plan_says_and_never_less_than_the_usual() -> None:
    much = Plan(stop=("a",), lost=Lost(steps=500))
    request = Request(action="restart")
    assert with_consent(request, much).accepts is Loss.MORE
    assert with_consent(request, Plan()).accepts is Loss.INTERVAL


def test_a_plan_is_as_it_was_while_a_process_grows_older_and_a_checkpoint_newer() -> None:
    process = Orphan(pid=7, start=70, age_s=1.0, gpu_bytes=2)
    plan = Plan(free=(process,), lost=Lost(resume_step=20, newest=True))
    older = plan.replace(
        free=(process.replace(age_s=9.0, gpu_bytes=3),), lost=Lost(resume_step=30, newest=True)
    )
    assert older.made_from == plan.made_from
    another = plan.replace(free=(process.replace(start=71),))
    moved = [words for words, value in plan.made_from.items() if another.made_from[words] != value]
    assert moved == ["other processes would be ended"]
