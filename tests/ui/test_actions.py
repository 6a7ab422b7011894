"""The table of actions: one key with one meaning, and everything that it says is there."""

from __future__ import annotations

from collections import defaultdict
from pkgutil import resolve_name

import pytest
from textual.actions import parse
from textual.dom import DOMNode
from textual.widgets import Input

from rltui.ui.actions import ACTIONS, PANES, SCREENS, KeyContext, Use, changing_keys, offered_on, uses
from rltui.ui.app import RltuiApp
from rltui.ui.base_screen import BaseScreen
from rltui.ui.logs.view import LogView
from rltui.ui.palette import Palette
from rltui.ui.screens import SCREENS as ON_TOP
from rltui.ui.screens.arranging import ArrangeLine
from rltui.ui.screens.column_dialog import ColumnDialog
from rltui.ui.screens.compare import CompareScreen
from rltui.ui.screens.config_dialogs import ConfigReview, ConverterDialog
from rltui.ui.screens.dialogs import Dialog, DialogBase, NoteDialog
from rltui.ui.screens.eval_dialog import EvalDialog
from rltui.ui.screens.fork_dialog import ForkDialog
from rltui.ui.screens.help import HelpScreen, all_rows, page, symbol_rows
from rltui.ui.screens.knob_editor import KnobEditor
from rltui.ui.screens.message_list import MessageList
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.knob_table import KnobRows
from rltui.ui.widgets.value_fields import ChosenValue, FractionValue, ListValue, TypedValue

MAIN: tuple[type[BaseScreen], ...] = (Overview, CompareScreen, *map(resolve_name, ON_TOP.values()))
OWNERS: dict[KeyContext, tuple[type[DOMNode], ...]] = {
    **{screen.place: (screen,) for screen in MAIN},
    KeyContext.KNOB_TABLE: (KnobRows,),
    KeyContext.LOG: (LogView,),
    KeyContext.NOTE: (NoteDialog,),
    KeyContext.EVALUATE: (EvalDialog,),
    KeyContext.FORK: (ForkDialog,),
    KeyContext.ARRANGE: (ArrangeLine,),
    KeyContext.COLUMNS: (ColumnDialog,),
    KeyContext.BOX: (DialogBase,),
    KeyContext.DIALOG: (Dialog,),
    KeyContext.REVIEW: (ConfigReview,),
    KeyContext.HELP: (HelpScreen,),
    KeyContext.HELP_LINE: (Input,),
    KeyContext.MESSAGES: (MessageList,),
    KeyContext.PALETTE: (Palette,),
    KeyContext.TOUR: (Overview,),
    KeyContext.CONVERTER: (ConverterDialog,),
    KeyContext.EDITOR: (KnobEditor,),
    KeyContext.FIELD: (TypedValue, ListValue, ChosenValue),
    KeyContext.NUMBER: (FractionValue,),
    KeyContext.FRACTION: (FractionValue,),
    KeyContext.CHOICE: (ChosenValue,),
    KeyContext.LIST: (ListValue,),
}
ON_MAIN = {*SCREENS, *(pane for panes in PANES.values() for pane in panes)}
SETTLED = {
    "question_mark": "help",
    "colon": "palette",
    "q": "detach",
    "z": "zoom",
    "j": "cursor.next",
    "slash": "search",
    "e": "edit",
    "i": "component.inference",
    "o": "component.orchestrator",
    "t": "component.trainer",
    "s": "component.start",
    "x": "component.stop",
    "r": "component.restart",
    "w": "log.wrap",
    "W": "write",
    "y": "copy",
    "c": "compare",
    "f": "filter",
    "b": "group",
    "m": "mark",
    "less_than_sign": "sort.back",
    "greater_than_sign": "sort",
}
NEVER = {"ctrl+a", "ctrl+b", "ctrl+q", "ctrl+s", "ctrl+z", *(f"f{number}" for number in range(1, 13))}
"""Keys of terminals, of tmux and screen, and those that many keyboards lack."""


def on_main(use: Use) -> bool:
    return not ON_MAIN.isdisjoint(use.places)


def test_a_key_means_one_thing_on_all_main_screens() -> None:
    meanings = defaultdict(set)
    for use in filter(on_main, uses()):
        for key in filter(None, use.keys.split(",")):
            meanings[key].add(use.id)
    assert {key: ids for key, ids in meanings.items() if len(ids) > 1} == {}
    assert {key: meanings[key] for key in SETTLED} == {key: {name} for key, name in SETTLED.items()}
    assert not NEVER & meanings.keys()
    assert not [key for key in meanings if key.startswith("alt+")]


def test_ids_are_unique_and_no_use_is_told_twice() -> None:
    ids = [action.id for action in ACTIONS]
    assert len(ids) == len(set(ids))
    for action in ACTIONS:
        told = [(place, use.name) for use in action.uses for place in use.places]
        assert len(told) == len(set(told)), action.id


@pytest.mark.parametrize("place", list(KeyContext))
def test_every_use_has_a_method_where_it_works(place: KeyContext) -> None:
    found = list(uses(place))
    assert found
    for use in found:
        namespace, _, _ = parse(use.name)
        owners = {"app": (RltuiApp,), "screen": (*MAIN, HelpScreen), "": OWNERS[place]}[namespace]
        method = f"action_{use.call[0]}"
        if namespace == "screen":
            assert any(hasattr(owner, method) for owner in owners), use.id
        else:
            assert all(hasattr(owner, method) for owner in owners), use.id


def test_every_screen_on_top_has_a_key_and_is_there() -> None:
    named = {str(use.call[1][0]) for use in uses() if use.call[0] == "show_screen"}
    assert named == set(ON_TOP)
    for screen in MAIN:
        assert issubclass(screen, BaseScreen)
        assert {use.id for use in uses(screen.place)} >= {"help", "palette", "detach", "back", "screen.runs"}


def test_what_changes_something_does_so_wherever_it_is_called() -> None:
    """`check_action` knows the method alone, not the place."""
    calls = defaultdict(set)
    for use in uses():
        calls[use.call].add(use.changes)
    assert [call for call, changes in calls.items() if len(changes) > 1] == []
    assert {"s", "x", "enter", "W"} <= changing_keys(KeyContext.OVERVIEW).keys() | changing_keys(
        KeyContext.KNOB_TABLE
    ).keys()


def help_text(*, readonly: bool = False) -> str:
    return page([*all_rows(readonly=readonly), *symbol_rows()], (), 10_000).plain


def test_help_is_complete() -> None:
    text = help_text()
    for use in (use for use in uses() if use.help):
        assert use.help in text, use.id
        assert use.shown_keys in text
    for use in filter(on_main, uses()):
        assert use.help, use.id
        assert use.label


def test_help_says_what_readonly_lacks() -> None:
    lines = help_text(readonly=True).splitlines()
    lacking = [line for line in lines if line.endswith("(not while read-only)")]
    for use in (use for use in uses() if use.changes):
        assert any(use.help in line for line in lacking), use.id
    assert not any(line.endswith("(not while read-only)") for line in help_text().splitlines())


def test_a_palette_offers_what_its_screen_has() -> None:
    offered = {use.id for use in offered_on(KeyContext.OVERVIEW)}
    assert {"component.start", "component.shell", "edit", "zoom", "write"} <= offered
    assert not {"cursor.down", "palette", "dialog.yes", "chart.smooth"} & offered
