"""What the app says: one line at the foot of the screen, and a list of all of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.experiment import NOW, FakeExperiment, running_status
from tests.ui.conftest import Opener, press, said, screen_text, settle, until
from textual.notifications import SeverityLevel
from textual.pilot import Pilot
from textual.widget import Widget

from rltui.core.experiment.api import Alert, Plan, Request
from rltui.ui import messages as messages_module
from rltui.ui.dialogs.base import MessageDialog
from rltui.ui.dialogs.message_list import MessageList
from rltui.ui.messages import MessageLine, Messages, waiting
from rltui.ui.widgets.bars import KeyBar

CRASH = Alert(kind="crash", severity="error", title="trainer failed", text="exit 1\nat step 4")


@pytest.fixture(autouse=True)
def messages_stay() -> None:
    """Here they go."""


def line(pilot: Pilot[None]) -> str:
    """What the line of the screen on top shows; empty where it is not there."""
    shown = pilot.app.screen.query_one(MessageLine)
    return shown.render().plain if shown.display else ""


async def test_the_newest_is_shown_and_the_others_counted() -> None:
    messages = Messages(lambda: NOW)
    assert messages.line(80) is None
    messages.say("one thing")
    messages.say("cannot write it", "error")
    messages.say("another thing")
    shown = messages.line(80)
    assert shown is not None
    assert shown.plain == "· another thing  +2 more (!)"
    assert [each.text for each in messages.said] == ["one thing", "cannot write it", "another thing"]
    messages.say("one thing")
    shown = messages.line(80)
    assert shown is not None
    assert shown.plain == "· one thing  +2 more (!)", "what is said again is not another one"


@pytest.mark.parametrize(
    ("text", "severity", "width", "shown"),
    [
        ("cannot write it", "error", 40, "✗ error: cannot write it"),
        ("look out", "warning", 40, "⚠ warning: look out"),
        ("first\nsecond", "information", 40, "· first …  (! shows all)"),
        ("x" * 60, "information", 40, f"· {'x' * 22}…  (! shows all)"),
        ("a\x1b[31mb\x07", "information", 40, "· ab"),
    ],
    ids=["error", "warning", "lines", "long", "controls"],
)
async def test_it_is_one_line_with_a_sign_and_a_word(
    text: str, severity: SeverityLevel, width: int, shown: str
) -> None:
    messages = Messages(lambda: NOW)
    messages.say(text, severity)
    made = messages.line(width)
    assert made is not None
    assert made.plain == shown
    assert made.cell_length <= width


async def test_it_goes_by_itself_and_what_was_before_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(Messages, "_now", staticmethod(lambda: now[0]))
    messages = Messages(lambda: NOW)
    messages.say("cannot write it", "error")
    messages.say("short")
    messages.say("x" * 80)
    gone = {3.9: "xxx", 4.1: "xxx", 6.8: "error", 14.9: "error"}
    for at, words in gone.items():
        now[0] = at
        messages._turn()
        shown = messages.line(80)
        assert shown is not None
        assert words in shown.plain, at
    now[0] = 15.1
    messages._turn()
    assert messages.line(80) is None


async def test_a_key_takes_an_error_away_once_it_can_have_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(Messages, "_now", staticmethod(lambda: now[0]))
    messages = Messages(lambda: NOW)
    messages.say("cannot write it", "error")
    now[0] = 0.5
    messages.seen()
    assert messages.line(80) is not None, "that key was on its way before"
    messages.say("done")
    now[0] = 2.0
    messages.seen()
    shown = messages.line(80)
    assert shown is not None
    assert shown.plain == "· done"


@pytest.mark.parametrize("size", [(80, 24), (130, 40)], ids=["low", "tall"])
async def test_it_covers_nothing_but_keys(
    size: tuple[int, int], experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, size=size) as pilot:
        experiment.push(running_status())
        await settle(pilot)
        screen = pilot.app.screen
        row = size[1] - 2 if size[1] > 24 else size[1] - 1
        below = {screen.get_widget_at(x, row)[0] for x in range(size[0])}
        assert below <= {screen, screen.query_one(KeyBar)}, "nothing else is covered"
        before = {widget: widget.region for widget in screen.query(Widget) if widget.region}
        pilot.app.notify("Written", markup=False)
        await until(pilot, lambda: line(pilot) == "· Written")
        await settle(pilot)
        assert {widget: widget.region for widget in before} == before, "nothing moves"
        assert screen.query_one(MessageLine).region == (0, row, size[0], 1)


async def test_in_a_dialog_it_stands_below_the_box(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(80, 24)) as pilot:
        await press(pilot, "question_mark")
        pilot.app.notify("Written", markup=False)
        await until(pilot, lambda: line(pilot) == "· Written")
        await settle(pilot)
        shown = pilot.app.screen.query_one(MessageLine)
        assert shown.region.y == 23
        assert not pilot.app.screen.query_one(".box").region.overlaps(shown.region)


async def test_all_that_was_said_can_be_read_again(experiment: FakeExperiment, open_app: Opener) -> None:
    clock = [NOW]
    async with open_app(experiment, clock=lambda: clock[0]) as pilot:
        pilot.app.notify("Saved\n/tmp/a.svg\n/tmp/a.csv", markup=False)
        experiment.push(CRASH)
        await until(pilot, lambda: len(said(pilot)) == 2)
        clock[0] += 100
        await press(pilot, "exclamation_mark")
        assert isinstance(pilot.app.screen, MessageList)
        for text in ("✗ trainer failed: exit 1", "at step 4", "· Saved …"):
            assert f" {text} " in screen_text(pilot)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, MessageDialog)
        await press(pilot, "escape", "j", "enter")
        assert isinstance(pilot.app.screen, MessageDialog)
        await press(pilot, "escape", "y")
        assert said(pilot)[-1].startswith("Copied the message")
        await press(pilot, "exclamation_mark")
        assert not isinstance(pilot.app.screen, MessageList)


@pytest.mark.slow
async def test_what_takes_long_says_so_and_for_how_long(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_module, "PATIENCE_S", 0.0)
    async with open_app(experiment) as pilot:
        go_on = asyncio.Event()

        async def work() -> None:
            async with waiting(pilot.app, "Working"):
                await go_on.wait()

        worker = pilot.app.run_worker(work())
        await until(pilot, lambda: line(pilot) == "… Working: 0s")
        pilot.app.notify("By the way", markup=False)
        await until(pilot, lambda: line(pilot) == "· By the way")
        pilot.app.messages._live.clear()  # type: ignore[attr-defined]
        await until(pilot, lambda: line(pilot) == "… Working: 1s")
        await press(pilot, "escape")
        assert worker.is_running, "what changes something goes on"
        go_on.set()
        await until(pilot, lambda: not line(pilot))


async def test_esc_ends_the_waiting_for_a_plan(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_module, "PATIENCE_S", 0.0)

    async def plan(request: Request) -> Plan:
        await asyncio.Event().wait()
        raise AssertionError(request)

    monkeypatch.setattr(experiment, "plan", plan)
    async with open_app(experiment) as pilot:
        experiment.push(running_status())
        await settle(pilot)
        await press(pilot, "x")
        await until(pilot, lambda: line(pilot).endswith("0s · esc cancels"))
        await press(pilot, "escape")
        await until(pilot, lambda: "Cancelled" in line(pilot))
        await press(pilot, "x")
        await until(pilot, lambda: "esc cancels" in line(pilot))
