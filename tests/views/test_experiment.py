"""How experiments are listed, and how a run's state is said everywhere."""

from __future__ import annotations

import pytest

from rltui.core.experiment.states import Reason
from rltui.views.experiment import VIEW, state_cell
from rltui.views.table import Cell

STATUS = {
    "experiment": "demo", "state": "running", "reason": {"code": "jobs_run", "text": "", "components": []},
    "alive": True, "step": 83, "max_steps": 200, "reward": 0.5, "created_at": 400.0, "framework": None,
    "components": [{"started_at": 940.0}, {"started_at": None}], "output_dir": "/out", "run_dir": "/run",
}  # fmt: skip


def test_a_running_one_in_columns() -> None:
    cells = [column.cell(STATUS, 1000.0).text for column in VIEW.columns]
    assert cells == ["demo", "● running", "83/200", "0.500", "1m00s", "", "/out"]


@pytest.mark.parametrize(
    ("state", "reason", "cell"),
    [
        ("done", Reason("steps_done"), Cell("✓ done", "good")),
        ("done", Reason("still_up", "inference still up", ("inference",)),
         Cell("✓ done · inference still up", "good")),
        ("failed", Reason("component_failed", "trainer: exited 1", ("trainer",)),
         Cell("✗ failed: trainer", "bad")),
        ("lost", Reason("end_unseen", "nobody saw …", ("trainer",)), Cell("? lost: trainer", "bad")),
        ("lost", Reason("folder_gone", "/out was deleted"), Cell("? lost", "bad")),
        ("asleep", Reason(), Cell("? asleep", "faint")),
    ],
    ids=str,
)  # fmt: skip
def test_a_state_is_a_sign_a_word_and_who_it_is_about(state: str, reason: Reason, cell: Cell) -> None:
    assert state_cell(state, reason) == cell
