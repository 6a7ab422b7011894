"""How experiments are listed."""

from __future__ import annotations

import pytest

from rltui.views.experiment import VIEW, signed_state, state_text
from rltui.views.table import Cell

STATUS = {
    "experiment": "demo", "state": "running", "word": "running", "step": 83, "max_steps": 200, "reward": 0.5,
    "components": [{"started_at": 940.0}, {"started_at": None}], "created_at": 400.0, "framework": None,
    "output_dir": "/out", "run_dir": "/run",
}  # fmt: skip


def test_a_running_one_in_columns() -> None:
    cells = [column.cell(STATUS, 1000.0).text for column in VIEW.columns]
    assert cells == ["demo", "● running", "83/200", "0.500", "1m00s", "", "/out"]


@pytest.mark.parametrize(
    ("fields", "text", "cell"),
    [
        ({"done": True}, "done ✓", Cell("✓ done", "good")),
        ({"failed": ("trainer",)}, "failed: trainer", Cell("✗ failed: trainer", "bad")),
        ({"word": "stalled"}, "stalled", Cell("● stalled", "good")),
        ({"observed": True}, "observed · its logs grow", Cell("● observed · its logs grow", "good")),
        ({"state": "broken", "word": "broken"}, "broken", Cell("⚠ broken", "bad")),
    ],
    ids=str,
)
def test_its_state_in_a_word_behind_a_sign(fields: dict[str, object], text: str, cell: Cell) -> None:
    status = {**STATUS, **fields}
    assert state_text(status) == text
    assert signed_state(text, str(status["state"])) == cell
