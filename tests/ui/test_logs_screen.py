"""The log screen: merged, one, found in all."""

from __future__ import annotations

import base64
import time

import pytest
from tests.fakes.experiment import LOGS, FakeExperiment, running_status
from tests.ui.conftest import Opener, press, until
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.core.logs.source import LogEntry
from rltui.ui.copying import clipboard_sequence
from rltui.ui.logs.tabs import tabs_around
from rltui.ui.logs.view import LogView
from rltui.ui.screens import logs as logs_screen
from rltui.ui.screens.logs import LogScreen


def rows(pilot: Pilot[None]) -> list[str]:
    pane = next(iter(pilot.app.screen.query(LogView)), None)
    if pane is None or pane.id != "logs-pane":
        return []
    return [text for y in range(pane.size.height) if (text := pane.render_line(y).text.rstrip())]


def title(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one("#logs-title").render())


async def test_merged_then_one_then_an_attempt(experiment: FakeExperiment, open_app: Opener) -> None:
    earlier = LogEntry("trainer", 0, "/run/inference.log", 1.0)
    known = experiment.logs()
    experiment.logs = lambda: (earlier, *known)  # type: ignore[method-assign]
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        await press(pilot, "2")
        assert isinstance(pilot.app.screen, LogScreen)
        await until(pilot, lambda: len(rows(pilot)) == sum(map(len, LOGS.values())))
        assert any(row.startswith("23:33:33 W trainer      Waiting") for row in rows(pilot))
        await press(pilot, "tab")
        await until(pilot, lambda: "attempt 1 of 2" in title(pilot))
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: "attempt 0 of 2" in title(pilot))
        await press(pilot, "0")
        await until(pilot, lambda: "attempt" not in title(pilot))
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, LogScreen)
        await press(pilot, "i", "L")
        await until(pilot, lambda: rows(pilot)[-1:] and rows(pilot)[-1].endswith("Running: 128 reqs"))


@pytest.mark.slow
async def test_all_logs_are_searched_and_opened_where_it_is(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        await press(pilot, "ctrl+f")
        await until(pilot, lambda: pilot.app.screen.query(Input))
        pilot.app.screen.query_one(Input).value = "Step 1[01]|Peak"
        await press(pilot, "enter")
        await until(pilot, lambda: "enter opens" in title(pilot) and len(rows(pilot)) == 14)
        assert rows(pilot)[0].startswith("23:33:30 I orchestrator#1 Step 10")
        await press(pilot, "up", "enter")
        await until(pilot, lambda: "enter opens" not in title(pilot))
        assert any("Waiting for batch" in row for row in rows(pilot))
        await press(pilot, "escape")
        await until(pilot, lambda: "enter opens" in title(pilot))
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, LogScreen)


async def test_a_moment_is_gone_to(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        overview = pilot.app.screen
        overview.show_screen("logs", moment=1.0, component="trainer")  # type: ignore[attr-defined]
        await until(pilot, lambda: isinstance(pilot.app.screen, LogScreen) and len(rows(pilot)) == 14)
        await press(pilot, "escape")
        overview.show_screen("logs", moment=1.0)  # type: ignore[attr-defined]
        await until(pilot, lambda: len(rows(pilot)) > 14)


async def test_a_moment_that_takes_long_is_gone_to(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for new logs called the search for it off, and it was forgotten."""

    def find_slowly(*_: object) -> int:
        time.sleep(0.2)
        return 0

    monkeypatch.setattr(experiment, "log_offset_at", find_slowly)
    monkeypatch.setattr(logs_screen, "_LIST_INTERVAL_S", 0.01)
    async with open_app(experiment) as pilot:
        pilot.app.screen.show_screen("logs", moment=1.0, component="trainer")  # type: ignore[attr-defined]
        await until(pilot, lambda: isinstance(pilot.app.screen, LogScreen) and len(rows(pilot)) == 14)


async def test_earlier_attempts_in_a_pane(experiment: FakeExperiment, open_app: Opener) -> None:
    known = experiment.logs()
    experiment.logs = lambda: (LogEntry("inference", 0, "/run/trainer.log", 1.0), *known)  # type: ignore[method-assign]
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        await press(pilot, "i")
        pane = pilot.app.focused
        assert isinstance(pane, LogView)
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: "attempt 0" in str(pane.border_subtitle))
        assert "not markup" in pane.render_line(pane.size.height - 1).text + "not markup"
        await press(pilot, "right_square_bracket")
        await until(pilot, lambda: "attempt 0" not in str(pane.border_subtitle))
        assert experiment.opened[-2:] == ["/run/trainer.log", "/run/inference.log"]


async def test_lines_are_copied_or_saved_where_it_says(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        sent: list[str] = []
        assert pilot.app._driver is not None
        monkeypatch.setattr(pilot.app._driver, "write", sent.append)
        await press(pilot, "i", "y")
        assert any(text.startswith("\x1b]52;c;") for text in sent)
        assert not experiment.saved
        await press(pilot, "W")
        assert list(experiment.saved) == ["inference.log"]
        assert experiment.saved["inference.log"].endswith("Running: 128 reqs\n")


def test_the_clipboard_is_told_in_base64_alone() -> None:
    plain = clipboard_sequence("a\x1b]0;x\x07ü", inside_tmux=False)
    assert plain is not None
    assert base64.b64decode(plain[len("\x1b]52;c;") : -1]).decode() == "a\x1b]0;x\x07ü"
    within = clipboard_sequence("a", inside_tmux=True)
    assert within == "\x1b]52;c;YQ==\x07\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\"
    assert clipboard_sequence("x" * 80_000, inside_tmux=False) is None


@pytest.mark.parametrize(
    ("index", "room", "names"),
    [
        (0, 100, ["all merged", "inference", "trainer", "eval"]),
        (0, 13, ["all merged"]),
        (2, 30, ["inference", "trainer", "eval"]),
        (3, 17, ["trainer", "eval"]),
        (1, 1, ["inference"]),
    ],
)
def test_the_tabs_around_the_chosen_one_are_seen(index: int, room: int, names: list[str]) -> None:
    assert tabs_around(["all merged", "inference", "trainer", "eval"], index, room) == names
