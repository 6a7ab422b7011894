from __future__ import annotations

import pytest
from tests.fakes.experiment import component, running_status

from rltui.core.experiment.api import Request
from rltui.core.experiment.states import ComponentState as S
from rltui.ui.requests import makes_sense, request_for


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (S.STOPPED, "start"),
        (S.WAITING, "stop"),
        (S.STARTING, "stop kill restart"),
        (S.READY, "stop kill restart"),
        (S.STOPPING, "stop kill restart"),
        (S.BACKOFF, "start stop restart"),
        (S.EXITED, "start restart"),
        (S.FAILED, "start restart"),
    ],
)
def test_keys_that_make_sense_in_each_state(state: S, actions: str) -> None:
    item = component("trainer", state)
    found = [
        action
        for action in ("start", "stop", "kill", "restart")
        if makes_sense(action, running_status(), item)
    ]
    assert found == actions.split()


def test_without_a_component_there_is_nothing_to_ask_for() -> None:
    assert request_for("restart", running_status(), None) is None
    assert makes_sense("restart", running_status(), None) is False
    everything = request_for("stop-all", running_status(), None)
    assert everything is not None
    assert (everything.request, everything.danger) == (Request(action="stop"), True)
    assert request_for("free-orphans", running_status(), None) is None
