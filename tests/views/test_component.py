"""How components are told, of what a supervisor says of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.experiment import NOW, component
from tests.ui.trouble import GPU_REASON, STALL_EVIDENCE, backoff_status, stalled_status, waiting_status

from rltui.core.experiment.api import ComponentStatus, FollowedLog
from rltui.core.experiment.states import ComponentState
from rltui.views.component import VIEW, ListedComponent, component_notes, component_title, log_title
from rltui.views.table import Cell


def cells(*names: str, has_reason: bool = True, **fields: Any) -> list[Cell]:
    status = ComponentStatus.from_plain({"id": "trainer", "kind": "job", "state": "ready", **fields})
    row = ListedComponent(status.to_plain(), has_reason)
    return [column.cell(row, NOW) for column in VIEW.named(names)]


def test_the_sign_has_the_colour_of_the_state_and_a_stall_that_of_trouble() -> None:
    assert cells("component", "state") == [Cell("● trainer", "good", 1), Cell("running", "good")]
    stalled = cells("component", "state", stalled=True)
    assert stalled == [Cell("● trainer", "busy", 1), Cell("running ⚠ stalled", "busy")]


@pytest.mark.parametrize(("state", "port"), [("ready", ":8000"), ("failed", "")])
def test_a_port_is_told_while_something_may_listen_there(state: str, port: str) -> None:
    assert cells("port", state=state, port=8000) == [Cell(port)]


def test_what_it_waits_for_stands_last_unless_it_is_told_elsewhere() -> None:
    fields: dict[str, Any] = {
        "state": ComponentState.BACKOFF, "reason": "exited 1", "retry_at": NOW + 12, "facts": ("KV 41 %",)
    }  # fmt: skip
    assert cells("now", **fields) == [Cell("restarts in 12s · KV 41 % · exited 1")]
    assert cells("now", has_reason=False, **fields) == [Cell("restarts in 12s · KV 41 %")]
    assert cells("now", reason="x" * 80) == [Cell("")], "a long one has a line of its own"


def pane_texts(status: ComponentStatus, width: int) -> tuple[str, str]:
    """Title and lines below the log."""
    title, has_reason = component_title(status, NOW, lambda text: len(text) <= width)
    notes = component_notes(status, has_reason=has_reason)
    return "".join(cell.text for cell in title), "\n".join(cell.text for cell in notes)


@pytest.mark.parametrize(
    ("retry_in_s", "words"), [(12, "↻ backoff 12s"), (95, "↻ backoff 1m35s"), (-3, "↻ backoff 0s")]
)
def test_backoff_counts_down_in_the_title(retry_in_s: float, words: str) -> None:
    trainer = backoff_status(retry_in_s).components[2]
    assert pane_texts(trainer, 76) == (f"trainer {words} · exited 1; failure 1 of 3", "")


@pytest.mark.parametrize(
    ("width", "title", "notes"),
    [
        (200, f"inference ◌ {GPU_REASON}", ""),
        (76, "inference ◌ waiting for GPU 0", f"◌ {GPU_REASON}"),
        (24, "inference ◌ waiting", f"◌ {GPU_REASON}"),
    ],
)
def test_a_reason_is_told_once_and_in_full(width: int, title: str, notes: str) -> None:
    assert pane_texts(waiting_status().components[0], width) == (title, notes)


def test_a_failure_is_told_below_and_a_stall_with_its_evidence() -> None:
    failed = component("trainer", ComponentState.FAILED, exit_code=1, reason="exited 1")
    assert pane_texts(failed, 76) == ("trainer ✗ failed code 1", "✗ exited 1")
    title, notes = pane_texts(stalled_status().components[0], 76)
    assert "● ready 41m · ⚠ stalled · :8000" in title
    assert notes == f"⚠ {STALL_EVIDENCE}"


@pytest.mark.parametrize(
    ("quiet_for_s", "width", "title"),
    [
        (754, 76, "trainer ○ quiet 12m · logs/trainer.log"),
        (754, 26, "trainer ○ quiet 12m"),
        (1, 76, "trainer ● growing · logs/trainer.log"),
        (None, 76, "trainer ◌ no file yet"),
    ],
)
def test_the_title_of_a_log_leaves_its_file_out_where_it_does_not_fit(
    quiet_for_s: float | None, width: int, title: str
) -> None:
    log = FollowedLog(id="trainer", wanted=("logs/*.log",))
    if quiet_for_s is not None:
        name = "logs/trainer.log"
        log = FollowedLog(id="trainer", path=f"/run/{name}", name=name, changed_at=NOW - quiet_for_s)
    cells = log_title(log, NOW, lambda text: len(text) <= width)
    assert "".join(cell.text for cell in cells) == title
