"""How components are told, of what a supervisor says of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.experiment import NOW

from rltui.core.api import ComponentStatus
from rltui.core.states import ComponentState
from rltui.views.component import VIEW, ListedComponent
from rltui.views.table import Cell


def cells(*names: str, has_reason: bool = True, **fields: Any) -> list[Cell]:
    status = ComponentStatus(**{"id": "trainer", "kind": "job", "state": ComponentState.READY, **fields})
    listed = ListedComponent(status.model_dump(mode="json"), has_reason)
    return [column.cell(listed, NOW) for column in VIEW.named(names)]


def test_the_sign_has_the_colour_of_the_state_and_a_stall_that_of_trouble() -> None:
    assert cells("component", "state") == [Cell("● trainer", "good", 1), Cell("ready", "good")]
    stalled = cells("component", "state", stalled=True)
    assert stalled == [Cell("● trainer", "busy", 1), Cell("ready ⚠ stalled", "busy")]


@pytest.mark.parametrize(("state", "port"), [("ready", ":8000"), ("failed", "")])
def test_a_port_is_told_while_something_may_listen_there(state: str, port: str) -> None:
    assert cells("port", state=state, port=8000) == [Cell(port)]


def test_what_it_waits_for_stands_last_unless_it_is_told_elsewhere() -> None:
    fields: dict[str, Any] = {
        "state": ComponentState.BACKOFF, "reason": "exited 1", "retry_at": NOW + 12, "facts": ("KV 41 %",)
    }  # fmt: skip
    assert cells("now", **fields) == [Cell("again in 12s · KV 41 % · exited 1")]
    assert cells("now", has_reason=False, **fields) == [Cell("again in 12s · KV 41 %")]
    assert cells("now", reason="x" * 80) == [Cell("")], "a long one has a line of its own"
