from __future__ import annotations

import pytest
from tests.fakes.experiment import component, running_status

from rltui.core.api import ComponentState as S
from rltui.core.api import Request
from rltui.core.gpu.report import Remedy
from rltui.ui.requests import makes_sense, request_for


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (S.STOPPED, "start"),
        (S.WAITING, "stop"),
        (S.STARTING, "stop kill attach restart"),
        (S.READY, "stop kill attach restart"),
        (S.STOPPING, "stop kill attach restart"),
        (S.BACKOFF, "start stop restart"),
        (S.EXITED, "start restart"),
        (S.FAILED, "start restart"),
    ],
)
def test_keys_that_make_sense_in_each_state(state: S, actions: str) -> None:
    item = component("trainer", state)
    found = [
        action
        for action in ("start", "stop", "kill", "attach", "restart")
        if makes_sense(f"{action}_component", running_status(), item)
    ]
    assert found == actions.split()


def test_memory_is_fixed_where_there_is_a_remedy() -> None:
    remedy = Remedy(title="seq_len 2 → 1", reason="", edits={"seq_len": 1})
    assert makes_sense("fix_component", None, component("trainer", S.FAILED, remedies=(remedy,))) is True
    assert makes_sense("fix_component", None, component("trainer", S.FAILED)) is False
    assert makes_sense("fix_component", None, None) is False


def test_without_a_component_there_is_nothing_to_ask_for() -> None:
    assert request_for("restart_component", running_status(), None) is None
    assert makes_sense("restart_component", running_status(), None) is False
    everything = request_for("stop_all", running_status(), None)
    assert everything is not None
    assert (everything.request, everything.danger) == (Request(action="stop"), True)
    assert request_for("free_orphans", running_status(), None) is None
    assert makes_sense("zoom", None, None) is None
