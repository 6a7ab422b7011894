"""The palette: whatever there is, by a few letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

import pytest
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, running_status
from tests.fakes.runs import FakeRuns, run_row, running_row
from tests.ui.checkpoint_cases import REPORT
from tests.ui.conftest import Opener, press, said, screen_text, settle, until
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.client.settings_text import Setting, SettingsText
from rltui.errors import RltuiError
from rltui.ui.dialogs.base import EditAgain
from rltui.ui.dialogs.help import HelpScreen
from rltui.ui.dialogs.knob_editor import KnobEditor
from rltui.ui.messages import NotifyingApp
from rltui.ui.palette.entries import EntryKind, PaletteEntry, ranked
from rltui.ui.palette.screen import Palette, Source, entry_line
from rltui.ui.screens.checkpoints import CheckpointScreen
from rltui.ui.screens.config import ConfigScreen
from rltui.ui.screens.logs import LogScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.virtual_list import VirtualList


def make_experiment(*, readonly: bool = False) -> FakeExperiment:
    experiment = FakeExperiment(running_status(), gpu_report(), knob_table(), readonly=readonly)
    experiment.checkpoint_report = REPORT
    return experiment


def palette(pilot: Pilot[None]) -> Palette:
    screen = pilot.app.screen
    assert isinstance(screen, Palette)
    return screen


def shown(pilot: Pilot[None]) -> list[str]:
    """What is listed, with the kind in front."""
    return [entry.name for entry in palette(pilot)._results]


def cursor_name(pilot: Pilot[None]) -> str:
    return shown(pilot)[palette(pilot).query_one(VirtualList).cursor_index]


async def choose(pilot: Pilot[None], typed: str) -> None:
    await press(pilot, "colon", *typed)
    await until(pilot, lambda: not palette(pilot)._loading)
    await press(pilot, "enter")


def entry(kind: EntryKind, label: str, detail: str = "") -> PaletteEntry:
    return PaletteEntry(kind, label, label, lambda: None, detail)


RUNS = [entry(EntryKind.RUN, name) for name in ("l-x-r", "alright", "lrelu", "lr-sweep")]
KEYS = [
    entry(EntryKind.KNOB, key) for key in ("inference.model.name", "orchestrator.model.name", "model.name")
]
IN_FULL = ["model.name", "inference.model.name", "orchestrator.model.name"]
ACTIONS = [entry(EntryKind.ACTION, name) for name in ("start", "stop", "zoom")]
NORDS = [
    entry(EntryKind.KNOB, "model.nord"),
    entry(EntryKind.THEME, "nord"),
    entry(EntryKind.THEME, "dracula"),
]
RATES = [entry(EntryKind.KNOB, "trainer.optim.lr"), entry(EntryKind.KNOB, "sft.optim.lr")]
KINDS = [
    entry(EntryKind.COMPONENT, "trainer"),
    entry(EntryKind.KNOB, "trainer.lr"),
    entry(EntryKind.THEME, "nord"),
]


@pytest.mark.parametrize(
    ("entries", "typed", "recent", "labels"),
    [
        ([*RUNS, RATES[0]], "lr", (), ["trainer.optim.lr", "lr-sweep", "lrelu", "alright", "l-x-r"]),
        (KEYS, "model.name", (), IN_FULL),
        (KEYS, "Model.Name ", (KEYS[0].name,), IN_FULL),
        ([entry(EntryKind.ACTION, "fork", "start another run"), entry(EntryKind.RUN, "restarted")], "start",
         (), ["restarted", "fork"]),
        (ACTIONS, "", ("action:zoom", "action:stop", "action:gone"), ["zoom", "stop", "start"]),
        (ACTIONS, "st", ("action:stop",), ["stop", "start"]),
        (ACTIONS, "start", ("action:stop",), ["start"]),
        (NORDS, "theme", (), ["nord", "dracula"]),
        (NORDS, "themes", (), ["nord", "dracula"]),
        (NORDS, "theme nord", (), ["nord"]),
        (NORDS, "nord", (), ["nord", "model.nord"]),
        (RATES, "lr", (), ["trainer.optim.lr", "sft.optim.lr"]),
        (KINDS, "@", (), ["trainer"]),
        (KINDS, "=tr", (), ["trainer.lr"]),
        (KINDS, "*tr", (), []),
    ],
    ids=[
        "whole words, beginnings, parts, letters", "a label typed in full", "also before one used last",
        "labels before descriptions", "the one used last", "among equals", "only those that match",
        "a kind is a word", "also of many", "with another", "a whole word before a part", "as they came",
        "components only", "knobs only", "none of that kind",
    ],
)  # fmt: skip
def test_the_best_answer_comes_first(
    entries: list[PaletteEntry], typed: str, recent: tuple[str, ...], labels: list[str]
) -> None:
    assert [each.label for each in ranked(entries, typed, recent)] == labels


@pytest.mark.parametrize("width", [8, 20, 40, 80, 200])
def test_entry_line_has_the_keys_at_the_right(width: int) -> None:
    line = entry_line(
        PaletteEntry(EntryKind.ACTION, "x", "restart" * 4, lambda: None, "Restart what must restart", "r"),
        ["rest"],
        width,
    )
    if width >= 40:
        assert line.cell_length == width - 1
        assert line.plain.endswith("  r")
    assert width < 80 or "Restart what must" in line.plain


@asynccontextmanager
async def opened(
    *entries: PaletteEntry, sources: Sequence[Source] = ()
) -> AsyncIterator[tuple[Pilot[None], list[PaletteEntry | None]]]:
    """A palette of these alone, and what was chosen in it."""
    chosen: list[PaletteEntry | None] = []
    async with NotifyingApp(lambda: 0.0).run_test(size=(100, 30)) as pilot:
        pilot.app.push_screen(Palette(entries, sources), chosen.append)
        await settle(pilot)
        yield pilot, chosen


class Late:
    """A source whose entry comes when it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self) -> list[PaletteEntry]:
        await self.gate.wait()
        return [entry(EntryKind.CHECKPOINT, "checkpoint 400")]


