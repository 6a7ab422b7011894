"""Keys that arrive together, as over a slow line or from a paste: none is lost, none means another thing."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.experiment import NOW, FakeExperiment, component, running_status, stopped_status
from tests.fakes.runs import FakeRuns, run_row
from tests.params import slow_but
from tests.ui.config_cases import config_experiment
from tests.ui.conftest import Opener, said, screen_text, settle, until
from tests.ui.metric_cases import experiment_with_run
from tests.ui.run_cases import RUNS
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.core.logs.source import LogEntry
from rltui.errors import RltuiError
from rltui.ui.dialogs.base import NoteDialog
from rltui.ui.dialogs.knob_editor import KnobEditor
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.palette.screen import Palette
from rltui.ui.screens.config import ConfigScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.terminal.incoming import Incoming
from rltui.ui.widgets.panes import ComponentPane

WORDS = "SIGTERM i S I R M x q"
"""Of letters that each do something on a main screen: some start or stop components, one leaves."""


async def burst(pilot: Pilot[None], typed: str) -> None:
    """All of it in one write."""
    incoming = Incoming()
    for message in (*incoming.feed(typed), *incoming.flush()):
        assert isinstance(message, events.Event)
        message.set_sender(pilot.app)
        pilot.app.post_message(message)
    await settle(pilot)


@pytest.mark.parametrize(
    ("opening", "where"),
    [
        ("/", SearchLine),
        ("#", NoteDialog),
        ("6/", SearchLine),
        ("2/", SearchLine),
        ("5/", SearchLine),
        ("4/", SearchLine),
        ("8/", SearchLine),
        ("9/", SearchLine),
        ("V/", SearchLine),
        ("Q/", SearchLine),
        ("7/", SearchLine),
        ("?", None),
        (":", None),
    ],
)
async def test_what_is_typed_behind_the_key_that_opens_a_line_is_in_that_line(
    experiment: FakeExperiment, open_app: Opener, opening: str, where: type | None
) -> None:
    """Finding U6: of 14 letters two came through, and the others were keys."""
    async with open_app(experiment) as pilot:
        await burst(pilot, opening + WORDS)
        assert isinstance(pilot.app.focused, Input), opening
        assert pilot.app.focused.value == WORDS
        assert where is None or isinstance(pilot.app.screen, where)
        assert experiment.planned + experiment.executed == []
        assert pilot.app.return_code is None
        assert said(pilot) == []


@pytest.mark.parametrize("opening", ["e", "#", "/"])
async def test_tags_descriptions_and_filters_of_runs_take_all_letters(open_app: Opener, opening: str) -> None:
    async with open_app(None, runs=FakeRuns(*RUNS)) as pilot:
        await burst(pilot, opening)
        field = pilot.app.focused
        assert isinstance(field, Input), opening
        before = field.value
        await burst(pilot, "\x1b")
        await burst(pilot, opening + WORDS)
        assert isinstance(pilot.app.focused, Input)
        assert pilot.app.focused.value in (before + WORDS, WORDS)
        assert pilot.app.return_code is None


async def test_enter_and_what_follows_it_count_in_their_turn(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        await burst(pilot, "#it collapsed\r#and again\r")
        assert [entry.text for entry in experiment.entries][-2:] == ["it collapsed", "and again"]


async def test_a_value_is_typed_and_written_in_one_go(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await burst(pilot, "6\r")
        assert isinstance(pilot.app.screen, KnobEditor)
        await burst(pilot, "\x1b")
        await burst(pilot, "\r\x7f\x7f\x7f\x7f\x7f\x7f")
        assert isinstance(pilot.app.screen, KnobEditor)


async def test_as_many_attempts_back_as_keys(open_app: Opener) -> None:
    """Finding U6: `[[[` in one write went back by one attempt."""
    trainer = component("trainer", log="/run/trainer.log")
    experiment = FakeExperiment(running_status(components=(trainer,)))
    names = ("inference", "orchestrator", "trainer", "inference", "trainer")  # any that the fake has lines of
    logs = tuple(LogEntry("trainer", at, f"/run/{name}.log", NOW + at) for at, name in enumerate(names, 1))
    experiment.logs = lambda: logs  # type: ignore[method-assign]
    async with open_app(experiment) as pilot:
        pane = pilot.app.screen.query_one(ComponentPane)
        await burst(pilot, "[[[")
        assert pane._attempt == 2
        await burst(pilot, "]]")
        assert pane._attempt == 4
        await burst(pilot, "[[[[")
        assert pane._attempt == 1
        assert said(pilot) == ["trainer has no earlier attempt"]


@pytest.mark.parametrize("opening", ["/", "2/"])
async def test_where_there_is_no_log_yet_letters_behind_the_search_are_no_keys(
    open_app: Opener, opening: str
) -> None:
    experiment = FakeExperiment(stopped_status())
    experiment.logs = lambda: ()  # type: ignore[method-assign]
    async with open_app(experiment) as pilot:
        await burst(pilot, opening + WORDS)
        assert isinstance(pilot.app.screen, SearchLine)
        await burst(pilot, "\r")
        assert experiment.planned + experiment.executed == []
        assert said(pilot) == []


async def test_a_key_behind_one_that_closes_a_dialog_is_for_what_is_below(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        await burst(pilot, "/lost\r6")
        assert isinstance(pilot.app.screen, ConfigScreen)


async def test_a_paste_is_for_the_line_that_the_key_before_it_opens(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        await burst(pilot, "/\x1b[200~SIGTERM\x1b[201~ x")
        assert isinstance(pilot.app.focused, Input)
        assert pilot.app.focused.value == "SIGTERM x"
        await burst(pilot, "\x1b")
        await burst(pilot, "\x1b[200~sxSRq\x1b[201~")
        assert experiment.planned + experiment.executed == []
        assert pilot.app.return_code is None
        assert isinstance(pilot.app.screen, Overview)


async def test_what_nothing_answers_to_is_searched_for_only_where_there_are_logs(open_app: Opener) -> None:
    """Finding X4: on the list of runs, with none open, enter ended the TUI."""
    async with open_app(None) as pilot:
        for typed in (":zqqqxyz\r", ":/z\r"):
            below = pilot.app.screen
            await burst(pilot, typed)
            assert isinstance(pilot.app.screen, Palette)
            await burst(pilot, "\x1b")
            assert pilot.app.screen is below


TYPED = ((WORDS + " ") * 10)[:200]


LINES = (
    "/", ":", "7e", "7:>rename\r", "7|\t", "Y", *("7Y" + "\t" * field for field in range(4)),
    *("Vs" + "\t" * field for field in (0, 1, 4, 5, 7)),
)  # fmt: skip
"""Keys that open a line to type in, and beside three of them those that no test above types behind."""


@pytest.mark.parametrize("opening", slow_but(LINES, "/", ":", "7e"))
async def test_two_hundred_characters_in_one_write_are_all_in_the_line(
    opening: str, open_app: Opener
) -> None:
    """Also what opens the line: nothing of it is a key for the screen, or lost."""
    experiment, runs = FakeExperiment(), FakeRuns(*RUNS, run_row("reverse-text", folder="/run"))
    async with open_app(experiment, runs=runs) as pilot:
        if opening[0] == "7":  # keys of a run need the list
            await burst(pilot, "7")
        await burst(pilot, opening.removeprefix("7") + TYPED)
        field = pilot.app.focused
        assert isinstance(field, Input), opening
        await until(pilot, lambda: len(field.value) >= len(TYPED))
        assert field.value.endswith(TYPED), opening
        assert experiment.planned + experiment.executed == []
        assert runs.forked == []
        assert pilot.app.return_code is None


@pytest.mark.usefixtures("painted")
async def test_a_step_is_gone_to_and_what_follows_counts_there(open_app: Opener) -> None:
    async with open_app(experiment_with_run(), size=(130, 40)) as pilot:
        await burst(pilot, "4")
        await burst(pilot, ":300\rJ204\r/kl")
        assert isinstance(pilot.app.focused, Input)
        assert pilot.app.focused.value == "kl"
        await until(pilot, lambda: "step 204 " in screen_text(pilot))


@pytest.mark.parametrize("opening", ["Y", "Vs" + "\t" * 5, ":convert\r"])
async def test_what_is_typed_before_a_form_has_its_answer_is_in_the_form(
    opening: str, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the index does not have yet, and a supervisor that is slow."""
    experiment, runs, answers = config_experiment(), FakeRuns(), asyncio.Event()

    async def wait(*_: object) -> None:
        await answers.wait()
        raise RltuiError("too late")

    monkeypatch.setattr(experiment, "evals", wait)
    monkeypatch.setattr(experiment, "convert", wait)
    async with open_app(experiment, runs=runs) as pilot:
        await burst(pilot, opening + "1e-3")
        await burst(pilot, "5")
        field = pilot.app.focused
        assert isinstance(field, Input)
        assert field.value == "1e-35"
        answers.set()
        refusal = "this run is not indexed yet" if opening == "Y" else "too late"
        await until(pilot, lambda: refusal in screen_text(pilot))
        await burst(pilot, "6")
        assert field.value == "1e-356"
        assert experiment.planned + experiment.executed == []


@pytest.mark.parametrize("opening", ["6\r", "J", "Vs\t\t", "Vs\t\t\t", "Vs" + "\t" * 6, ":convert\r"])
async def test_a_field_with_a_form_takes_what_fits_and_no_letter_is_a_key(
    opening: str, open_app: Opener
) -> None:
    """The editor of a number, the line for a step, numbers of an evaluation, the mean of a conversion."""
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        await burst(pilot, opening + "1" * 20 + "sxSRq")
        field = pilot.app.focused
        assert isinstance(field, Input), opening
        await until(pilot, lambda: field.value.startswith("1" * 9))
        await settle(pilot)
        assert pilot.app.screen.is_modal
        assert {request.action for request in experiment.planned} <= {"set"}, "a look at what is typed"
        assert experiment.executed == []
        assert pilot.app.return_code is None
