"""Names, titles, values and logs from outside act on nothing, on no screen."""

from __future__ import annotations

import math
import os
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from rich.color import ColorSystem
from tests.bench.terminal import Terminal
from tests.fakes.experiment import (
    FAILED,
    NOW,
    SET_PLAN,
    FakeExperiment,
    component,
    gpu_device,
    gpu_process,
    knob,
    knob_table,
    running_status,
)
from tests.fakes.rollouts import flat_row, write_lines
from tests.fakes.series import FakeSeries, by_step
from tests.params import slow_but
from tests.screen_model import ScreenModel
from tests.ui.conftest import make_app, press, until
from textual.screen import Screen
from textual.strip import Strip

from rltui.core.config.report import Problem
from rltui.core.experiment.api import Alert
from rltui.core.experiment.journal import JournalEntry
from rltui.core.gpu.report import GpuReport
from rltui.core.metrics.series import SeriesKey
from rltui.core.runs.checkpoints import Checkpoint, CheckpointReport
from rltui.errors import RltuiError
from rltui.ui.dialogs.base import show_error
from rltui.ui.messages import NotifyingApp
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
    "events": ["8", "k"],
    "events-of": ["8", "o"],
    "events-search": ["8", "slash", "a"],
    "metrics": ["4"],
    "metrics-chart": ["4", "enter", "left_square_bracket"],
    "checkpoints": ["9"],
    "rollouts": ["5"],
    "rollout": ["5", "enter", "enter"],
    "rollout-raw": ["5", "enter", "enter", "v"],
    "note": ["number_sign", "a"],
    "knob-editor": ["c", "g", "e"],
    "plan": ["t", "r"],
    "help": ["question_mark"],
}


ALWAYS = ("overview", "gpus", "config", "events", "metrics", "rollout", "plan")
OWN_WORDS = ("help",)
"""Nothing from outside is shown there; everywhere else it is seen that it is, made harmless."""


def text_of(screen: Screen[object]) -> str:
    return "".join(strip.text for strip in screen._compositor.render_strips())


def evil_experiment(run: Path) -> FakeExperiment:
    """`run`: an empty folder."""
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
    plan = SET_PLAN.replace(action="restart", diff=diff, reasons=(EVIL,), stop=("trainer",))
    experiment.planner = lambda _: plan
    told = {"diff": diff, "stacks": f"{EVIL}\n{EVIL}", "severity": EVIL, "alert": EVIL}
    experiment.entries = [
        JournalEntry(at=NOW - 60 + at, kind=kind, text=f"{EVIL}\n{EVIL}", component=EVIL, step=at, data=told)
        for at, kind in enumerate((EVIL, "exit", "stall", "edit", "alert", "note"))
    ]
    keys = [SeriesKey(EVIL, f"{name}{EVIL}") for name in ("reward/mean", "loss/mean", "odd")]
    known = [SeriesKey("trainer", "loss/mean"), SeriesKey("orch", "reward/all/mean")]
    experiment.series = FakeSeries({key: by_step([0.1, 0.2, math.nan, 0.4]) for key in (*keys, *known)})
    experiment.pinned = (EVIL,)
    said: list[dict[str, Any]] = [{"role": role, "content": EVIL} for role in ("system", "user", EVIL)]
    row = {"env_name": EVIL, "task": EVIL, "prompt": said, "completion": said, "answer": EVIL, "error": EVIL}
    rows = [flat_row(1, at, 0.5, stop_condition=EVIL, metrics={EVIL: 1.0}, **row) for at in range(2)]
    write_lines(run / "rollouts/step_1/train_rollouts.jsonl", rows)
    experiment.rollouts = run
    experiment.checkpoint_report = CheckpointReport(
        experiment=EVIL,
        checkpoints=(
            Checkpoint(
                step=20, complete=True, parts=(EVIL,), path=f"/run/{EVIL}", evals={EVIL: 0.5}, notes=(EVIL,)
            ),
            Checkpoint(step=30, parts=(EVIL,), missing=(EVIL,)),
        ),
    )
    return experiment


def written(strips: list[Strip], width: int, *, is_ascii: bool = False) -> str:
    """What a terminal gets for a screen of these."""
    cells = Cells(width, len(strips), is_ascii=is_ascii)
    for y, strip in enumerate(strips):
        cells.draw(0, y, strip, ColorSystem.TRUECOLOR)
    return cells.changes()


@pytest.mark.parametrize("name", slow_but(SCREENS.keys(), *ALWAYS))
@pytest.mark.parametrize("size", slow_but({"middle": (120, 36), "small": (80, 24)}, "middle"))
async def test_nothing_from_outside_acts_on_the_terminal(
    name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    app = make_app(evil_experiment(tmp_path))
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        await press(pilot, *SCREENS[name])
        if name not in OWN_WORDS:
            await until(pilot, lambda: "[bold]" in text_of(app.screen))
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        shown = "".join(strip.text for strip in strips)
        # Where a screen is composed already: a cell that takes no room would shift what stands beside it.
        assert [char for char in FORBIDDEN if char in shown] == []
        assert {strip.cell_length for strip in strips} == {size[0]}
    model = ScreenModel(*size)
    model.feed(written(strips, size[0]).encode())
    assert not model.unknown
    assert written(strips, size[0], is_ascii=True).isascii(), "without UTF-8 nothing else is written"


async def test_a_refusal_acts_on_nothing() -> None:
    app = NotifyingApp(lambda: NOW)
    async with app.run_test(size=(120, 36)) as pilot:
        await show_error(app, RltuiError(EVIL, details=(EVIL,), hint=EVIL))
        await pilot.pause()
        shown = text_of(app.screen)
    assert "[bold]" in shown
    assert [char for char in FORBIDDEN if char in shown] == []


SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[ -/]*[0-~])"
)
MAIN_SCREENS = {
    "8": "· Events",
    "4": "Metrics",
    "5": "Rollouts",
    "9": "1 incomplete",
    "3": "· GPUs",
    "6": "· Config",
}
"""By key, with words of their own."""
OWN_CONTROLS = set("\r\n")


@pytest.mark.slow
def test_what_a_terminal_is_sent_is_ours() -> None:
    """Every screen, one after the other, as recorded at the terminal's end."""
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("TMUX", "COLUMNS", "LINES"))
    }
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    argv = [sys.executable, "-m", "tests.ui.terminal.fake_app", "hostile"]
    terminal = Terminal(argv, cwd=Path(__file__).parents[3], env=env, columns=120, rows=36)
    try:
        terminal.wait_for("read by trainer")
        for keys, seen in MAIN_SCREENS.items():
            terminal.press(keys)
            terminal.wait_for(seen)
            terminal.painted_at()
        sent = terminal.written.decode()
    finally:
        terminal.close()
    assert "[bold]" in sent
    sequences = SEQUENCES.findall(sent)
    assert not [each for each in sequences if "owned" in each or each in ("\x1b[2J", "\x1b[31m")]
    rest = SEQUENCES.sub("", sent)
    assert {char for char in rest if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} <= OWN_CONTROLS
