"""Clocks that jump, and an hour that passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Box
from tests.faults import events, invariants
from tests.faults.harness import Experiment, ended_afterwards
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

DAY_S = 86400.0
HOUR_S = 3600.0
RETRIED = '{ policy = "on-failure", backoff_s = [0.2, 1.0], max_failures = 3 }'


@pytest.mark.faults
@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S], ids=["back", "ahead"])
def test_jump_of_the_wall_clock_changes_nothing(experiment: Experiment, jump_s: float) -> None:
    before = experiment.up()
    events.shift_clock(experiment, wall_s=jump_s)
    assert all(item["uptime_s"] >= 0 for item in experiment.shown().values())
    invariants.assert_all(experiment, before)
    events.kill_supervisor(experiment)
    invariants.assert_all(experiment, before)
    experiment.request("restart", "trainer")
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_jump_during_a_start_and_a_stop(experiment: Experiment) -> None:
    experiment.behave("trainer", "ignore-term")
    experiment.up(settle=False)
    events.shift_clock(experiment, wall_s=-DAY_S)
    experiment.settle()
    before, shown = experiment.truth.mains(), experiment.shown()
    plan = experiment.execute("stop", "trainer")
    events.shift_clock(experiment, wall_s=2 * DAY_S)
    experiment.settle_plan(plan, shown)
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.slow
def test_exit_after_an_hour_is_told(experiment: Experiment) -> None:
    experiment.behave("trainer", "exit-hour")
    before = experiment.up()
    events.shift_clock(experiment, wall_s=HOUR_S, monotonic_s=HOUR_S)
    retry_until(lambda: experiment.truth.main("trainer") is None)
    invariants.assert_ended(experiment, "trainer", code=1)
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.fixture
def retried(box: Box, free_port: int) -> Iterator[Experiment]:
    with ended_afterwards(Experiment(box, free_port, box.work / "out", restart=RETRIED)) as made:
        yield made


@pytest.mark.faults
def test_failures_an_hour_apart_are_forgiven(retried: Experiment) -> None:
    """Three within the window would be the end of it; after ten healthy minutes each is the first again."""
    retried.behave("trainer", "exit-hour")
    before = retried.up()
    for attempt in range(2, 6):
        main = retried.wait_for_main("trainer")
        events.shift_clock(retried, wall_s=HOUR_S, monotonic_s=HOUR_S)
        again = retried.wait_for_main("trainer", other_than=main)
        assert again.attempt == attempt
        retried.settle()
    invariants.assert_all(retried, before, may_end={"trainer"})


@pytest.mark.faults
def test_quick_failures_are_counted_and_end_in_failed(retried: Experiment) -> None:
    retried.behave("trainer", "die-early")
    retried.up()
    shown = retried.settle()["trainer"]
    assert (shown["state"], shown["exit_code"], shown["attempt"]) == ("failed", 3, 3)
    assert len(retried.truth.beings("trainer")) == 3
    retried.behave("trainer")
    retried.request("start", "trainer")
    assert retried.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(retried, {})