async def test_what_comes_late_moves_no_cursor() -> None:
    late = Late()
    async with opened(*(entry(EntryKind.RUN, f"run {n}4") for n in range(3)), sources=[late]) as (pilot, _):
        await press(pilot, "4", "down")
        before = cursor_name(pilot)
        assert len(shown(pilot)) == 3
        late.gate.set()
        await until(pilot, lambda: len(shown(pilot)) == 4)
        assert cursor_name(pilot) == before
        assert palette(pilot).query_one(Input).value == "4"


async def test_enter_waits_for_what_is_not_there_yet() -> None:
    late = Late()
    async with opened(sources=[late]) as (pilot, chosen):
        await press(pilot, *"#400", "enter")
        assert not chosen
        late.gate.set()
        await until(pilot, lambda: chosen)
        assert chosen[0] is not None
        assert chosen[0].name == "checkpoint:checkpoint 400"


async def test_a_source_that_fails_is_told_and_the_others_are_there() -> None:
    late = Late()
    late.gate.set()

    async def fail() -> list[PaletteEntry]:
        raise RltuiError("the index is damaged")

    async with opened(sources=[fail, late]) as (pilot, _):
        await until(pilot, lambda: shown(pilot) == ["checkpoint:checkpoint 400"])
        assert said(pilot) == ["the index is damaged"]


async def test_a_click_chooses_and_a_click_beside_closes() -> None:
    zoom = entry(EntryKind.ACTION, "zoom")
    async with opened(entry(EntryKind.ACTION, "stop"), zoom) as (pilot, chosen):
        await press(pilot, *"zoom")
        await pilot.click(VirtualList, offset=(20, 0))
        await until(pilot, lambda: chosen == [zoom])
    async with opened(zoom) as (pilot, chosen):
        await pilot.click(offset=(1, 28))
        await until(pilot, lambda: chosen == [None])


async def test_what_is_typed_behind_enter_is_no_part_of_the_line(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await press(pilot, "colon")
        for key in (*"dracula", "enter", "q"):
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else "\r"))
        await until(pilot, lambda: isinstance(pilot.app.screen, Overview))
        assert pilot.app.theme == "dracula"


async def test_all_kinds_are_found_and_told(open_app: Opener) -> None:
    runs = FakeRuns(run_row("old"), run_row("gone", trashed_at=1.0), running_row("alive"))
    async with open_app(make_experiment(), runs=runs) as pilot:
        await press(pilot, "colon")
        await until(pilot, lambda: not palette(pilot)._loading)
        names = shown(pilot)
        assert {
            "action:component.restart",
            "screen:screen.gpus",
            "component:trainer",
            "knob:trainer.optim.lr",
            "checkpoint:400",
            "theme:nord",
            "setting:alerts.bell",
            "run:id-old",
        } <= set(names)
        assert "run:id-gone" not in names
        assert names.index("run:id-alive") < names.index("run:id-old")
        await press(pilot, *"cuda")
        assert shown(pilot) == ["log:cuda"], "there are always the logs"


@pytest.mark.slow
async def test_actions_are_run_and_remembered(open_app: Opener) -> None:
    runs = FakeRuns()
    runs.saved_values["app"] = {"theme": "nord", "palette": ["action:zoom", 3]}
    async with open_app(make_experiment(), runs=runs) as pilot:
        await choose(pilot, "help")
        assert isinstance(pilot.app.screen, HelpScreen)
        await press(pilot, "escape", "colon")
        assert shown(pilot)[0] == "action:help"
        await until(pilot, lambda: runs.saved_values["app"].get("palette") == ["action:help", "action:zoom"])
        assert runs.saved_values["app"]["theme"] == "nord", "what others keep there stays"


