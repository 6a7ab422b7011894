"""Programs that misbehave: what is shown of them is true, and a stop leaves nothing of them."""

from __future__ import annotations

import os
import signal

import pytest
from tests.faults import events, invariants
from tests.faults.harness import Experiment

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

DESCENDANTS = ["orphan-port", "orphan-deaf", "daemon", "title"]
LIVING = ["ignore-term", "flood", "stop-self", *DESCENDANTS]
full_run = pytest.mark.faults


def host(behaviour: str) -> str:
    """Who behaves like that: a port needs the component that has one."""
    return "inference" if behaviour == "orphan-port" else "trainer"


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour", [pytest.param(b, marks=() if b == "ignore-term" else full_run) for b in LIVING]
)
def test_kill_leaves_nothing_at_once(experiment: Experiment, behaviour: str) -> None:
    name = host(behaviour)
    experiment.behave(name, behaviour)
    before = experiment.up()
    plan = experiment.request("stop", name, kill=True)
    assert experiment.truth.living(name) == []
    invariants.assert_all(experiment, before, may_end=plan["stop"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour", [pytest.param(b, marks=() if b == "title" else full_run) for b in LIVING]
)
def test_stop_behind_a_killed_shim_leaves_nothing(experiment: Experiment, behaviour: str) -> None:
    name = host(behaviour)
    experiment.behave(name, behaviour)
    before = experiment.up()
    events.kill_shim(experiment, name)
    invariants.assert_shown_is_true(experiment)
    plan = experiment.request("stop", name)
    assert experiment.truth.living(name) == []
    invariants.assert_all(experiment, before, may_end=plan["stop"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour", [pytest.param(b, marks=() if b == "orphan-port" else full_run) for b in DESCENDANTS]
)
def test_killed_main_takes_its_descendants_and_can_be_started_again(
    experiment: Experiment, behaviour: str
) -> None:
    name = host(behaviour)
    experiment.behave(name, behaviour)
    before = experiment.up()
    events.kill_main(experiment, name)
    invariants.assert_ended(experiment, name, signal="SIGKILL")
    experiment.settle()
    assert experiment.truth.living(name) == []
    experiment.behave(name)
    experiment.request("start", name)
    assert experiment.shown()[name]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={name})


@pytest.mark.faults
@pytest.mark.parametrize("behaviour", DESCENDANTS)
def test_leftovers_of_a_killed_tree_do_not_hinder_the_next_start(
    experiment: Experiment, behaviour: str
) -> None:
    name = host(behaviour)
    experiment.behave(name, behaviour)
    before = experiment.up()
    events.kill_shim(experiment, name)
    events.kill_main(experiment, name)
    invariants.assert_shown_is_true(experiment)
    experiment.behave(name)
    experiment.request("start", name)
    assert experiment.shown()[name]["state"] == "ready"
    assert {being.role for being in experiment.truth.living(name)} == {"main"}
    invariants.assert_all(experiment, before, may_end={name})


@pytest.mark.faults
@pytest.mark.parametrize(
    ("behaviour", "exit_code", "reason"), [("die-early", 3, ""), ("hang", None, "not ready after")]
)
def test_what_ends_before_it_is_ready_has_failed_and_nothing_starts_after_it(
    experiment: Experiment, behaviour: str, exit_code: int | None, reason: str
) -> None:
    experiment.behave("inference", behaviour)
    experiment.up()
    shown = experiment.shown()
    assert shown["inference"]["state"] == "failed"
    assert reason in (shown["inference"]["reason"] or "")
    if exit_code is not None:
        assert shown["inference"]["exit_code"] == exit_code
    assert shown["orchestrator"]["state"] == "failed"
    assert "inference" in shown["orchestrator"]["reason"]
    assert experiment.truth.beings("orchestrator") == []
    invariants.assert_all(experiment, {})


@pytest.mark.slow
def test_service_that_exits_0_has_failed_and_a_job_is_done(experiment: Experiment) -> None:
    experiment.behave("trainer", "exit-0")
    before = experiment.up()
    os.kill(before["inference"].pid, signal.SIGUSR2)
    invariants.assert_ended(experiment, "inference", code=0)
    shown = experiment.shown()
    assert (shown["inference"]["state"], shown["trainer"]["state"]) == ("failed", "exited")
    assert shown["trainer"]["exit_code"] == 0
    invariants.assert_all(experiment, before, may_end={"inference"})
