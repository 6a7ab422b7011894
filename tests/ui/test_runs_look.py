"""What the runs screen looks like."""

from __future__ import annotations

import pytest
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import make_app, press, settle
from tests.ui.run_cases import QUEUE, RUNS
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot

from rltui.core.queue import RunQueue

CASES: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "small": (SMALL, ("j", "m", "j")),
    "middle-grouped": ((130, 40), ("b", "home", "f")),
    "huge": (HUGE, ("j", "j")),
    "filter": (SMALL, ("slash", *"reward > and")),
    "columns": ((130, 40), ("vertical_line", "j")),
    "trash": (SMALL, (*"jjjjjj", "delete")),
    "empty": (SMALL, ()),
}


@pytest.mark.parametrize("name", list(CASES))
def test_look(name: str, snap_compare: SnapCompare) -> None:
    size, keys = CASES[name]

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, *keys)

    runs = FakeRuns(*(() if name == "empty" else RUNS))
    runs.queued = RunQueue() if name == "empty" else QUEUE
    assert snap_compare(make_app(None, runs=runs), terminal_size=size, run_before=prepare)
