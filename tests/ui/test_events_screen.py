"""The events screen's keys: what is shown, where it jumps to; and notes from any screen."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW, FakeExperiment
from tests.ui.conftest import Opener, opened, press, said, screen_lines, screen_text, until
from tests.ui.journal import EVIL, entry, journal
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.client.experiment import Experiment
from rltui.core.experiment.journal import JournalEntry
from rltui.errors import RltuiError
from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.base import ChoiceMenu, MessageDialog, NoteDialog
from rltui.ui.screens import SCREENS
from rltui.ui.screens.events import EventScreen
from rltui.ui.screens.overview import Overview
from rltui.views.event import KINDS

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def told() -> FakeExperiment:
    experiment = FakeExperiment()
    experiment.entries = journal()
    return experiment


def under_cursor(pilot: Pilot[None]) -> str:
    assert isinstance(pilot.app.screen, EventScreen)
    item = pilot.app.screen.selected
    return "" if item is None else item.entry.text


async def open_events(pilot: Pilot[None]) -> EventScreen:
    screen = await opened(pilot, EventScreen, "8")
    await until(pilot, lambda: "· Events · " in screen_lines(pilot)[0])
    return screen


def test_the_fake_journal_has_what_the_real_one_may_have() -> None:
    assert {each.kind for each in journal()} <= set(KINDS)


async def test_the_newest_comes_last_with_what_belongs_to_it(told: FakeExperiment, open_app: Opener) -> None:
    async with open_app(told) as pilot:
        await open_events(pilot)
        assert under_cursor(pilot).startswith("write: 20 keys")
        assert "-key_12 = 12" in screen_text(pilot), "under the cursor, all of the diff"
        assert "153" in screen_text(pilot)
        assert "[bold]not markup[/bold]" in screen_text(pilot)
        assert not set(EVIL) & {"\x1b", "\x9b", "\x07", "\u202e"} & set(screen_text(pilot))
        await press(pilot, "k")
        assert "✗ crash" in screen_text(pilot)
        assert "trainer attempt 2 · 10m ago" in screen_text(pilot)
        assert "… 30 more lines" in screen_text(pilot), "of the entry below it only the start"
        await press(pilot, "g")
        assert "── " in screen_text(pilot)
        assert "supervisor started, pid 4711" in under_cursor(pilot)


async def test_a_long_entry_is_read_to_its_end_before_the_next(
    told: FakeExperiment, open_app: Opener
) -> None:
    told.entries.append(entry(1, "note", "the last"))
    async with open_app(told, (100, 20)) as pilot:
        await open_events(pilot)
        await press(pilot, "k")
        assert "-key_0 = 0" in screen_text(pilot)
        seen = ""
        for _ in range(8):
            seen += screen_text(pilot)
            await press(pilot, "j")
            if under_cursor(pilot) == "the last":
                break
        assert "+key_19 = 38" in seen
        assert under_cursor(pilot) == "the last"
        await press(pilot, "pageup", "pageup", "pageup")
        assert [entry.text for entry in told.entries].index(under_cursor(pilot)) < 14
        await press(pilot, "end")
        assert under_cursor(pilot) == "the last"


async def test_what_comes_is_followed_from_the_end_only(told: FakeExperiment, open_app: Opener) -> None:
    async def happens(pilot: Pilot[None], text: str) -> None:
        new = JournalEntry(at=NOW, kind="ready", text=text, component="trainer")
        told.entries.append(new)
        told.push(new)
        titles = f"of {len(told.entries)} ·", f"· Events · {len(told.entries)} "
        await until(pilot, lambda: any(title in screen_lines(pilot)[0] for title in titles))

    async with open_app(told) as pilot:
        await open_events(pilot)
        await happens(pilot, "trainer ready")
        assert under_cursor(pilot) == "trainer ready"
        await press(pilot, "k", "k")
        before = under_cursor(pilot)
        await happens(pilot, "trainer ready again")
        assert under_cursor(pilot) == before
        del told.entries[3:]
        await happens(pilot, "another journal")


async def test_kinds_components_and_words(told: FakeExperiment, open_app: Opener) -> None:
    async with open_app(told) as pilot:
        await open_events(pilot)
        await press(pilot, "f", "down", "down", "enter")
        assert "· 9 of 15 · only marks" in screen_text(pilot)
        await press(pilot, "slash", *"LR", "enter")
        assert under_cursor(pilot) == "trainer.optim.lr 1e-5 → 1e-4"
        assert "· 1 of 15 · only marks" in screen_text(pilot)
        await press(pilot, "slash", *"xyz", "enter")
        assert "No match" in screen_text(pilot)
        await press(pilot, "enter", "L", "j", "pagedown", "G", "b", "b")
        await press(pilot, "escape")
        assert "· 9 of 15 · only marks" in screen_text(pilot)
        await press(pilot, "escape")
        assert screen_lines(pilot)[0].rstrip().endswith("· Events · 14 of 15 · without checkpoints")
        await press(pilot, "f")
        assert isinstance(pilot.app.screen, ChoiceMenu)
        below = list(pilot.app.screen.choices).index("of trainer")
        await press(pilot, *["down"] * below, "enter")
        assert "trainer ready" in screen_text(pilot)
        assert "inference ready" not in screen_text(pilot)
        await press(pilot, "escape", "escape")
        assert isinstance(pilot.app.screen, Overview)


async def test_folding_hides_diffs(told: FakeExperiment, open_app: Opener) -> None:
    async with open_app(told, (100, 60)) as pilot:
        await open_events(pilot)
        await press(pilot, "g")
        assert "+lr = 1e-4" in screen_text(pilot)
        assert "step (trainer.py:91)" in screen_text(pilot)
        await press(pilot, "b")
        assert "+lr = 1e-4" not in screen_text(pilot)
        await press(pilot, *"j" * 6)
        assert "+lr = 1e-4" in screen_text(pilot), "the cursor is on it"


async def test_checkpoints_are_listed_when_they_are_asked_for(open_app: Opener) -> None:
    experiment = FakeExperiment()
    steps = [(at, entry(at, "checkpoint", f"checkpoint {at} is complete", step=at)) for at in (1, 2, 3, 4)]
    experiment.entries = [each for _, each in steps[:3]] + [entry(3, "note", "looks good"), steps[3][1]]
    burst, last = "◆ checkpoint  checkpoints 1, 2 and 3 are complete", "checkpoint 4 is complete"
    async with open_app(experiment) as pilot:
        await open_events(pilot)
        assert "looks good" in screen_text(pilot)
        assert "is complete" not in screen_text(pilot)
        for choice, seen, unseen in (
            ("all", (burst, last, "looks good"), ("checkpoint 2 ",)),
            ("kind checkpoint", ("checkpoint 2 is complete", last), ("looks good", burst)),
        ):
            await press(pilot, "f")
            assert isinstance(pilot.app.screen, ChoiceMenu)
            await press(pilot, *["down"] * list(pilot.app.screen.choices).index(choice), "enter")
            assert [text for text in seen if text not in screen_text(pilot)] == []
            assert [text for text in unseen if text in screen_text(pilot)] == []
        await press(pilot, "escape", "slash", *"checkpoint", "enter")
        assert burst in screen_text(pilot), "words are looked for in all"
        experiment.entries = [experiment.entries[0]]
        await press(pilot, "escape", "escape", "8")
        await until(pilot, lambda: "Only checkpoints so far: f lists them." in screen_text(pilot))


async def test_an_entry_leads_to_its_moment(
    told: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[tuple[str, float, str | None]] = []

    def show_screen(
        self: BaseScreen, name: str, *, aim: str = "", moment: float = 0.0, component: str | None = None
    ) -> None:
        went.append((name, moment, component))

    monkeypatch.setitem(SCREENS, "logs", "of another test")
    monkeypatch.setitem(SCREENS, "metrics", "of another test")
    async with open_app(told) as pilot:
        screen = await open_events(pilot)
        monkeypatch.setattr(EventScreen, "show_screen", show_screen)
        await press(pilot, "enter", "L", "k", "enter", "C")
        edit, crash = told.entries[-1].at, told.entries[-2].at
        assert went == [
            ("metrics", edit, None),
            ("logs", edit, None),
            ("logs", crash, "trainer"),
            ("metrics", crash, "trainer"),
        ]
        monkeypatch.undo()
        screen.action_show_overview()
        await pilot.pause()
        overview = pilot.app.screen
        assert isinstance(overview, Overview)
        overview.show_screen("events", moment=NOW - 7_100)
        await until(pilot, lambda: under_cursor(pilot) == "the new data from here on")
        assert " of " not in screen_lines(pilot)[0]
        screen.go_to(NOW - 89_000, "inference")
        await until(pilot, lambda: under_cursor(pilot) == "inference ready")


async def test_a_journal_that_cannot_be_read_says_so(told: FakeExperiment, open_app: Opener) -> None:
    async with open_app(told) as pilot:
        await open_events(pilot)
        told.error = RltuiError("the disk is away")
        told.push(told.entries[-1])
        await until(pilot, lambda: "⚠ the disk is away" in screen_text(pilot))


@pytest.mark.slow
async def test_a_note_is_made_on_any_screen(told: FakeExperiment, open_app: Opener) -> None:
    async with open_app(told) as pilot:
        await press(pilot, "number_sign", *"qy n", "enter")
        assert told.entries[-1].text == "qy n", "no key of it is a command"
        assert "Note added: qy n" in said(pilot)
        await open_events(pilot)
        await press(pilot, "number_sign")
        assert isinstance(pilot.app.screen, NoteDialog)
        await press(pilot, *"no", "escape")
        assert isinstance(pilot.app.screen, EventScreen)
        await press(pilot, "number_sign", "enter")
        assert told.entries[-1].text == "qy n"
        await press(pilot, "number_sign", *"second")
        told.error = RltuiError("the disk is full")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageDialog))
        told.error = None
        await press(pilot, "enter")
        assert pilot.app.screen.query_one(Input).value == "second"
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, EventScreen))
        assert under_cursor(pilot) == "second"


@pytest.mark.parametrize(("observed", "may"), [(False, False), (True, True)], ids=["readonly", "observed"])
async def test_who_may_only_look_notes_nothing(open_app: Opener, observed: bool, may: bool) -> None:
    experiment = FakeExperiment(readonly=True)
    experiment.observed = observed
    checked: Experiment = experiment
    assert checked.readonly
    async with open_app(experiment) as pilot:
        await press(pilot, "number_sign")
        assert isinstance(pilot.app.screen, NoteDialog) is may