async def test_enter_on_a_knob_edits_it_from_any_screen(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await press(pilot, "4")
        await choose(pilot, "lr")
        assert isinstance(pilot.app.screen, KnobEditor)


@pytest.mark.slow
async def test_enter_on_a_component_focuses_it_from_any_screen(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await press(pilot, "3")
        await choose(pilot, "@train")
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        assert screen.panels.selected == "trainer"
        pane = screen.panels.body.reader("trainer")
        assert pane is not None
        assert pane.log_pane.has_focus


@pytest.mark.slow
async def test_enter_on_a_run_opens_it_in_place(open_app: Opener) -> None:
    runs = FakeRuns(run_row("other"))
    async with open_app(make_experiment(), runs=runs) as pilot:
        await choose(pilot, "~other")
        await until(pilot, lambda: runs.opened == ["id-other"])


@pytest.mark.slow
async def test_enter_on_a_checkpoint_goes_to_it(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await choose(pilot, "#400")
        screen = pilot.app.screen
        assert isinstance(screen, CheckpointScreen)
        await until(pilot, lambda: screen.rows.key == "400")


@pytest.mark.slow
async def test_slash_searches_all_logs(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        await choose(pilot, "/Step 3")
        screen = pilot.app.screen
        assert isinstance(screen, LogScreen)
        await until(pilot, lambda: screen._tabs.search is not None and screen._tabs.search.is_over)
        assert screen._tabs.search is not None
        assert screen._tabs.search.query.text == "Step 3"


@pytest.mark.slow
async def test_a_theme_is_tried_while_the_cursor_is_on_it(open_app: Opener) -> None:
    async with open_app(make_experiment()) as pilot:
        usual = pilot.app.theme
        await press(pilot, "colon", "asterisk", *"nord")
        assert pilot.app.theme == "nord"
        await press(pilot, "escape")
        assert pilot.app.theme == usual
        await press(pilot, "colon", "asterisk", *"nord", "enter")
        assert pilot.app.theme == "nord"


@pytest.mark.slow
async def test_a_setting_is_edited_as_text_and_checked(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns()
    text = "\n\n[alerts]\nbell = false\n"
    runs.settings_text = SettingsText(
        "/settings.toml", text, False, (Setting("alerts.bell", "false", "", 4),)
    )
    clash = '[keys]\n"screen.queue" = "x"\n'
    runs.typed = ["typo = 1\n", clash, "[alerts]\nbell = true\n"]
    async with open_app(make_experiment(), runs=runs) as pilot:
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        await choose(pilot, ",bell")
        await until(pilot, lambda: isinstance(pilot.app.screen, EditAgain))
        await press(pilot, "enter")
        await until(pilot, lambda: "/settings.toml:2:1: keys.screen.queue" in screen_text(pilot))
        assert "(component.stop)" in screen_text(pilot)
        assert runs.settings_text.text == text
        await press(pilot, "enter")
        await until(pilot, lambda: runs.settings_text.text == "[alerts]\nbell = true\n")
        assert runs.edited == [(text, 4), ("typo = 1\n", 4), (clash, 4)], "what was typed is not lost"


@pytest.mark.slow
async def test_readonly_clients_are_offered_nothing_that_changes_things(open_app: Opener) -> None:
    async with open_app(make_experiment(readonly=True), runs=FakeRuns(readonly=True)) as pilot:
        await press(pilot, "colon")
        await until(pilot, lambda: not palette(pilot)._loading)
        kinds = {name.partition(":")[0] for name in shown(pilot)}
        assert "setting" not in kinds
        assert not {"action:component.restart", "action:knob.edit"} & {*shown(pilot)}
        await press(pilot, *"lr", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, ConfigScreen), "a knob can be looked at"


@pytest.mark.slow
async def test_keys_typed_at_once_are_all_taken(open_app: Opener) -> None:
    """As one types who knows the way: the palette, its field and its list come later than the keys."""
    async with open_app(make_experiment()) as pilot:
        for key in ("colon", *"seq", "underscore", *"len", "enter"):
            event = events.Key(key, {"underscore": "_"}.get(key, key if len(key) == 1 else None))
            event.set_sender(pilot.app)
            pilot.app.post_message(event)
        await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))


def test_a_letter_is_quick_among_thousands() -> None:
    entries = [
        entry(EntryKind.RUN, f"qwen3-gsm8k-lr-{n}-seed{n % 7}", "done · step 100") for n in range(5000)
    ]
    entries += [entry(EntryKind.KNOB, f"trainer.part{n}.key_{n}", "1 · what it means") for n in range(400)]
    for typed in ("l", "lr", "lrs", "lrs7", "xyz"):
        started = time.process_time()
        ranked(entries, typed)
        assert time.process_time() - started < 1.0, "50 ms; a busy machine takes longer"
