"""What dialogs say of their keys, and that the keys do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.ui.conftest import press, settle
from textual.pilot import Pilot

from rltui.core.config.report import KnobTable, Problem
from rltui.core.experiment.api import Plan
from rltui.errors import RltuiError
from rltui.ui.actions import remap
from rltui.ui.dialogs.base import (
    ChoiceMenu,
    DialogBase,
    EditAgain,
    LeaveDialog,
    MessageDialog,
    NoteDialog,
    PlanDialog,
    keys_line,
)
from rltui.ui.dialogs.config import ConfigReview, ConflictDialog, ReviewPrompt
from rltui.ui.messages import NotifyingApp

PLAN = Plan(action="restart", stop=("trainer",), start=("trainer",))
EDIT = Plan(action="set", diff="-a = 1\n+a = 2\n", stop=("trainer",), start=("trainer",))
BLOCKED = Plan(action="set", problems=(Problem(severity="error", message="no"),))
REFUSAL = RltuiError("it is no TOML")

CASES: dict[str, tuple[Callable[[], DialogBase[Any]], str, dict[str, object]]] = {
    "plan": (
        lambda: PlanDialog(PLAN, "Restart trainer?"),
        "enter / y: Restart · esc: Cancel",
        {"enter": True, "y": True, "n": None, "escape": None},
    ),
    "danger": (
        lambda: PlanDialog(PLAN, "Stop everything?", verb="Stop", danger=True),
        "enter: Cancel · y: Stop · esc: Cancel",
        {"enter": None, "y": True, "n": None, "escape": None},
    ),
    "blocked": (lambda: PlanDialog(BLOCKED, "Write a?"), "enter / esc: Close", {"enter": None, "n": None}),
    "leave": (
        lambda: LeaveDialog(("a = 2",)),
        "enter: Cancel · y: Discard · esc: Cancel",
        {"enter": None, "y": True, "n": None},
    ),
    "message": (lambda: MessageDialog("✗ no", ()), "enter / esc: Close", {"enter": None}),
    "edit again": (
        lambda: EditAgain(REFUSAL),
        "enter / y: Edit again · esc: Later",
        {"enter": True, "y": True, "n": None},
    ),
    "review": (
        lambda: ConfigReview(EDIT, ReviewPrompt("Write a?"), KnobTable()),
        "enter / y: Write · ctrl+r: write + restart · esc: Cancel",
        {"enter": "write", "y": "write", "ctrl+r": "restart", "n": None},
    ),
    "review of what must restart": (
        lambda: ConfigReview(EDIT, ReviewPrompt("Undo: a?", prefers_restart=True, danger=True), KnobTable()),
        "enter: Cancel · y: Write + restart · esc: Cancel · ←: other button",
        {"enter": None, "y": "restart", "n": None},
    ),
    "conflict": (
        lambda: ConflictDialog(EDIT),
        "enter / esc: Cancel · ←: other button",
        {"enter": None, "n": None, "escape": None},
    ),
    "menu": (
        lambda: ChoiceMenu("Which?", {"a": ("A", "the first")}),
        "enter: choose · esc: cancel",
        {"enter": "a", "escape": None},
    ),
    "note": (
        lambda: NoteDialog("text", purpose="keep it"),
        "enter: keep it · esc: cancel",
        {"enter": "text", "escape": None},
    ),
    "empty note": (lambda: NoteDialog(" "), "enter: add · esc: cancel", {"enter": None}),
}


def below(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one(".box").border_subtitle)


@pytest.mark.parametrize(("make", "words", "answers"), CASES.values(), ids=CASES)
async def test_the_line_below_says_what_the_keys_do(
    make: Callable[[], DialogBase[Any]],
    words: str,
    answers: dict[str, object],
) -> None:
    async with NotifyingApp(lambda: 0.0).run_test(size=(80, 24)) as pilot:
        for key, answer in answers.items():
            given: list[object] = []
            pilot.app.push_screen(make(), given.append)
            await settle(pilot)
            assert below(pilot) == words
            await press(pilot, key)
            assert given == [answer], key


async def test_enter_is_said_to_press_the_button_that_has_the_focus() -> None:
    async with NotifyingApp(lambda: 0.0).run_test() as pilot:
        pilot.app.push_screen(PlanDialog(PLAN, "Stop everything?", verb="Stop", danger=True))
        await settle(pilot)
        await press(pilot, "left")
        assert below(pilot) == "enter / y: Stop · esc: Cancel"


def test_an_error_is_told_with_its_evidence_and_what_to_do() -> None:
    error = RltuiError("port 8000 is taken", details=("pid 12 [bold]x[/bold]",), hint="stop it")
    body = MessageDialog.for_error(error).body.plain
    assert body == "✗ port 8000 is taken\npid 12 [bold]x[/bold]\n\n→ stop it"


def test_keys_are_those_of_the_table_as_it_is_mapped() -> None:
    told = [("dialog.no", ""), ("columns.left columns.right", "move"), ("enter", "go")]
    assert keys_line(told) == "esc: no · shift+↑↓: move · enter: go"
    remap({"dialog.no": "ctrl+x"})
    try:
        assert keys_line(told).startswith("ctrl+x: no")
    finally:
        remap({})


@pytest.mark.parametrize(
    ("first", "typed"),
    [(0, [("knob_17", "k17"), ("PART 2 9", "k29"), ("nosuch", None)]), (25, [("2 9", "k29"), ("x", None)])],
    ids=["long", "short"],
)
async def test_a_list_is_filtered_by_typing(first: int, typed: list[tuple[str, str | None]]) -> None:
    choices = {f"k{index}": (f"part.knob_{index}", "what it does") for index in range(first, 30)}
    async with NotifyingApp(lambda: 0.0).run_test(size=(80, 24)) as pilot:
        for keys, answer in typed:
            given: list[object] = []
            pilot.app.push_screen(ChoiceMenu("Which?", choices), given.append)
            await settle(pilot)
            await press(pilot, *keys, "enter")
            if answer is None:
                assert given == [], "nothing to choose"
                await press(pilot, "escape")
            assert given == [answer]


async def test_arrows_move_in_a_filtered_list() -> None:
    choices = {f"k{index}": (f"knob_{index}", "what it does") for index in range(30)}
    given: list[object] = []
    async with NotifyingApp(lambda: 0.0).run_test(size=(80, 24)) as pilot:
        pilot.app.push_screen(ChoiceMenu("Which?", choices), given.append)
        await settle(pilot)
        await press(pilot, "1", "down", "down", "up", "enter")
    assert given == ["k10"]
