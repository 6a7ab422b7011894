"""Names, titles, values and logs from outside act on nothing, on no screen."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from tests.fakes.experiment import (
    FAILED,
    SET_PLAN,
    FakeExperiment,
    component,
    gpu_device,
    gpu_process,
    knob,
    knob_table,
    running_status,
)
from tests.screen_model import ScreenModel
from tests.ui.conftest import make_app, press
from textual.strip import Strip

from rltui.core.api import Alert
from rltui.core.config_report import Problem
from rltui.core.gpu.report import GpuReport
from rltui.errors import RltuiError
from rltui.ui.terminal.cells import Cells

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eb\u2066\x00\x08\rc\td\u200be[bold]\x85f"
"""OSC, CSI of both forms, bidi overrides, NUL, backspace, carriage return, tab, NEL, markup."""
FORBIDDEN = ["\x1b", "\x9b", "\x07", "\u202e", "\u2066", "\u200b", "\x85", "\t", "\r", "\x00"]
SCREENS: dict[str, list[str]] = {
    "overview": [],
    "alert": ["exclamation_mark"],
    "gpus": ["3", "down", "down"],
    "config": ["6"],
    "config-problems": ["6", "p"],
    "knob-editor": ["c", "g", "e"],
    "plan": ["t", "r"],
    "help": ["question_mark"],
}


def evil_experiment() -> FakeExperiment:
    parts = (
        component("inference", kind="service", port=8000, facts=(EVIL,)),
        component("orchestrator", FAILED, reason=EVIL, exit_code=1),
        component("trainer", reason=EVIL),
    )
    process = gpu_process(1, 9.0, owner="other", user=EVIL, name=EVIL, command=EVIL)
    gpus = GpuReport(available=True, driver=EVIL, devices=(gpu_device(0, [process], name=EVIL),))
    knobs = knob_table(
        files=(f"/work/{EVIL}.toml",),
        knobs=(knob(EVIL, EVIL, "trainer", kind="str", help=EVIL, unit=EVIL, running=f"old{EVIL}"),),
        problems=(Problem(key=EVIL, message=EVIL, file=EVIL, line=1),),
    )
    status = running_status(experiment=EVIL, title=EVIL, framework=EVIL, components=parts)
    alert = Alert(severity="error", title=EVIL, text=EVIL, component="trainer")
    experiment = FakeExperiment(status, gpus, knobs, alert)
    experiment.name = EVIL
    diff = f"--- {EVIL}\n+++ {EVIL}\n@@ -1 +1 @@\n-x = 1 # {EVIL}\n+x = 2 # {EVIL}\n"
    plan = SET_PLAN.model_copy(
        update={"action": "restart", "diff": diff, "reasons": (EVIL,), "stop": ("trainer",)}
    )
    experiment.planner = lambda _: plan
    return experiment


def written(strips: list[Strip], width: int) -> str:
    """What a terminal gets for a screen of these."""
    cells = Cells(width, len(strips))
    for y, strip in enumerate(strips):
        cells.put(0, y, strip, ColorSystem.TRUECOLOR)
    return cells.changes()


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=["middle", "small"])
async def test_nothing_from_outside_acts_on_the_terminal(name: str, size: tuple[int, int]) -> None:
    app = make_app(evil_experiment())
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        await press(pilot, *SCREENS[name])
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        shown = "".join(strip.text for strip in strips)
        # Where a screen is composed already: a cell that takes no room would shift what stands beside it.
        assert [char for char in FORBIDDEN if char in shown] == []
        assert {strip.cell_length for strip in strips} == {size[0]}
    model = ScreenModel(*size)
    model.feed(written(strips, size[0]).encode())
    assert not model.unknown


async def test_a_refusal_acts_on_nothing() -> None:
    experiment = evil_experiment()
    experiment.error = RltuiError(EVIL, hint=EVIL)
    app = make_app(experiment)
    async with app.run_test(size=(120, 36)) as pilot:
        await press(pilot, "t", "r")
        shown = "".join(strip.text for strip in app.screen._compositor.render_strips())
    assert [char for char in FORBIDDEN if char in shown] == []
