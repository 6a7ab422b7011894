"""SIGKILL of each part of the machine in turn, with honest programs."""

from __future__ import annotations

import json
import os
import signal

import pytest
from tests.faults import events, invariants
from tests.faults.harness import COMPONENTS, Experiment
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.mark.slow
def test_killed_component_is_told_and_a_killed_tmux_server_ends_nothing(experiment: Experiment) -> None:
    before = experiment.up()
    events.kill_main(experiment, "trainer")
    invariants.assert_ended(experiment, "trainer", signal="SIGKILL")
    invariants.assert_all(experiment, before, may_end={"trainer"})
    experiment.request("start", "trainer")
    invariants.assert_all(experiment, before, may_end={"trainer"})
    assert set(experiment.truth.mains()) == set(COMPONENTS)

    before = experiment.truth.mains()
    events.kill_tmux_server(experiment)
    invariants.assert_all(experiment, before)
    experiment.request("restart", "trainer")
    invariants.assert_all(experiment, before, may_end={"trainer"})
    assert experiment.shown()["trainer"]["state"] == "ready"
    experiment.ask("shutdown")
    invariants.assert_nothing_left(experiment)


@pytest.mark.slow
def test_killed_supervisor_is_replaced_adopts_all_and_tells_what_ended_meanwhile(
    experiment: Experiment,
) -> None:
    before = experiment.up()
    shown = experiment.shown()
    events.kill_supervisor(experiment)
    again = experiment.shown()
    assert {name: (c["state"], c["pid"], c["attempt"]) for name, c in again.items()} == {
        name: (c["state"], c["pid"], c["attempt"]) for name, c in shown.items()
    }
    invariants.assert_all(experiment, before)
    experiment.request("restart", "trainer")
    invariants.assert_all(experiment, before, may_end={"trainer"})

    before = experiment.truth.mains()
    events.kill_supervisor(experiment)
    os.kill(before["trainer"].pid, signal.SIGUSR1)
    retry_until(lambda: experiment.truth.main("trainer") is None)
    invariants.assert_ended(experiment, "trainer", code=1)
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.slow
def test_plan_goes_on_without_its_client_and_without_its_supervisor(experiment: Experiment) -> None:
    experiment.up()
    before, shown = experiment.truth.mains(), experiment.shown()
    request = {"action": "restart", "components": ["trainer"]}
    events.client_killed_after_asking(experiment, json.dumps(request))
    experiment.settle_plan({"stop": ["trainer"], "start": ["trainer"]}, shown)
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})

    before, shown = experiment.truth.mains(), experiment.shown()
    plan = experiment.execute("restart")
    events.kill_supervisor(experiment)
    experiment.settle_plan(plan, shown)
    assert {item["state"] for item in experiment.shown().values()} == {"ready"}
    invariants.assert_all(experiment, before, may_end=COMPONENTS)


@pytest.mark.slow
def test_end_behind_a_killed_shim_is_seen_and_of_unknown_cause(experiment: Experiment) -> None:
    before = experiment.up()
    events.kill_shim(experiment, "trainer")
    invariants.assert_shown_is_true(experiment)
    os.kill(before["trainer"].pid, signal.SIGKILL)
    invariants.assert_ended(experiment, "trainer")
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_supervisor_and_tmux_server_killed_together(experiment: Experiment) -> None:
    before = experiment.up()
    events.kill_tmux_server(experiment)
    events.kill_supervisor(experiment)
    invariants.assert_all(experiment, before)
    experiment.request("restart", "trainer")
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})
