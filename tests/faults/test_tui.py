"""The TUI in a real terminal: killed, and told to restart 200 times."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.faults import events, invariants
from tests.faults.harness import NAME, Experiment
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.fixture
def terminal(experiment: Experiment) -> Iterator[Terminal]:
    """The TUI on an experiment that is up."""
    experiment.up()
    argv = [sys.executable, "-m", "rltui", NAME]
    opened = Terminal(argv, cwd=experiment.box.work, env=experiment.box.env)
    yield opened
    opened.close()


@pytest.mark.slow
def test_killed_tui_ends_nothing(experiment: Experiment, terminal: Terminal) -> None:
    terminal.wait_for("trainer ● running")
    before = experiment.truth.mains()
    supervisor = experiment.supervisor_pid()
    terminal.press(typed("component.trainer"), typed("component.restart"))
    terminal.wait_for("Restart trainer?")
    events.kill(terminal.pid)
    invariants.assert_all(experiment, before)
    assert experiment.supervisor_pid() == supervisor


@pytest.mark.faults
def test_killed_tui_after_the_restart_was_confirmed(experiment: Experiment, terminal: Terminal) -> None:
    terminal.wait_for("trainer ● running")
    before = experiment.truth.mains()
    terminal.press(typed("component.trainer"), typed("component.restart"))
    terminal.wait_for("Restart trainer?")
    terminal.press("Enter")
    retry_until(lambda: experiment.truth.main("trainer") != before["trainer"])
    events.kill(terminal.pid)
    experiment.settle(lambda shown: shown["trainer"]["attempt"] == 2)
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_200_restart_keys(experiment: Experiment, terminal: Terminal) -> None:
    terminal.wait_for("trainer ● running")
    before = experiment.truth.mains()
    terminal.press(typed("component.trainer"))
    for _ in range(200):
        terminal.press(typed("component.restart"), "Enter")
    # An Enter that came before the plan was there has done nothing: the last plan may still be asked about.
    terminal.wait_until(lambda screen: _at_rest(experiment, terminal, screen), "the end of all restarts")
    invariants.assert_all(experiment, before, may_end={"trainer"})
    terminal.wait_for("trainer ● running")


def _at_rest(experiment: Experiment, terminal: Terminal, screen: str) -> str:
    """Confirms what is still asked; not empty once nothing is, and it was restarted."""
    if "Restart trainer?" in screen:
        terminal.press("Enter")
        return ""
    restarted = experiment.settle()["trainer"]["attempt"] > 1
    return "at rest" if restarted and "Restart trainer?" not in terminal.screen() else ""


@pytest.mark.faults
def test_tui_shows_the_truth_after_the_supervisor_was_killed(
    experiment: Experiment, terminal: Terminal
) -> None:
    terminal.wait_for("trainer ● running")
    before = experiment.truth.mains()
    events.kill_supervisor(experiment)
    events.kill_main(experiment, "trainer")
    terminal.wait_for("trainer ✗ failed", timeout_s=10)
    invariants.assert_all(experiment, before, may_end={"trainer"})
